"""What every policy has in common, and the policies that know nothing of gangs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from scheduler.core.capacity import Bools, Ints
from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.workload import Gang

GIVE_UP_S = 3600.0
"""Seconds after which an incomplete gang's owner deletes its pods and queues them anew, where the
policy places pod by pod. Without it, gangs that wait for each other's GPUs would do so for ever."""


class Placed(NamedTuple):
    """One pod of a gang was put on a node."""

    gang: str
    row: int


class Returned(NamedTuple):
    """An incomplete gang gave back all that it held."""

    gang: str


Move = Placed | Returned


class Scheduler(Protocol):
    """A policy with its own books. Every call says what it has done since, in order."""

    def submit(self, gang: Gang, now: float) -> list[Move]:
        """All pods of a gang were created."""
        ...

    def finish(self, gang: Gang, row: int, now: float) -> list[Move]:
        """One pod of a gang has ended, on that node; the others follow at the same time."""
        ...

    def tick(self, now: float) -> list[Move]:
        """It is as late as ``due`` said."""
        ...

    def due(self) -> float | None:
        """When it wants a tick; None: not at all."""
        ...


Choose = Callable[[Ints, int], int | None]
"""(free GPUs per node, GPUs wanted) -> the node, None where no node has so many."""


def chooser(name: str, rng: random.Random) -> Choose:
    """How a pod-by-pod policy picks a node; among equals at random, as kube-scheduler does.

    * ``spread``: the node with the largest share left, kube-scheduler's default
      (``NodeResourcesFit`` with LeastAllocated; ``BalancedAllocation`` sees no difference, since
      these pods ask for CPUs and memory in proportion to GPUs).
    * ``binpack``: the node with the smallest share left, MostAllocated.
    * ``random``: any.
    """
    scores: dict[str, Callable[[Ints], Ints]] = {
        "spread": lambda free: free,
        "binpack": lambda free: -free,
        "random": np.zeros_like,
    }
    score = scores[name]

    def choose(free: Ints, gpus: int) -> int | None:
        rows = np.flatnonzero(free >= gpus)
        if not rows.size:
            return None
        values = score(free[rows])
        best = rows[values == values.max()]
        return int(best[rng.randrange(best.size)])

    return choose


@dataclass(slots=True)
class _Waiting:
    gang: Gang
    left: int
    rows: list[int] = field(default_factory=list)
    since: float = 0.0
    """When its first pod was placed."""


class PodByPod:
    """kube-scheduler without gangs: every pod that fits is bound, in order of arrival.

    A pod that does not fit lets later ones pass.
    """

    def __init__(self, shape: Shape, choose: Choose, give_up_s: float = GIVE_UP_S) -> None:
        self._free = np.full(shape.count, shape.gpus, dtype=np.int64)
        self._choose = choose
        self._give_up_s = give_up_s
        self._waiting: dict[str, _Waiting] = {}

    def submit(self, gang: Gang, now: float) -> list[Move]:
        waiting = self._waiting[gang.name] = _Waiting(gang, gang.pods)
        return self._try([waiting], now)

    def finish(self, gang: Gang, row: int, now: float) -> list[Move]:
        self._free[row] += gang.gpus
        return self._try(list(self._waiting.values()), now)

    def tick(self, now: float) -> list[Move]:
        moves: list[Move] = []
        for waiting in [item for item in self._partial() if self._ends(item) <= now]:
            name = waiting.gang.name
            np.add.at(self._free, waiting.rows, waiting.gang.gpus)
            del self._waiting[name]
            self._waiting[name] = _Waiting(waiting.gang, waiting.gang.pods)
            moves.append(Returned(name))
        return moves + self._try(list(self._waiting.values()), now)

    def due(self) -> float | None:
        return min((self._ends(item) for item in self._partial()), default=None)

    def _partial(self) -> Iterable[_Waiting]:
        return (item for item in self._waiting.values() if item.rows)

    def _ends(self, waiting: _Waiting) -> float:
        return waiting.since + self._give_up_s

    def _try(self, queue: Iterable[_Waiting], now: float) -> list[Move]:
        moves: list[Move] = []
        most = int(self._free.max())
        for waiting in queue:
            if waiting.gang.gpus <= most:
                moves += self._fill(waiting, now)
                most = int(self._free.max())
        return moves

    def _fill(self, waiting: _Waiting, now: float) -> list[Move]:
        gang, moves = waiting.gang, list[Move]()
        while waiting.left:
            row = self._choose(self._free, gang.gpus)
            if row is None:
                return moves
            self._free[row] -= gang.gpus
            waiting.since = waiting.since if waiting.rows else now
            waiting.rows.append(row)
            waiting.left -= 1
            moves.append(Placed(gang.name, row))
        del self._waiting[gang.name]
        return moves


class Greedy:
    """Whole gangs, tightest place first: a rack that just holds all, else a block, else all racks.

    Among racks that are not enough alone, those with most room are filled first; within a rack the
    fullest nodes. It lets later gangs pass and keeps nothing for anybody.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._free = np.full(shape.count, shape.gpus, dtype=np.int64)
        self._waiting: dict[str, Gang] = {}

    def submit(self, gang: Gang, now: float) -> list[Move]:
        del now
        self._waiting[gang.name] = gang
        return self._try([gang])

    def finish(self, gang: Gang, row: int, now: float) -> list[Move]:
        del now
        self._free[row] += gang.gpus
        return self._try(list(self._waiting.values()))

    def tick(self, now: float) -> list[Move]:
        del now
        return []

    def due(self) -> float | None:
        return None

    def _try(self, queue: Iterable[Gang]) -> list[Move]:
        moves: list[Move] = []
        free = int(self._free.sum())
        for gang in queue:
            rows = best_fit(self._shape, self._free, gang) if gang.total <= free else None
            if rows is not None:
                free -= gang.total
                np.subtract.at(self._free, rows, gang.gpus)
                del self._waiting[gang.name]
                moves += [Placed(gang.name, row) for row in rows]
        return moves


def best_fit(shape: Shape, free: Ints, gang: Gang) -> list[int] | None:
    """The node of each pod, None where not all fit. O(n log n)."""
    seats = free // gang.gpus
    if int(seats.sum()) < gang.pods:
        return None
    by_rack = np.bincount(shape.rack_of, seats, shape.blocks * shape.racks).astype(np.int64)
    by_block = by_rack.reshape(shape.blocks, shape.racks).sum(axis=1)
    for held, of in ((by_rack, shape.rack_of), (by_block, shape.block_of)):
        enough = np.flatnonzero(held >= gang.pods)
        if enough.size:
            domain = enough[held[enough].argmin()]
            return _fill(seats, free, by_rack[shape.rack_of], of == domain, gang)
    return _fill(seats, free, by_rack[shape.rack_of], seats >= 0, gang)


def _fill(seats: Ints, free: Ints, in_rack: Ints, inside: Bools, gang: Gang) -> list[int]:
    rows = np.flatnonzero(inside & (seats > 0))
    rows = rows[np.lexsort((rows, free[rows], -in_rack[rows]))]
    return [int(row) for row in np.repeat(rows, seats[rows])[: gang.pods]]
