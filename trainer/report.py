"""What people and programs see of a run: progress on standard error, one report at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol, TextIO


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a finished run, as printed by rank 0."""

    world: int
    """Processes."""
    rank_order: tuple[str, ...]
    """Where each node lies, in rank order."""
    accuracy: float
    """Share of the held-out samples classified correctly."""
    loss: float
    """Mean cross entropy over the held-out samples."""
    steps: int
    resumed_from: int | None
    """Step of the checkpoint that the run started from."""

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def publish(report: Report, path: Path | None, stream: TextIO | None = None) -> None:
    """Print the report as one line, the last of standard output, and write it to the file."""
    if path is not None:
        path.write_text(report.as_json() + "\n", encoding="utf-8")
    print(report.as_json(), file=stream or sys.stdout, flush=True)


class Progress(Protocol):
    """Told after every step."""

    def __call__(self, step: int, loss: float) -> None: ...


@contextmanager
def progress(steps: int, every: int, *, shown: bool, stream: TextIO) -> Iterator[Progress]:
    """A bar on a terminal, a line every so many steps elsewhere, nothing where not shown."""
    if not shown or every == 0:
        yield _silent
    elif stream.isatty():
        with _bar(steps, stream) as bar:
            yield bar
    else:
        yield _lines(steps, every, stream)


def _silent(step: int, loss: float) -> None:
    """Ranks that show nothing."""


def _lines(steps: int, every: int, stream: TextIO) -> Progress:
    def line(step: int, loss: float) -> None:
        if step % every == 0 or step == steps:
            print(f"step {step}/{steps} loss {loss:.4f}", file=stream, flush=True)

    return line


@contextmanager
def _bar(steps: int, stream: TextIO) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=stream)) as bar:
        task = bar.add_task("training", total=steps, loss=float("nan"))
        yield lambda step, loss: bar.update(task, completed=step, loss=loss)
