"""What the demo shows while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scheduler.simulation.observer import GangSeen, Observer

SHOWN = 8
"""Waiting gangs in the table."""

REFRESH_S = 0.12
LINE_S = 3.0
"""Wall seconds between two plain lines."""

Gangs = Iterable[Mapping[str, Any]]
"""Gangs as ``/v1/gangs`` shows them."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The state of the demo at one moment."""

    now: float
    arrived: int
    total: int
    """Gangs of the whole day."""
    waiting: list[GangSeen]
    started: int
    running: int
    gpus_used: int
    gpus: int
    racks_used: int
    mean_racks: float
    partial: int
    reasons: Mapping[str, str]
    """Gang -> why it waits, as Muster says."""
    training: str


def glance(
    observer: Observer, now: float, total: int, gpus: int, gangs: Gangs, training: str
) -> Glance:
    """Put together what is shown."""
    return Glance(
        now=now,
        arrived=len(observer.gangs),
        total=total,
        waiting=observer.waiting(),
        started=len(observer.started()),
        running=len(observer.running()),
        gpus_used=observer.gpus_used,
        gpus=gpus,
        racks_used=observer.racks_used(),
        mean_racks=observer.mean_racks(),
        partial=observer.partial_moments,
        reasons={str(gang["key"]): str(gang["reason"]) for gang in gangs},
        training=training,
    )


class Display:
    """Shows a glance now and then; ``look`` is only called when something will be shown."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next = clock()

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, look: Callable[[], Glance], *, force: bool = False) -> None:
        """Show a new glance if it is time for one."""
        if self._clock() < self._next and not force:
            return
        if self._live is not None:
            self._live.update(as_table(look()), refresh=True)
        else:
            self._console.print(as_line(look()), soft_wrap=True, highlight=False, markup=False)
        self._next = self._clock() + (LINE_S if self._live is None else REFRESH_S)


def clock_text(now: float) -> str:
    """Virtual seconds as hours and minutes."""
    return f"{int(now) // 3600:02d}:{int(now) // 60 % 60:02d}"


def as_line(seen: Glance) -> str:
    """One plain line, with why the gang that waits longest does."""
    line = (
        f"{clock_text(seen.now)}  gangs: {seen.arrived}/{seen.total} arrived, "
        f"{len(seen.waiting)} waiting, {seen.running} running; "
        f"GPUs {seen.gpus_used}/{seen.gpus}; racks used {seen.racks_used}; partial {seen.partial}"
    )
    if seen.waiting:
        first = seen.waiting[0].name
        line += f"; {first} waits: {seen.reasons.get(first) or 'it has just arrived'}"
    return f"{line}; training: {seen.training}" if seen.training else line


def as_table(seen: Glance) -> RenderableType:
    """The live view."""
    return Group(_numbers(seen), _waiting(seen), Text(f"training: {seen.training or '-'}"))


def _numbers(seen: Glance) -> Table:
    table = Table(box=SIMPLE, expand=False)
    columns = {
        "time": clock_text(seen.now),
        "arrived": f"{seen.arrived}/{seen.total}",
        "waiting": str(len(seen.waiting)),
        "running": str(seen.running),
        "partial": str(seen.partial),
        "GPUs in use": _bar(seen.gpus_used, seen.gpus),
        "racks": str(seen.racks_used),
        "racks per gang": f"{seen.mean_racks:.2f}",
    }
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(*columns.values())
    return table


def _bar(used: int, total: int, width: int = 12) -> str:
    filled = round(width * used / total) if total else 0
    return f"{'█' * filled}{'░' * (width - filled)} {used:3d}/{total}"


def _waiting(seen: Glance) -> Table:
    table = Table(box=SIMPLE, expand=False)
    table.add_column("waiting gang", no_wrap=True)
    table.add_column("GPUs", justify="right")
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for gang in seen.waiting[:SHOWN]:
        gpus = sum(member.gpus for member in gang.members.values())
        waits = f"{(seen.now - gang.arrived) / 60:.0f} min"
        table.add_row(gang.name, str(gpus), waits, Text(seen.reasons.get(gang.name, "")))
    more = len(seen.waiting) - SHOWN
    if more > 0:
        table.add_row("…", "", "", f"and {more} more")
    return table
