"""What people are shown of the engine, and the questions that they may ask it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.errors import MusterError
from scheduler.model import Pod
from scheduler.service.ports import Engine, Totals
from scheduler.service.recorder import snapshot_lines
from scheduler.service.runner import Runner
from scheduler.settings import Settings

Objects = Callable[[], Iterable[dict[str, Any]]]
"""Lists the API objects that decisions depend on. May raise ClusterError."""


class AskedError(MusterError):
    """Another question whether pods would fit is being answered."""

    def __init__(self) -> None:
        super().__init__("busy with another question; try again")


class Views(ABC):
    """The part of the service that people look at. May be called from any thread; each view raises
    BusyError if the engine is not free in time."""

    def __init__(
        self, settings: Settings, runner: Runner, objects: Objects | None, lock_wait_s: float
    ) -> None:
        self.settings = settings
        self.lock_wait_s = lock_wait_s
        self._runner = runner
        self._objects = objects
        self._judged = -1
        self._question = threading.Lock()

    @property
    @abstractmethod
    def _must_be_judged(self) -> bool:
        """Whether gangs are judged only when somebody looks, and the world is known."""

    def gangs(self) -> list[dict[str, Any]]:
        """Every gang."""
        with self._viewed() as engine:
            return engine.gangs()

    def why(self, key: str) -> Mapping[str, Any] | None:
        """Why the gang ``namespace/name`` is where it is; None = no such gang."""
        with self._viewed() as engine:
            return engine.why(key)

    def nodes(self) -> list[dict[str, Any]]:
        """Every node with its room."""
        with self._viewed() as engine:
            return engine.nodes()

    def snapshot(self) -> dict[str, Any]:
        """The whole state."""
        with self._viewed() as engine:
            return engine.snapshot()

    def snapshot_lines(self) -> Iterator[str] | None:
        """The cluster as a replay file, read anew from where its objects are; None if nobody has
        said where that is: an empty cluster would be a lie."""
        return snapshot_lines(self.settings, self._objects()) if self._objects else None

    def levels(self) -> list[str]:
        """The label keys of the topology levels, broadest first."""
        with self._viewed() as engine:
            return engine.levels()

    def overview(self) -> dict[str, Any]:
        """The cluster in a few figures."""
        with self._viewed() as engine:
            return engine.overview()

    @contextmanager
    def question(self) -> Iterator[None]:
        """Around ``fit``: one at a time, so that plans are made in between. Raises AskedError."""
        if not self._question.acquire(blocking=False):
            raise AskedError
        try:
            yield
        finally:
            self._question.release()

    def fit(self, pods: Sequence[Pod]) -> dict[str, Any]:
        """Whether these pods would start now, where, and what is missing. Changes nothing."""
        with self._viewed() as engine:
            return engine.fit(pods)

    def history(self) -> list[dict[str, Any]]:
        """Figures of the last day, one a minute, the oldest first; ``ago_s`` says when."""
        return self._runner.history.points(self._runner.now())

    @property
    def steps(self) -> int:
        """How many events were taken in: while it stands still, so does every view."""
        return self._runner.steps

    def totals(self) -> Totals:
        """Counts for metrics."""
        with self._viewed() as engine:
            return engine.totals()

    @contextmanager
    def _viewed(self) -> Iterator[Engine]:
        """The engine for a view. One that stands by judges gangs only when somebody looks."""
        with self._runner.locked(self.lock_wait_s) as engine:
            if self._must_be_judged and self._judged != self._runner.steps:
                engine.judge()
                self._judged = self._runner.steps
            yield engine
