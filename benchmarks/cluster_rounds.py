"""In which order arms and loads are measured, and what is left out where time is short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.cluster_arms import Arm
from benchmarks.cluster_bars import RATIOS

_THEN = (
    *("burst", "stock", "native", "burst-gated", "nominate", "follow", "raw"),
    "native-topology",
)
"""In this order arms are measured with what no bar depends on: the slowest last."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is measured while the processes of one arm run."""

    repeat: int
    arm: Arm
    loads: Sequence[str]


def rotated(arms: Sequence[Arm], repeat: int) -> list[Arm]:
    """Every repeat begins with another arm, so that none always comes first or last."""
    turn = repeat % len(arms)
    return [*arms[turn:], *arms[:turn]]


def every_round(arms: Sequence[Arm], loads: Sequence[str], repeats: int) -> Iterator[Round]:
    """All loads on all arms, as often as all others."""
    for repeat in range(repeats):
        for arm in rotated(arms, repeat):
            yield from _round(repeat, arm, loads)


def short_rounds(
    arms: Sequence[Arm], loads: Sequence[str], repeats: int, nodes: int
) -> Iterator[Round]:
    """What a bar depends on ``repeats`` times, then all else once."""
    for repeat in range(repeats):
        for arm in rotated(arms, repeat):
            yield from _round(repeat, arm, [load for load in loads if _bears(arm, nodes, load)])
    for arm in sorted(arms, key=lambda arm: _THEN.index(arm.name)):
        yield from _round(0, arm, [load for load in loads if not _bears(arm, nodes, load)])


def _bears(arm: Arm, nodes: int, load: str) -> bool:
    """Whether a bar is a ratio with this row."""
    return any((arm.name, nodes, load) in (bar.upper, bar.lower) for bar in RATIOS)


def _round(repeat: int, arm: Arm, loads: Sequence[str]) -> Iterator[Round]:
    possible = [load for load in loads if not arm.raw or load.startswith("1x")]
    if possible:
        yield Round(repeat, arm, possible)


class Budget:
    """How long the measurements may take, shared out among the numbers of nodes.

    More nodes get more of the time, by the square root; what one leaves is for the next.
    """

    def __init__(
        self, seconds: float, nodes: Sequence[int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._left = {count: count**0.5 for count in nodes}
        self._until = self._end

    def begin(self, nodes: int) -> None:
        """Turn to this number of nodes."""
        now = self._clock()
        share = self._left[nodes] / sum(self._left.values())
        self._until = now + share * (self._end - now)
        del self._left[nodes]

    def is_spent(self) -> bool:
        """Whether no more is to be begun with these nodes."""
        return self._clock() >= self._until
