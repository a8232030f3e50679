"""Tells how far a build is: a live line per program on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Reporter:
    """Prints to standard error, so that standard output carries only results."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """One plain line."""
        self._console.print(text, markup=False)

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Around one step: announces it, and tells its seconds when it is done."""
        started = time.monotonic()
        with self._running(title):
            yield
        self.say(f"{title}: done in {time.monotonic() - started:.0f} s")

    @contextmanager
    def _running(self, title: str) -> Iterator[None]:
        if not self._console.is_terminal:
            self.say(f"{title}: started")
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(title, total=None)
            yield
