"""How fast each rank is on its own, and who holds the others up.

A step ends for all at once, so its length says nothing of a single rank. What a rank does before
it needs the others is its own: taking its samples and the forward pass. The score of a rank is
the best rank's own time over its own: 1 for the fastest, 0.5 for one that takes twice as long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

AGREE_FIRST = 1.0
"""Seconds that a step is taken to need before one was timed."""

SLOW = 0.7
"""Score below which a rank is called a straggler."""


@dataclass(slots=True)
class Pace:
    """CPU timers of one rank since the last reading. Seconds."""

    data: float = 0.0
    own: float = 0.0
    """Samples and forward passes, and backward passes that need nobody."""
    shared: float = 0.0
    """Backward passes with their reductions, and waiting for the others."""
    steps: int = 0
    started: float = field(default_factory=time.perf_counter)

    last: tuple[int, float] | None = None
    """Step and time at which the ranks last agreed."""

    def since_agreed(self, step: int) -> float:
        """Seconds of a step since the last call; none at the first."""
        now, last = time.perf_counter(), self.last
        self.last = (step, now)
        return (now - last[1]) / max(1, step - last[0]) if last else AGREE_FIRST

    @contextmanager
    def timing(self, *names: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            for name in names:
                setattr(self, name, getattr(self, name) + spent)

    @property
    def wall(self) -> float:
        return time.perf_counter() - self.started


def scores(own: Sequence[float]) -> list[float]:
    """Each rank's score, 0 to 1, from the ranks' own seconds. Ranks without work score 1."""
    working = [seconds for seconds in own if seconds > 0]
    best = min(working, default=0.0)
    return [round(best / seconds, 4) if seconds > 0 else 1.0 for seconds in own]


def stragglers(found: Sequence[float], limit: float = SLOW) -> list[int]:
    return [rank for rank, score in enumerate(found) if score < limit]


def exchanged(own: float, world_size: int) -> list[float]:
    """Collective. Everybody's own seconds, by rank."""
    import torch
    import torch.distributed as dist

    if world_size == 1:
        return [own]
    seats = [torch.zeros(1, dtype=torch.float64) for _ in range(world_size)]
    dist.all_gather(seats, torch.tensor([own], dtype=torch.float64))
    return [float(seat) for seat in seats]
