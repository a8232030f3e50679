"""What the node's annotations should say now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.agent.holding import gpus_in_use
from scheduler.agent.kubelet import Holders
from scheduler.agent.reading import Failed, NoDevices, NotThere, Reading
from scheduler.core.devices_annotation import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    Indexes,
    InUse,
    write_in_use,
    write_topology,
)

TOPOLOGY_S = 600.0
"""Between two looks at the topology: it changes by repairs, and the tools that tell it are slow."""

NAMES_S = 300.0
"""After which names are published again though they are the same: they count only for pods that
had started when they were read."""
LONGEST = 1 << 16
"""Characters of who has which GPUs; all annotations of a node together have room for 256 KiB."""

Read = Callable[[], Reading | NoDevices | Failed]
ReadHolders = Callable[[], Holders | NotThere | Failed]


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

    def __init__(
        self,
        read: Read,
        read_holders: ReadHolders,
        retry_s: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``wall`` gives seconds since the epoch, by the clock that the kubelet goes by."""
        self._read = read
        self._read_holders = read_holders
        self._retry_s = retry_s
        self._wall = wall
        self._names = _Names()
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
        in_use, more = self._in_use(now)
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

    def _in_use(self, now: float) -> tuple[dict[str, str | None], list[Remark]]:
        if self._known is None:
            return {}, []
        at = int(self._wall())
        found = self._read_holders()
        if isinstance(found, NotThere):
            text = f"GPUs in use are not published: {found.reason}"
            return {IN_USE_KEY: None}, [Remark(text, warning=found.wanted)]
        if isinstance(found, Failed):
            return {}, [Remark(found.reason)]
        gpus = gpus_in_use(found.held, self._known)
        text = write_in_use(self._names.dated(gpus, now, at) if found.named else InUse(gpus))
        if len(text) > LONGEST:
            text = f"{len(gpus)} pods with GPUs are more than an annotation has room for"
            return {}, [Remark(f"GPUs in use are not published: {text}")]
        return {IN_USE_KEY: text}, []


class _Names:
    """The names that were published last, and when they were read."""

    def __init__(self) -> None:
        self._last = InUse()
        self._dated = 0.0

    def dated(self, gpus: Mapping[str, Indexes], now: float, at: int) -> InUse:
        """These names; while they stay the same, as they were read before."""
        due = now >= self._dated + NAMES_S and gpus
        if due or gpus != self._last.by_name or not self._last.at:
            self._last = InUse(by_name=gpus, at=at)
            self._dated = now
        return self._last
