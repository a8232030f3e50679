"""How close together gangs are placed, by Muster, by HiGHS and by a greedy rule:
`python -m benchmarks.optimal`.

300 random clusters of 1,024 nodes with 8 GPUs each, in racks of 4 to 32 nodes and blocks of 2 to 16
racks, of which a random part is idle, full or in between; each with one gang of members alike that
fits. HiGHS finds the fewest blocks, then racks, then nodes of every one by integer programming.
The greedy rule is best fit, as other schedulers have it: the block with the least room that holds
all that is left, else the one with most room, and so on; and in each block racks by the same rule.

* `muster_optimal`: instances where Muster uses as many domains as HiGHS at every level.
* `greedy_optimal_pct`: the same for the greedy rule, nodes not counted.
* `greedy_racks_over_pct`, `greedy_blocks_over_pct`: what it uses more in all, in percent;
  `greedy_racks_over_mean_pct`: the mean over instances.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.apart import apart
from benchmarks.milp import Programme
from benchmarks.report import report
from scheduler.core.fabric import IntArray
from scheduler.core.placement import Ask, Fabric, Seats, place

NODES, GPUS = 1_024, 8


def instance(seed: int) -> tuple[Fabric, Ask]:
    """A cluster and a gang that fits on it."""
    rng = np.random.default_rng(seed)
    rack = np.arange(NODES) // int(rng.choice([4, 8, 16, 32]))
    block = rack // int(rng.choice([2, 4, 8, 16]))
    idle, busy = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
    kind = rng.random(NODES)
    some = rng.integers(1, GPUS + 1, NODES)
    free = np.where(kind < idle, GPUS, np.where(kind < idle + busy, 0, some))
    per_member = int(rng.choice([1, 1, 2, 3, 4, 8]))
    fits = free // per_member
    count = max(1, min(1_024, int(fits.sum() * rng.uniform(0.02, 0.95))))
    return Fabric(np.stack([block, rack]).astype(np.int32)), Ask(count, fits, free, per_member)


def greedy(fabric: Fabric, ask: Ask) -> tuple[int, int]:
    """Blocks and racks that the greedy rule uses."""
    blocks, racks = fabric.domains
    fits = np.minimum(ask.fits, ask.count)
    used = []
    for block, members in _best_fit(blocks, fits, ask.count):
        used += _best_fit(racks, np.where(blocks == block, fits, 0), members)
    return np.unique([blocks[racks == rack][0] for rack, _ in used]).size, len(used)


def _best_fit(domains: IntArray, fits: IntArray, count: int) -> list[tuple[int, int]]:
    """(domain, members) until all are placed."""
    room = np.bincount(domains, fits).astype(np.int64)
    used = []
    while count > 0:
        enough = np.flatnonzero(room >= count)
        best = int(enough[room[enough].argmin()]) if enough.size else int(room.argmax())
        used.append((best, min(count, int(room[best]))))
        count -= int(room[best])
        room[best] = 0
    return used


def measure(instances: int) -> dict[str, Any]:
    """One row."""
    rows = []
    console = Console(stderr=True)
    for seed in track(range(instances), "Comparing", console=console):
        fabric, ask = instance(seed)
        seats = place(fabric, ask)
        assert isinstance(seats, Seats), "every gang fits"
        rows.append(
            (*greedy(fabric, ask), *seats.domains[:2], seats.domains == _proven(fabric, ask))
        )
    blocks, racks, fewest_blocks, fewest_racks, same = np.array(rows, dtype=np.int64).T
    optimal = (blocks == fewest_blocks) & (racks == fewest_racks)
    return {
        "instances": instances,
        "nodes": NODES,
        "muster_optimal": int(same.sum()),
        "greedy_optimal_pct": _percent(optimal.mean()),
        "greedy_racks_over_pct": _percent(racks.sum() / fewest_racks.sum() - 1),
        "greedy_racks_over_mean_pct": _percent((racks / fewest_racks).mean() - 1),
        "greedy_blocks_over_pct": _percent(blocks.sum() / fewest_blocks.sum() - 1),
    }


def _proven(fabric: Fabric, ask: Ask) -> tuple[int, ...] | None:
    return Programme(fabric, ask).fewest()


def _percent(share: float) -> float:
    return round(100 * float(share), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instances", type=int, default=300)
    row = apart(measure, parser.parse_args().instances)
    report("optimal", [row], ["numpy", "highspy"])
    return 0 if row["muster_optimal"] == row["instances"] else 1


if __name__ == "__main__":
    sys.exit(main())
