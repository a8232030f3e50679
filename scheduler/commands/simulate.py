"""``muster simulate``: what policies make of a trace, on a cluster that is only described."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from scheduler.errors import MusterError, unreadable
from scheduler.simulation import traces
from scheduler.simulation.trace import filling, openb, running, steptime, synthetic
from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.scheduling import GIVE_UP_S
from scheduler.simulation.trace.workload import Workload, workload

POD_GPUS = 8
SHAPE, LOAD, SHARED_LOAD, JOBS = "2x4x8x8", 0.9, 1.3, 5000


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, as they were given."""

    trace: Path | None
    nodes: Path | None
    cluster: str
    jobs: int | None
    gpus_per_pod: int
    load: float | None
    policies: Sequence[str]
    rules: running.Rules
    out: Path


def simulate(
    trace: Annotated[
        Path | None,
        typer.Argument(
            help="A trace: Philly's as prepared for Gavel (TSV), CSV with arrival_s,gpus,"
            "duration_s, or Alibaba's openb pods (with --nodes). Without: jobs are made up."
        ),
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="Nodes of an openb trace, CSV.")] = None,
    cluster: Annotated[
        str, typer.Option(help="The cluster whose published figures made-up jobs follow.")
    ] = "Seren",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Only the first N jobs; so many are made up (5000).")
    ] = None,
    shape: Annotated[str, typer.Option(help="Blocks x racks x nodes x GPUs.")] = SHAPE,
    gpus_per_pod: Annotated[
        int | None,
        typer.Option(
            min=1, help="The most GPUs of one pod (8, or those of a node if it has less)."
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=10.0,
            help="Stretch arrivals so that jobs ask for this share of the cluster (0.9); of an "
            "openb trace, the share of all GPUs that arrives (1.3).",
        ),
    ] = None,
    as_traced: Annotated[
        bool, typer.Option("--as-traced", help="Leave arrivals as they are in the trace.")
    ] = False,
    policy: Annotated[
        list[str] | None, typer.Option(help="A policy to compare; may be repeated. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn, and of ties.")] = 1,
    give_up: Annotated[
        float,
        typer.Option(min=1, help="Seconds until an incomplete gang gives its GPUs back and waits."),
    ] = GIVE_UP_S,
    step_times: Annotated[
        Path | None, typer.Option(help="A folder of measured step times: docs/simulate.md.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/simulate.svg"),
) -> None:
    """Compare policies on a trace. Needs no cluster; the same options give the same output.

    The last line on standard output is one JSON object; all else goes to standard error.
    """
    ground = Shape.parse(shape)
    times = steptime.read(step_times, ground.gpus) if step_times else []
    rules = running.Rules(ground, seed, give_up, times)
    asked = Asked(
        trace,
        nodes,
        cluster,
        jobs,
        _pod_gpus(gpus_per_pod, ground),
        None if as_traced else load or LOAD,
        policy or (),
        rules,
        out,
    )
    lines = _read(trace) if trace else []
    shared = bool(lines) and "cpu_milli" in lines[0]
    if nodes and not shared:
        raise MusterError("--nodes is for openb traces, whose first line names cpu_milli")
    console = Console(stderr=True)
    told, picture = (
        _shared(asked, lines, load or SHARED_LOAD, console)
        if shared
        else _gangs(asked, lines, console)
    )
    _write(out, picture)
    console.print(f"The same as a picture: {out}")
    typer.echo(json.dumps(told))


# ── gangs ──


def _pod_gpus(stated: int | None, shape: Shape) -> int:
    """The most GPUs of one pod. Raises MusterError where no node has so many."""
    if stated is not None and stated > shape.gpus:
        raise MusterError(
            f"--gpus-per-pod {stated}: a node of --shape {shape} has {shape.gpus} GPUs, so "
            "such a pod would never start; choose no more than that, or another shape"
        )
    return stated or min(POD_GPUS, shape.gpus)


def _gangs(asked: Asked, lines: Sequence[str], console: Console) -> tuple[dict[str, Any], str]:
    policies = asked.policies or running.POLICIES
    running.check(policies, running.POLICIES)
    rules, given = asked.rules, _workload(asked, lines)
    console.print(_about(asked, given))
    with _progress(console, len(given.gangs)) as step:
        outcomes = [running.run(name, given, rules, step(name)) for name in policies]
    figures = {outcome.policy: outcome.figures for outcome in outcomes}
    console.print(_gang_table(figures))
    told = {
        "trace": asked.trace.name if asked.trace else f"made up after {asked.cluster}",
        "shape": str(rules.shape),
        "seed": rules.seed,
        "gpus_per_pod": asked.gpus_per_pod,
        "load": asked.load,
        "left_out": given.left_out,
        "arrivals_times": round(given.stretched, 6),
        "policies": figures,
    }
    title = f"{told['trace']}: {len(given.gangs)} jobs on {rules.shape.total} GPUs"
    return told, running.picture(title, outcomes, rules.shape)


def _workload(asked: Asked, lines: Sequence[str]) -> Workload:
    total, seed = asked.rules.shape.total, asked.rules.seed
    if asked.trace is None:
        summary = synthetic.summary_of(asked.cluster)
        found = synthetic.jobs(summary, asked.jobs or JOBS, total, seed)
    elif lines and any(line.strip() == ",".join(traces.COLUMNS) for line in lines[:50]):
        found = traces.parse(lines, asked.trace.name)[: asked.jobs]
    else:
        # That trace does not say how long jobs ran.
        found = traces.with_durations(traces.parse_gavel(lines)[: asked.jobs], seed)
    return workload(found, asked.gpus_per_pod, total, asked.load)


def _about(asked: Asked, given: Workload) -> str:
    several = sum(gang.pods > 1 for gang in given.gangs)
    left = f"; {given.left_out} jobs too large for it are left out" if given.left_out else ""
    shape = asked.rules.shape
    return (
        f"{len(given.gangs)} jobs, {several} of them of several pods, on {shape.count} nodes with "
        f"{shape.total} GPUs ({shape}){left}; arrivals times {given.stretched:.4g}."
    )


def _gang_table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    heads = ("used", "makespan", "mean wait", "p99 wait", "held by half gangs", "racks", "x best")
    table = Table("policy", *heads, box=None)
    for name, row in figures.items():
        near = row["closeness"]
        table.add_row(
            name,
            f"{row['used_pct']:.1f} %",
            f"{row['makespan_s'] / 3600:.1f} h",
            f"{row['mean_wait_s']:.0f} s",
            f"{row['p99_wait_s']:.0f} s",
            f"{row['partial_gpu_s'] / 3600:.0f} GPU-h",
            f"{near['racks']:.2f}" if near["gangs"] else "–",
            f"{near['racks_over_optimum']:.3f}" if near["gangs"] else "–",
        )
    return table


# ── shared GPUs ──


def _shared(
    asked: Asked, lines: Sequence[str], load: float, console: Console
) -> tuple[dict[str, Any], str]:
    policies = asked.policies or filling.POLICIES
    running.check(policies, filling.POLICIES)
    if asked.nodes is None or asked.trace is None:
        raise MusterError("an openb trace needs the file of its nodes: --nodes FILE")
    ground = openb.read_nodes(_read(asked.nodes), asked.nodes.name)
    pods = openb.read_pods(lines, asked.trace.name)[: asked.jobs]
    seed = asked.rules.seed
    console.print(
        f"{len(pods)} pods on {len(ground.names)} nodes with {ground.total // 1000} GPUs."
    )
    found = {name: filling.run(name, ground, pods, load, seed) for name in policies}
    table = Table("policy", "GPUs allocated", "pods refused", box=None)
    for name, filled in found.items():
        table.add_row(name, f"{filled.at_end:.2f} %", str(filled.refused))
    console.print(table)
    told = {
        "trace": asked.trace.name,
        "seed": seed,
        "load": load,
        "policies": {name: filling.told([filled]) for name, filled in found.items()},
    }
    curves = {name: filled.curve for name, filled in found.items()}
    return told, filling.picture(f"{asked.trace.name}: {load:.0%} of the GPUs arrive", curves)


# ── files and progress ──


def _read(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MusterError(f"cannot read {path}: {unreadable(error)}") from error


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        text = f"cannot write the picture to {path}: {error.strerror}; choose --out"
        raise MusterError(text) from error


Step = Callable[[str], Callable[[int], None]]
"""Policy -> what takes the number of gangs that have ended."""


@contextmanager
def _progress(console: Console, gangs: int) -> Iterator[Step]:
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:

        def step(policy: str) -> Callable[[int], None]:
            task = progress.add_task(policy, total=gangs)
            return lambda ended: progress.update(task, completed=ended)

        yield step
