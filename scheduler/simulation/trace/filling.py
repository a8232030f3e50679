"""A trace of pods that share GPUs through several policies and seeds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.core.capacity import Ints
from scheduler.simulation.trace import charts, sharing
from scheduler.simulation.trace.devices import Devices, Share
from scheduler.simulation.trace.fragments import careful, gradient_descent
from scheduler.simulation.trace.openb import arrivals
from scheduler.simulation.trace.sharing import Filled, Pick

POLICIES = ("muster", "fgd", "tightest", "bestfit", "random")


def run(policy: str, nodes: Devices, pods: Sequence[Share], load: float, seed: int) -> Filled:
    """One filling. The seed draws the order of pods, the copies, and how ties are broken; it draws
    the same for every policy."""
    rng = random.Random(seed)
    rank = list(range(len(nodes.names)))
    rng.shuffle(rank)
    order = arrivals(pods, nodes.total, load, rng)
    room = nodes.copy()
    return sharing.fill(room, order, policy_of(policy, room, pods, np.array(rank), rng))


def policy_of(
    policy: str, room: Devices, pods: Sequence[Share], rank: Ints, rng: random.Random
) -> Pick:
    """A policy over this room; ``pods`` are what it knows of the workload."""
    match policy:
        case "muster":
            return careful(room, pods, rank)
        case "fgd":
            return gradient_descent(room, pods, rank)
        case "tightest":
            return sharing.tightest_fit(room, rank)
        case "bestfit":
            return sharing.best_fit(room, rank)
        case _:
            return sharing.random_fit(room, rng)


def told(runs: Sequence[Filled]) -> dict[str, Any]:
    """The figures of one policy over several seeds."""
    ends = [filled.at_end for filled in runs]
    return {
        "allocated_pct": round(sum(ends) / len(ends), 3),
        "lowest_pct": min(ends),
        "highest_pct": max(ends),
        "refused": round(sum(filled.refused for filled in runs) / len(runs), 1),
    }


def picture(title: str, curves: Mapping[str, Sequence[float]]) -> str:
    """Allocated against arrived, and what is left over at the end."""
    until = max(len(curve) for curve in curves.values()) - 1
    panels = [
        charts.lines(
            "GPUs allocated while pods arrive",
            " %",
            {name: list(enumerate(curve)) for name, curve in curves.items()},
            until,
            along="% arrived",
        ),
        charts.bars(
            "GPUs that nothing uses at the end",
            " %",
            {"": {name: round(100 - curve[-1], 2) for name, curve in curves.items()}},
        ),
    ]
    return charts.page(title, panels, list(curves))
