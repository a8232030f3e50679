"""What the attempts at unlike members miss, and what looking at all ways costs:
`python -m benchmarks.roles`.

Random gangs of two or three roles, on small clusters and on one of 2,000 nodes. `attempts` are the
answers without the exact search (what larger gangs get), `place` is what a gang of that size gets.
Shares are of the gangs for which there is a way: `found_pct` that were placed, `fewest_pct` with
the fewest domains and nodes, `best_pct` in the best way of all.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

import numpy as np

from benchmarks.planner import cluster
from benchmarks.report import report
from scheduler.core import roles
from scheduler.core.fabric import Fabric
from scheduler.core.placement import Ask, NoRoom, Seats
from scheduler.core.role_attempt import RoleAsk, RoleProblem
from scheduler.core.role_cover import cover_roles

SIZES = ((12, 600), (96, 300), (2_000, 20))
"""Nodes, and gangs tried on them."""

_ENOUGH = 10**10


def problem(nodes: int, seed: int) -> RoleProblem:
    """A gang that asks for about what there is on a small cluster, and less on a large one."""
    rng = np.random.default_rng(seed)
    fabric, free = cluster(nodes, seed)
    if nodes < 1_000:
        rack = np.sort(rng.integers(0, max(2, nodes // 6), nodes))
        fabric = Fabric(np.stack([rack // 2, rack]).astype(np.int32))
        free = free // (1, 4, 4)
    wanted = [
        RoleAsk(
            int(rng.integers(1, 9)),
            np.array([gpus, rng.integers(1, 9) * 4_000, rng.integers(1, 9) * 16_000]),
            rng.random(nodes) < 0.9,
            1 if rng.random() < 0.3 else None,
        )
        for gpus in rng.choice([0, 1, 2, 4, 8], rng.choice([2, 3]), replace=False)
    ]
    common = Ask(1, free[:, 0], free[:, 0], 0)
    return RoleProblem(fabric, tuple(wanted), free, (0,), common)


def measure(nodes: int, gangs: int) -> dict[str, Any]:
    """One row."""
    counted: Counter[Any] = Counter()
    times: dict[str, list[float]] = {"attempts": [], "place": []}
    for seed in range(gangs):
        _compare(problem(nodes, seed), counted, times)
    possible = max(1, counted["possible"])
    row: dict[str, Any] = {"nodes": nodes, "gangs": gangs, "possible": counted["possible"]}
    for how, taken in times.items():
        row[how] = {
            f"{what}_pct": round(100 * counted[how, what] / possible, 2)
            for what in ("found", "fewest", "best")
        } | {
            "p50_ms": round(float(np.percentile(taken, 50)), 1),
            "p99_ms": round(float(np.percentile(taken, 99)), 1),
        }
    return row


def _compare(one: RoleProblem, counted: Counter[Any], times: dict[str, list[float]]) -> None:
    exact = cover_roles(one, _ENOUGH)
    assert exact is not None
    answers = {"attempts": _attempts, "place": _place}
    if exact.seats is None:
        assert all(isinstance(answer(one), NoRoom) for answer in answers.values())
        return
    counted["possible"] += 1
    best = roles.key(one, dict(enumerate(exact.seats)))
    fewest = 2 + one.fabric.levels + 1
    for how, answer in answers.items():
        start = time.perf_counter()
        seats = answer(one)
        times[how].append(1_000 * (time.perf_counter() - start))
        if isinstance(seats, NoRoom):
            continue
        mine = roles.key(one, dict(enumerate(seats)))
        assert mine >= best, "nothing is better than the best of all ways"
        counted[how, "found"] += 1
        counted[how, "fewest"] += mine[0][:fewest] == best[0][:fewest]
        counted[how, "best"] += mine == best


def _attempts(one: RoleProblem) -> tuple[Seats, ...] | NoRoom:
    return roles.attempts(one) or NoRoom(0, None)


def _place(one: RoleProblem) -> tuple[Seats, ...] | NoRoom:
    return roles.place_roles(one.fabric, one.roles, one.free, one.accelerators)


def main() -> int:
    rows = [measure(nodes, gangs) for nodes, gangs in SIZES]
    report("roles", rows, ["numpy"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
