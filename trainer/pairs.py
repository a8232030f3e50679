"""Who is measured against whom, and who is to blame. Pure.

Neighbours are paired first. A pair that is slow does not say which of the two is: each of them
is paired once more, with a member of a good pair, and who is slow again is bad. If both do
well with others, it is the way between them. (The idea is DLRover's network check.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_high

Pair = tuple[int, int]
Speeds = Mapping[Pair, float]
"""Gbit/s between two ranks, lower rank first; 0 where they did not reach each other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    slow_ranks: tuple[int, ...] = ()
    slow_pairs: tuple[Pair, ...] = ()
    """Pairs whose members do well with others, or could not be told apart."""
    threshold: float = 0.0
    """Gbit/s."""

    @property
    def good(self) -> bool:
        return not self.slow_ranks and not self.slow_pairs


def first_rounds(size: int) -> list[list[Pair]]:
    """Every rank in a pair; an odd one out comes in a round of its own, with rank 0."""
    rounds = [[(rank, rank + 1) for rank in range(0, size - 1, 2)]]
    if size % 2 and size > 1:
        rounds.append([(0, size - 1)])
    return [pairs for pairs in rounds if pairs]


def threshold(speeds: Speeds, least: float, share: float) -> float:
    """Gbit/s below which a pair is slow: what is asked for, or a share of the median; of two in
    the middle the faster, as one bad pair of two must not set its own standard.
    """
    usual = median_high(speeds.values()) if speeds else 0.0
    return least or share * usual


def swapped(speeds: Speeds, limit: float) -> list[list[Pair]]:
    """Rounds in which each member of a slow pair meets a member of a good one."""
    slow = [pair for pair, speed in speeds.items() if speed < limit]
    suspects = sorted({rank for pair in slow for rank in pair})
    good = sorted({rank for pair in speeds for rank in pair} - set(suspects))
    rounds: list[list[Pair]] = []
    while suspects and good:
        now, suspects = suspects[: len(good)], suspects[len(good) :]
        rounds.append([_pair(a, b) for a, b in zip(now, good, strict=False)])
    return rounds


def judge(first: Speeds, second: Speeds, limit: float, share: float = 1.0) -> Verdict:
    """Who is slow with two partners is bad, unless the partner it was slow with at first is slower
    still, by that share: then the second way was merely longer, between racks for example. The
    rest of the slow pairs is a matter of the way.
    """
    slow = sorted(pair for pair, speed in first.items() if speed < limit)
    again: dict[int, float] = {}
    for pair, speed in second.items():
        for rank in pair:
            again[rank] = max(speed, again.get(rank, 0.0))
    bad = {
        rank
        for pair in slow
        for rank, other in (pair, pair[::-1])
        if again.get(rank, limit) < limit and again.get(other, limit) >= share * again[rank]
    }
    ways = [pair for pair in slow if not bad & set(pair)]
    return Verdict(tuple(sorted(bad)), tuple(ways), limit)


def partner(rank: int, pairs: Sequence[Pair]) -> int | None:
    for low, high in pairs:
        if rank in (low, high):
            return high if rank == low else low
    return None


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
