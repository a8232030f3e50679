"""How long it takes to plan a gang, by size of cluster and gang: `python -m benchmarks.planner`.

A cluster is made of blocks of 31 racks of 16 nodes of 8 GPUs. Of the nodes, 40 % are idle, 30 %
full, and the others have 1 to 7 GPUs free. What is timed is the whole plan: from the matrix of free
resources to the seats; `cpu_p50_ms` is what of that was work, whoever else used the machine. Where
`optimal` is true, HiGHS has proven the domain and node counts on the first clusters; it is null
where the cluster is too large for HiGHS.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from benchmarks.apart import apart
from benchmarks.milp import Programme
from benchmarks.report import report
from scheduler.core.placement import Ask, Fabric, NoRoom, Seats, place
from scheduler.core.roles import member_fits

RACK, BLOCK, GPUS = 16, 31, 8
IDLE, FULL = 0.4, 0.3
GANGS = ((64, 8), (1024, 1), (1024, 8))

FreeMatrix = npt.NDArray[np.int64]
"""[nodes, 3]: free GPUs, CPU in milli-cores, memory in MiB."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row: clusters of one size, a gang of `members` with `gpus` each."""

    nodes: int
    members: int
    gpus: int
    clusters: int
    repeats: int
    proofs: int
    """Clusters for which HiGHS proves the counts."""


def cases(quick: bool) -> Iterator[Case]:
    sizes = ((512, 20, 10, 3), (5_000, 20, 10, 2), (50_000, 5, 6, 0))
    for nodes, clusters, repeats, proofs in sizes[: 2 if quick else 3]:
        for members, gpus in GANGS:
            yield Case(nodes, members, gpus, clusters, repeats, proofs)


def cluster(nodes: int, seed: int) -> tuple[Fabric, FreeMatrix]:
    """A fabric, and what is free on its nodes."""
    rng = np.random.default_rng(seed)
    rack = np.arange(nodes) // RACK
    kind = rng.random(nodes)
    some = rng.integers(1, GPUS, nodes)
    gpus = np.where(kind < IDLE, GPUS, np.where(kind < IDLE + FULL, 0, some))
    free = np.stack([gpus, gpus * 12_000 + 8_000, gpus * 200_000 + 50_000], axis=1)
    return Fabric(np.stack([rack // BLOCK, rack]).astype(np.int32)), free.astype(np.int64)


def plan(fabric: Fabric, free: FreeMatrix, case: Case) -> tuple[Ask, Seats | NoRoom]:
    request = np.array([case.gpus, case.gpus * 10_000, case.gpus * 180_000])
    ask = Ask(case.members, member_fits(free, request), free[:, 0], case.gpus)
    return ask, place(fabric, ask)


def measure(case: Case) -> dict[str, Any]:
    clusters = [cluster(case.nodes, seed) for seed in range(case.clusters)]
    plan(*clusters[0], case)
    timings = [timed(*which, case) for which in clusters for _ in range(case.repeats)]
    times, processor = zip(*timings, strict=True)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    proven = [proof(*which, case) for which in clusters[: case.proofs]]
    return {
        "nodes": case.nodes,
        "gang": f"{case.members}x{case.gpus}",
        "p50_ms": round(float(np.percentile(times, 50)), 2),
        "p99_ms": round(float(np.percentile(times, 99)), 2),
        "cpu_p50_ms": round(float(np.percentile(processor, 50)), 2),
        "rss_mb": round(rss),
        "domains": counts(plan(*clusters[0], case)[1]),
        "optimal": all(proven) if proven else None,
    }


def timed(fabric: Fabric, free: FreeMatrix, case: Case) -> tuple[float, float]:
    """Milliseconds that pass, and those in which this process was at work."""
    start, worked = time.perf_counter(), time.process_time()
    plan(fabric, free, case)
    return 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - worked)


def proof(fabric: Fabric, free: FreeMatrix, case: Case) -> bool:
    """Whether HiGHS finds the same counts."""
    ask, answer = plan(fabric, free, case)
    fewest = Programme(fabric, ask).fewest()
    return counts(answer) == (None if fewest is None else list(fewest))


def counts(answer: Seats | NoRoom) -> list[int] | None:
    return list(answer.domains) if isinstance(answer, Seats) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="leave out the 50,000 nodes")
    todo = list(cases(parser.parse_args().quick))
    console = Console(stderr=True)
    rows = [apart(measure, case) for case in track(todo, "Planning gangs", console=console)]
    report("planner", rows, ["numpy", "highspy"])
    return 1 if any(row["optimal"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
