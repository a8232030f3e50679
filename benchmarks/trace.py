"""Policies on traces of real clusters: `python -m benchmarks.trace`.

Three parts. The first needs nothing; the others need public traces, which are not part of Muster
and are looked for in `../shared/traces` (`--traces FOLDER`). A part whose data is absent is left
out, which is said on stderr and under `skipped`.

* made-up: jobs after the published figures of one cluster.
* philly: nine virtual clusters of Microsoft's Philly trace, one by one, on 512 GPUs: on nodes of
  eight GPUs with pods of up to eight, on the same with pods of one, and on nodes of four with pods
  of one. Running times are drawn, since the trace as prepared for Gavel has none; arrivals are
  stretched to a load of 0.9.
* openb: Alibaba's pods that share GPUs, until 130 % have arrived, ten seeds, beside the figures
  that were published for BestFit and FGD.

Everything but `versions` depends on nothing but the seeds. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.report import report
from benchmarks.trace_table import bars_of, tables, write_pictures
from scheduler.simulation import traces
from scheduler.simulation.trace import filling, openb, running, steptime, synthetic
from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.workload import workload

TRACES = Path(__file__).parents[2] / "shared/traces"
MADE_UP = "Seren"
LAYS = (("2x4x8x8", 8), ("2x4x8x8", 1), ("2x4x16x4", 1))
"""(shape, GPUs of a pod at most)"""

LOAD, SHARED_LOAD = 0.9, 1.3
SEED, SHARED_SEEDS = 1, range(42, 52)
WORKLOADS = ("default", "multigpu50")

Row = dict[str, Any]
Job = Callable[[], Row]


def made_up(quick: bool) -> Iterator[Job]:
    for policy in running.POLICIES:
        most = 500 if quick else 4000
        yield functools.partial(gang_row, None, MADE_UP, *LAYS[0], policy, most)


def philly(folder: Path, quick: bool) -> Iterator[Job]:
    clusters = sorted(path.stem for path in (folder / "gavel-philly").glob("*.trace"))
    for lay in LAYS[: 1 if quick else None]:
        for cluster in clusters[: 1 if quick else None]:
            for policy in running.POLICIES:
                most = 300 if quick else None
                yield functools.partial(gang_row, folder, cluster, *lay, policy, most)


def shared(folder: Path, quick: bool) -> Iterator[Job]:
    for name in WORKLOADS:
        for policy in filling.POLICIES:
            for seed in SHARED_SEEDS[: 1 if quick else None]:
                yield functools.partial(shared_row, folder, name, policy, seed)


def gang_row(
    folder: Path | None, name: str, shape: str, per_pod: int, policy: str, most: int | None
) -> Row:
    """One policy on one trace of gangs; without a folder the jobs are made up."""
    ground = Shape.parse(shape)
    times = []
    if folder is not None and (folder / "sia-placements").is_dir():
        times = steptime.read(folder / "sia-placements", ground.gpus)
    rules = running.Rules(ground, SEED, step_times=times)
    jobs = _philly(folder, name, most) if folder else _made_up(ground, most or 1)
    given = workload(jobs, per_pod, ground.total, LOAD)
    figures = running.run(policy, given, rules).figures
    return {
        "trace": f"philly {name}" if folder else f"made up after {name}",
        "shape": shape,
        "gpus_per_pod": per_pod,
        "policy": policy,
        "seed": SEED,
        "arrivals_times": round(given.stretched, 6),
        "allocated_pct": figures["used_pct"],
        "domains_over_optimum": figures["closeness"].get("racks_over_optimum", 1.0),
        **figures,
    }


def _philly(folder: Path, name: str, most: int | None) -> list[traces.TraceJob]:
    path = folder / "gavel-philly" / f"{name}.trace"
    jobs = traces.parse_gavel(path.read_text(encoding="utf-8").splitlines())[:most]
    return traces.with_durations(jobs, SEED)


def _made_up(ground: Shape, count: int) -> list[traces.TraceJob]:
    return synthetic.jobs(synthetic.summary_of(MADE_UP), count, ground.total, SEED)


def shared_row(folder: Path, name: str, policy: str, seed: int) -> Row:
    """One policy on pods that share GPUs."""
    nodes, pods = _openb(folder / "alibaba-gpu-v2023", name)
    filled = filling.run(policy, nodes, pods, SHARED_LOAD, seed)
    return {
        "trace": f"openb {name}",
        "policy": policy,
        "seed": seed,
        "allocated_pct": filled.at_end,
        "refused": filled.refused,
    }


@functools.cache
def _openb(folder: Path, name: str) -> Any:
    nodes = folder / "openb_node_list_all_node.csv"
    pods = folder / f"openb_pod_list_{name}.csv"
    return (
        openb.read_nodes(nodes.read_text(encoding="utf-8").splitlines(), nodes.name),
        openb.read_pods(pods.read_text(encoding="utf-8").splitlines(), pods.name),
    )


def plan(folder: Path, quick: bool) -> tuple[list[Job], list[str]]:
    """What can be run, and why the rest cannot."""
    jobs, skipped = list(made_up(quick)), []
    for needs, part in (("gavel-philly", philly), ("alibaba-gpu-v2023", shared)):
        if (folder / needs).is_dir():
            jobs += part(folder, quick)
        else:
            skipped.append(f"{part.__name__}: no folder {needs} beside the checkout; see --traces")
    if not (folder / "sia-placements").is_dir():
        skipped.append("step times: no folder sia-placements beside the checkout; see --traces")
    return jobs, skipped


def run(jobs: Sequence[Job], workers: int) -> Iterator[Row]:
    """Rows in the order of the jobs, whichever is done first."""
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from (future.result() for future in [pool.submit(job) for job in jobs])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one small sample of every part")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the traces")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--tables", action="store_true", help="tables on stderr, and pictures")
    asked = parser.parse_args()
    console = Console(stderr=True)
    jobs, skipped = plan(asked.traces, asked.quick)
    for why in skipped:
        console.print(f"left out: {why}", markup=False)
    rows = list(track(run(jobs, asked.workers), "Replaying", len(jobs), console=console))
    bars = [] if asked.quick else bars_of(rows)
    report("trace", rows, ["numpy"], {"bars": bars, "skipped": skipped})
    if asked.tables:
        print(tables(rows, bars), file=sys.stderr)
        write_pictures(rows)
    return 1 if any(not bar["ok"] for bar in bars) else 0


if __name__ == "__main__":
    sys.exit(main())
