"""What a replay came to: waits, use, closeness, and what incomplete gangs held."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scheduler.core.placement import Ask, Seats, place
from scheduler.simulation.trace.replaying import Books, Fate, Sample

CLASSES = ((1, "1"), (8, "2-8"), (32, "9-32"), (math.inf, "33 and more"))
"""(most GPUs, name): gangs are told apart by the GPUs that they ask for in all."""


@dataclass(slots=True)
class Closeness:
    """How far apart gangs of several pods were put, beside the closest that was possible.

    The closest is what the exact placement finds with the room that there was when the gang's last
    pod was placed, its own seats free again.
    """

    spans: list[tuple[int, int]] = field(default_factory=list)
    """Per gang: GPUs and nodes."""
    racks: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    best: list[tuple[int, ...]] = field(default_factory=list)
    """Per gang: fewest blocks, then racks, then nodes."""

    def watch(self, fate: Fate, books: Books) -> None:
        """Measure one gang; called when it starts."""
        gang, shape = fate.gang, books.shape
        if gang.pods == 1:
            return
        rows = np.array(fate.rows)
        self.spans.append((gang.total, int(np.unique(rows).size)))
        self.racks.append(int(np.unique(shape.rack_of[rows]).size))
        self.blocks.append(int(np.unique(shape.block_of[rows]).size))
        ask = Ask(gang.pods, books.free // gang.gpus, books.free, gang.gpus)
        seats = place(shape.fabric, ask)
        assert isinstance(seats, Seats)
        self.best.append(seats.domains)

    def told(self) -> dict[str, Any]:
        """Means, and totals over the totals of the closest."""
        if not self.best:
            return {"gangs": 0}
        blocks, racks, _ = (sum(column) for column in zip(*self.best, strict=True))
        return {
            "gangs": len(self.best),
            "nodes": _mean([nodes for _, nodes in self.spans]),
            "racks": _mean(self.racks),
            "blocks": _mean(self.blocks),
            "racks_over_optimum": round(sum(self.racks) / racks, 4),
            "blocks_over_optimum": round(sum(self.blocks) / blocks, 4),
        }


def summary(books: Books, closeness: Closeness) -> dict[str, Any]:
    """All figures of one replay."""
    fates = list(books.fates.values())
    started = [fate for fate in fates if fate.started is not None]
    ends = [_started(fate) + fate.gang.duration_s for fate in started]
    makespan = max(ends, default=0.0)
    last = max((fate.gang.arrival_s for fate in fates), default=0.0)
    return {
        "gangs": len(fates),
        "never_started": len(fates) - len(started),
        "makespan_s": round(makespan),
        **_waits(started),
        "by_gpus": {name: _waits(of) for name, of in by_class(started).items()},
        "partial_gpu_s": round(math.fsum(fate.held_gpu_s for fate in fates)),
        "given_back": sum(fate.returns for fate in fates),
        **means(books.samples, books.shape.total, last),
        "closeness": closeness.told(),
    }


def by_class(fates: Iterable[Fate]) -> dict[str, list[Fate]]:
    """Gangs by the GPUs that they ask for; classes without a gang are left out."""
    found: dict[str, list[Fate]] = {name: [] for _, name in CLASSES}
    for fate in fates:
        found[next(name for most, name in CLASSES if fate.gang.total <= most)].append(fate)
    return {name: of for name, of in found.items() if of}


def waits(fates: Iterable[Fate]) -> list[float]:
    """Seconds from a gang's arrival to the placement of its last pod."""
    return [_started(fate) - fate.gang.arrival_s for fate in fates]


def means(samples: Sequence[Sample], total: int, until: float) -> dict[str, float]:
    """Shares over the time in which gangs arrive, in per cent: of all GPUs, those that ran complete
    gangs; of the free ones, those on nodes that were broken up."""
    running = broken = free = 0.0
    ends = [sample.at for sample in samples[1:]] + [until]
    for sample, end in zip(samples, ends, strict=True):
        lasted = max(0.0, min(end, until) - sample.at)
        running += sample.running * lasted
        broken += sample.broken * lasted
        free += (total - sample.running - sample.held) * lasted
    return {
        "used_pct": round(100 * running / (total * until), 2) if until else 0.0,
        "broken_free_pct": round(100 * broken / free, 2) if free else 0.0,
    }


def _waits(fates: Sequence[Fate]) -> dict[str, float]:
    found = waits(fates) or [0.0]
    return {
        "started": len(fates),
        "mean_wait_s": round(math.fsum(found) / len(found), 1),
        "p99_wait_s": round(float(np.percentile(found, 99)), 1),
    }


def _started(fate: Fate) -> float:
    assert fate.started is not None
    return fate.started


def _mean(values: Sequence[int]) -> float:
    return round(sum(values) / len(values), 3)
