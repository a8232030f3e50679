"""The events of a trace in order of time, and books that trust no policy."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.scheduling import Move, Placed, Returned, Scheduler
from scheduler.simulation.trace.workload import Gang

IDLE_TICKS = 10_000
"""Ticks without any move after which a policy is stuck."""

_END, _ARRIVAL = 0, 1
"""At the same instant what ends comes first."""


@dataclass(slots=True)
class Fate:
    """What became of one gang."""

    gang: Gang
    rows: list[int] = field(default_factory=list)
    """Nodes of its pods."""
    started: float | None = None
    returns: int = 0
    """How often it gave everything back."""
    held_gpu_s: float = 0.0
    """GPU-seconds that it held while it was not complete."""
    held_from: float = 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster between one event and the next."""

    at: float
    running: int
    """GPUs of complete gangs."""
    held: int
    """GPUs of incomplete gangs."""
    waiting: int
    """Gangs that have arrived and do not run."""
    broken: int
    """Free GPUs on nodes of which others are taken."""


Watch = Callable[[Fate, "Books"], None]
"""Called when a gang starts, with the room as it was: its own seats are free again."""


class Books:
    """Who has which GPUs. Raises AssertionError where a policy breaks the rules."""

    def __init__(self, shape: Shape, gangs: Iterable[Gang], on_start: Watch | None = None) -> None:
        self.shape = shape
        self.fates = {gang.name: Fate(gang) for gang in gangs}
        self.free = np.full(shape.count, shape.gpus, dtype=np.int64)
        self.samples: list[Sample] = []
        self._running = self._held = self._waiting = 0
        self._on_start = on_start

    def arrive(self) -> None:
        self._waiting += 1

    def apply(self, moves: Iterable[Move], now: float) -> list[Fate]:
        """Enter what a policy did; the gangs that started by it."""
        started = []
        for move in moves:
            fate = self.fates[move.gang]
            if isinstance(move, Returned):
                self._return(fate, now)
            elif self._place(fate, move, now):
                started.append(fate)
        return started

    def end(self, gang: Gang, row: int) -> None:
        """A pod has run."""
        self.free[row] += gang.gpus
        self._running -= gang.gpus

    def sample(self, now: float) -> None:
        """Note how things are from now on."""
        part = (self.free > 0) & (self.free < self.shape.gpus)
        broken = int(self.free[part].sum())
        found = Sample(now, self._running, self._held, self._waiting, broken)
        if self.samples and self.samples[-1].at == now:
            self.samples.pop()
        self.samples.append(found)

    def _place(self, fate: Fate, move: Placed, now: float) -> bool:
        gang = fate.gang
        assert fate.started is None, f"{gang.name} runs already"
        assert self.free[move.row] >= gang.gpus, f"{gang.name} on a node without {gang.gpus} free"
        self._hold(fate, now)
        fate.rows.append(move.row)
        self.free[move.row] -= gang.gpus
        self._held += gang.gpus
        if len(fate.rows) < gang.pods:
            return False
        self._start(fate, now)
        return True

    def _start(self, fate: Fate, now: float) -> None:
        gang = fate.gang
        fate.started = now
        self._held -= gang.total
        self._running += gang.total
        self._waiting -= 1
        if self._on_start is not None:
            np.add.at(self.free, fate.rows, gang.gpus)
            self._on_start(fate, self)
            np.subtract.at(self.free, fate.rows, gang.gpus)

    def _return(self, fate: Fate, now: float) -> None:
        assert fate.started is None, f"{fate.gang.name} gave back while it ran"
        self._hold(fate, now)
        np.add.at(self.free, fate.rows, fate.gang.gpus)
        self._held -= len(fate.rows) * fate.gang.gpus
        fate.rows.clear()
        fate.returns += 1

    def _hold(self, fate: Fate, now: float) -> None:
        """Count what it held since the last change."""
        fate.held_gpu_s += len(fate.rows) * fate.gang.gpus * (now - fate.held_from)
        fate.held_from = now


class Replay:
    """The events to come, in order of time."""

    def __init__(self, gangs: Iterable[Gang], scheduler: Scheduler, books: Books) -> None:
        self._scheduler = scheduler
        self._books = books
        self._number = itertools.count()
        self._events: list[tuple[float, int, int, Gang]] = []
        for gang in gangs:
            self._add(gang.arrival_s, _ARRIVAL, gang)

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Let everything happen. ``progress`` gets the number of gangs that have ended.

        Ends when no event is left, or when the policy ticks on without doing anything.
        """
        idle = ended = 0
        while idle < IDLE_TICKS:
            due = self._scheduler.due()
            if due is not None and (not self._events or due < self._events[0][0]):
                moves = self._scheduler.tick(due)
                self._enter(due, moves)
                idle = 0 if moves else idle + 1
            elif self._events:
                ended += self._happen(*heapq.heappop(self._events))
                idle = 0
                if progress is not None:
                    progress(ended)
            else:
                return

    def _happen(self, now: float, kind: int, _: int, gang: Gang) -> bool:
        """One event; whether a gang has ended by it."""
        if kind == _ARRIVAL:
            self._books.arrive()
            self._enter(now, self._scheduler.submit(gang, now))
            return False
        for row in self._books.fates[gang.name].rows:
            self._books.end(gang, row)
            self._enter(now, self._scheduler.finish(gang, row, now))
        return True

    def _enter(self, now: float, moves: Iterable[Move]) -> None:
        for fate in self._books.apply(moves, now):
            self._add(now + fate.gang.duration_s, _END, fate.gang)
        self._books.sample(now)

    def _add(self, when: float, kind: int, gang: Gang) -> None:
        heapq.heappush(self._events, (when, kind, next(self._number), gang))
