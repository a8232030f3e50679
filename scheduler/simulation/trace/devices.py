"""A cluster whose GPUs are shared: what is free on every single device."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler.core.capacity import Bools, Ints

WHOLE = 1000
"""Thousandths of one GPU."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one pod asks for."""

    cpu: int
    """Millicores."""
    memory: int
    """MiB."""
    gpus: int
    milli: int
    """Thousandths of each of its GPUs."""
    models: frozenset[str] = frozenset()
    """GPU models that will do; empty: any."""

    @property
    def total(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli

    @property
    def shares(self) -> bool:
        """Whether it leaves a part of its GPU to others."""
        return self.gpus == 1 and self.milli < WHOLE


@dataclass(slots=True)
class Devices:
    """What is free. Rows are nodes in name order."""

    names: tuple[str, ...]
    models: npt.NDArray[np.str_]
    """[n], "" for a node without GPUs."""
    cpu: Ints
    memory: Ints
    milli: Ints
    """int64 [n, d]: thousandths free on each device; a device that a node lacks has none."""
    total: int = field(init=False)
    """Thousandths of GPUs in all."""

    def __post_init__(self) -> None:
        self.total = int(self.milli.sum())

    def copy(self) -> Devices:
        """The same room, to be filled independently."""
        copied = Devices(
            self.names, self.models, self.cpu.copy(), self.memory.copy(), self.milli.copy()
        )
        copied.total = self.total
        return copied

    def fits(self, share: Share) -> Bools:
        """bool [n]: where a pod has room."""
        ok = (self.cpu >= share.cpu) & (self.memory >= share.memory)
        if share.gpus:
            ok &= (self.milli >= share.milli).sum(axis=1) >= share.gpus
            if share.models:
                ok &= np.isin(self.models, sorted(share.models))
        return np.asarray(ok, dtype=np.bool_)

    def take(self, row: int, share: Share, device: int | None = None) -> None:
        """Place a pod on a node, on one device or where it fits tightest.

        Raises AssertionError where it has no room.
        """
        chosen = np.array([device]) if device is not None else tightest(self.milli[row], share)
        assert chosen.size == share.gpus, f"{self.names[row]} has too few GPUs for {share}"
        self.cpu[row] -= share.cpu
        self.memory[row] -= share.memory
        self.milli[row, chosen] -= share.milli
        left = (self.cpu[row], self.memory[row], *self.milli[row, chosen])
        assert min(left) >= 0, f"{self.names[row]} has no room for {share}"


def tightest(free: Ints, share: Share) -> Ints:
    """The devices with least free among those that suffice; the first among equals."""
    enough = np.flatnonzero(free >= share.milli)
    return enough[free[enough].argsort(kind="stable")][: share.gpus]
