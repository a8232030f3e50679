"""How fast gangs start on a real cluster, side by side: `python -m benchmarks.cluster`.

A real kube-apiserver, etcd and kube-scheduler; nodes are API objects. For each arm and load, pods
are created over many connections, and a watch tells when each was bound. What is reported is the
time from a gang's last pod created to its last pod bound.

* stock: kube-scheduler alone, which knows nothing of gangs
* native: its own gangs (the gate GenericWorkload)
* native-topology: the same with a topology constraint, the finest level that holds the gang
* burst, nominate, follow: Muster, by how it starts gangs
* burst-gated: pods are made behind Muster's own scheduling gate, which it takes off
* raw: nobody decides; the client that creates the pods binds them, as fast as the API server takes
  it while a scheduler watches

Arms take turns within each repeat, each begins with a gang that does not count, and only the
processes of one arm run at a time. In a churn, kwok runs the pods and ends them.

``--minutes 18`` measures what the bars depend on first and often, and all else once as far as time
goes; ``--publish`` writes what was found into benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import publish, report
from benchmarks.cluster_arms import ARMS, Arm
from benchmarks.cluster_bars import bars
from benchmarks.cluster_client import sender
from benchmarks.cluster_fleet import places
from benchmarks.cluster_loads import CHURN, load, shape
from benchmarks.cluster_plane import Plane, Running, plane
from benchmarks.cluster_rounds import Budget, Round, every_round, short_rounds
from benchmarks.cluster_run import Bench, measure
from benchmarks.cluster_samples import Sample, rows, sample_of
from benchmarks.cluster_table import bars_table, picture, table
from tests.e2e.controlplane import build
from tests.e2e.controlplane.versions import BINARIES

NODES = (1_000, 5_000)
LOADS = ("1x500", "1x1000", "100x16", CHURN)
QUICK_NODES = (200,)
QUICK_LOADS = ("1x64", "8x16", CHURN)
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
PACKAGES = ("fastapi", "uvicorn", "msgspec", "urllib3", "kubernetes")
WARM_UP = "1x16"
ATTEMPTS, DISTURBED = 4, 0.25
"""With patience: how often a sample is measured, while others take more than so many CPUs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    nodes: Sequence[int]
    arms: Sequence[Arm]
    loads: Sequence[str]
    repeats: int
    churn_s: float
    deadline_s: float
    patience_s: float = 0.0
    kubeconfig: Path | None = None
    minutes: float | None = None

    def rounds(self, arms: Sequence[Arm], nodes: int) -> Iterable[Round]:
        """In which order these arms are measured."""
        if self.minutes is None:
            return every_round(arms, self.loads, self.repeats)
        return short_rounds(arms, self.loads, self.repeats, nodes)

    @property
    def measurements(self) -> int:
        """How many samples it is at most."""
        rounds = (found for nodes in self.nodes for found in self.rounds(self.arms, nodes))
        return sum(len(found.loads) for found in rounds)


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line. SystemExit with a text for people if it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description="How fast gangs start on a real cluster, side by side.",
    )
    add = parser.add_argument
    add("--kubeconfig", type=Path, help="an existing cluster instead of one that is started here")
    add("--quick", action="store_true", help="small sizes, one repeat: to see that it works")
    add("--nodes", type=_numbers, help="numbers of nodes, comma-separated; 1000,5000")
    add("--arms", type=_arms, default=list(ARMS.values()), help=f"of {','.join(ARMS)}; all")
    add("--loads", type=_loads, help=f"GANGSxPODS or churn; {','.join(LOADS)}")
    add("--repeats", type=_count, help="of each arm and load; 3")
    add("--churn-seconds", type=float, default=20.0, help="how long pods come in one churn; 20")
    add("--deadline", type=float, default=300.0, help="seconds for a load to be bound; 300")
    add("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine; 0")
    add("--minutes", type=float, help="how long it may take: what bars depend on comes first")
    add("--publish", action="store_true", help="write the result into benchmarks/RESULTS.md")
    add("--again", type=Path, help="report the samples in this file again, without measuring")
    return parser.parse_args(words)


def plan_of(chosen: argparse.Namespace) -> Plan:
    """What the command line asks for."""
    quick = chosen.quick
    return Plan(
        nodes=chosen.nodes or (QUICK_NODES if quick else NODES),
        arms=chosen.arms,
        loads=chosen.loads or (QUICK_LOADS if quick else LOADS),
        repeats=chosen.repeats or (1 if quick else 3),
        churn_s=5.0 if quick else chosen.churn_seconds,
        deadline_s=chosen.deadline,
        patience_s=chosen.patience,
        kubeconfig=chosen.kubeconfig,
        minutes=chosen.minutes,
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _numbers(text: str) -> list[int]:
    return [_count(word) for word in _words(text)]


def _arms(text: str) -> list[Arm]:
    unknown = [word for word in _words(text) if word not in ARMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no arm {unknown[0]!r}; there are {', '.join(ARMS)}")
    return [ARMS[word] for word in _words(text)]


def _loads(text: str) -> list[str]:
    for word in _words(text):
        try:
            word == CHURN or shape(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
    return _words(text)


def samples(plan: Plan, progress: Progress) -> Iterator[Sample]:
    """Measure everything, or as much as there is time for."""
    task = progress.add_task("", total=plan.measurements)
    budget = Budget(60 * (plan.minutes or float("inf")), plan.nodes)
    for nodes in plan.nodes:
        progress.update(task, description=f"{nodes:,} nodes are created")
        budget.begin(nodes)
        with plane(nodes, plan.kubeconfig) as made, sender(made.cluster.kubeconfig) as client:
            bench = Bench(made, client, places(nodes), plan.deadline_s, plan.patience_s)
            for one in plan.rounds(_possible(plan, made, progress), nodes):
                if budget.is_spent():
                    _pass(progress, nodes, one.arm, one.loads)
                else:
                    yield from _round(bench, plan, one, budget, progress)


def _possible(plan: Plan, made: Plane, progress: Progress) -> Sequence[Arm]:
    if made.serves_groups():
        return plan.arms
    if any(arm.native for arm in plan.arms):
        progress.console.print("This API server has no PodGroups: the native arms are left out.")
    return [arm for arm in plan.arms if not arm.native]


def _round(
    bench: Bench, plan: Plan, one: Round, budget: Budget, progress: Progress
) -> Iterator[Sample]:
    task, arm, nodes = progress.task_ids[0], one.arm, len(bench.where)
    with bench.plane.arm(arm) as running:
        warm_up = load(WARM_UP, f"{arm.name}-{one.repeat}-warm", 0.0)
        measure(bench, running, arm, warm_up, one.repeat, patient=False)
        for at, name in enumerate(one.loads):
            if budget.is_spent():
                _pass(progress, nodes, arm, one.loads[at:])
                return
            progress.update(task, description=f"{nodes:,} nodes, {arm.name}, {name}")
            yield _undisturbed(bench, plan, running, arm, one.repeat, name)
            progress.advance(task)


def _pass(progress: Progress, nodes: int, arm: Arm, loads: Sequence[str]) -> None:
    """Say what there is no time for."""
    progress.console.print(f"{nodes:,} nodes: no time for {arm.name} with {', '.join(loads)}")


def _undisturbed(
    bench: Bench, plan: Plan, running: Running, arm: Arm, repeat: int, name: str
) -> Sample:
    """A sample; with patience, a new one as long as others disturbed it."""
    for attempt in range(ATTEMPTS if plan.patience_s else 1):
        prefix = f"{arm.name}-{repeat}-{attempt}-{name}"
        sample = measure(bench, running, arm, load(name, prefix, plan.churn_s), repeat)
        if sample.others_cpu <= DISTURBED:
            break
    return sample


def host() -> dict[str, Any]:
    """What else can be said of the machine before it is put to work."""
    programs = {name: BINARIES[name].release.version for name in PROGRAMS}
    return {"load_average": round(os.getloadavg()[0], 2), "programs": programs}


def present(found: Sequence[Sample], told: dict[str, Any]) -> None:
    """Tables, the picture, and the JSON object as the last line."""
    made = rows(found)
    checked = bars(made)
    print(table(made), bars_table(checked), sep="\n\n", end="\n\n")
    report.RESULTS.mkdir(parents=True, exist_ok=True)
    (report.RESULTS / "cluster.svg").write_text(picture(made), encoding="utf-8")
    report.report("cluster", made, PACKAGES, {"host": told, "bars": checked})


def measured(plan: Plan) -> tuple[list[Sample], dict[str, Any]]:
    """All samples; each is also a line of results/cluster.samples.jsonl as soon as it is there."""
    build.ensure(PROGRAMS)
    told = host()
    found = []
    report.RESULTS.mkdir(parents=True, exist_ok=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with (
        (report.RESULTS / "cluster.samples.jsonl").open("w", encoding="utf-8") as file,
        Progress(*columns, TextColumn("{task.description}"), console=console) as progress,
    ):
        file.write(json.dumps(told) + "\n")
        for sample in samples(plan, progress):
            found.append(sample)
            file.write(json.dumps(asdict(sample)) + "\n")
            file.flush()
            progress.console.print(f"{sample.nodes:,} {sample.load} {sample.arm}: {_short(sample)}")
    return found, told


def _short(sample: Sample) -> str:
    bound = f"{sample.bound} of {sample.pods} bound"
    return f"{sample.middle_s:.2f} s, {bound}, others took {sample.others_cpu} CPUs"


def stored(file: Path) -> tuple[list[Sample], dict[str, Any]]:
    """The samples of an earlier run."""
    first, *lines = file.read_text(encoding="utf-8").splitlines()
    return [sample_of(json.loads(line)) for line in lines], json.loads(first)


def main(words: Sequence[str] | None = None) -> None:
    """Measure and report."""
    chosen = arguments(words)
    found, told = stored(chosen.again) if chosen.again else measured(plan_of(chosen))
    present(found, told)
    if chosen.publish:
        publish.publish(["cluster"])


if __name__ == "__main__":
    main()
