"""What the node's annotations should say now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scheduler.agent.checkpoint import NoCheckpoint, read_checkpoint
from scheduler.agent.holding import gpus_in_use
from scheduler.agent.reading import Failed, NoDevices, Reading
from scheduler.core.devices_annotation import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    write_in_use,
    write_topology,
)

TOPOLOGY_S = 600.0
"""Between two looks at the topology: it changes by repairs, and the tools that tell it are slow."""

Read = Callable[[], Reading | NoDevices | Failed]


class Remark(NamedTuple):
    """Something to log."""

    text: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """The outcome of one look."""

    wanted: Mapping[str, str | None]
    """Annotation -> its text, None to remove it; what cannot be told now is not there."""
    remarks: tuple[Remark, ...]
    failed: bool
    """Whether something that should be readable was not."""


class Watcher:
    """Looks at the devices now and then, and at who has them every time."""

    def __init__(self, read: Read, root: Path, retry_s: float) -> None:
        self._read = read
        self._root = root
        self._retry_s = retry_s
        self._last: Reading | NoDevices | Failed | None = None
        self._known: Reading | None = None
        """The last good reading; a tool that fails once does not make it wrong."""
        self._due = 0.0
        self._pause_s = retry_s

    def look(self, now: float) -> Look:
        """What should be published; `now` in seconds of any clock that only goes forward."""
        if self._last is None or now >= self._due:
            self._look_at_devices(now)
        if isinstance(self._last, NoDevices):
            nothing = dict.fromkeys((TOPOLOGY_KEY, IN_USE_KEY))
            return Look(nothing, (Remark(self._last.reason, warning=False),), failed=False)
        failure = self._last if isinstance(self._last, Failed) else None
        wanted, remarks = self._topology()
        in_use, more = self._in_use()
        broken = failure is not None or any(remark.warning for remark in more)
        return Look({**wanted, **in_use}, (*remarks, *more), failed=broken)

    def _look_at_devices(self, now: float) -> None:
        self._last = self._read()
        if isinstance(self._last, Failed):
            self._due = now + self._pause_s
            self._pause_s = min(self._pause_s * 2, TOPOLOGY_S)
            return
        self._known = self._last if isinstance(self._last, Reading) else None
        self._due = now + TOPOLOGY_S
        self._pause_s = self._retry_s

    def _topology(self) -> tuple[dict[str, str | None], list[Remark]]:
        if isinstance(self._last, Failed):
            return {}, [Remark(self._last.reason)]
        if self._known is None:
            return {}, []
        found = Remark(
            f"{self._known.devices.matrix.gpus} GPUs by {self._known.source}", warning=False
        )
        doubts = [Remark(f"{self._known.source}: {text}") for text in self._known.remarks]
        return {TOPOLOGY_KEY: write_topology(self._known.devices)}, [found, *doubts]

    def _in_use(self) -> tuple[dict[str, str | None], list[Remark]]:
        if self._known is None:
            return {}, []
        held = read_checkpoint(self._root)
        if isinstance(held, NoCheckpoint):
            return {IN_USE_KEY: None}, [Remark(held.reason, warning=False)]
        if isinstance(held, Failed):
            return {}, [Remark(held.reason)]
        return {IN_USE_KEY: write_in_use(gpus_in_use(held, self._known))}, []
