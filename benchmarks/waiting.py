"""What gangs cost that wait: `python -m benchmarks.waiting`.

Nodes are full but for three: every pod that waits would fit by itself, but no gang does, and each
of them is held by the gang's scheduler alone. First nothing happens; then
running gangs end one after the other, so that each time one waiting gang fits, and plain pods come
that need no accelerator. What is told: the CPU of the scheduler and of Muster, calls a second, how
long a gang waits after there is room for it, and a plain pod behind all that wait.

* muster: as `muster kube-config` says, with the gate SchedulerPopFromBackoffQ off
* muster-300: the same with a longest pause of 300 s between two looks at a pod
* muster-gate-on: as muster without that flag
* gated: as muster, and the pods wait behind Muster's own scheduling gate
* native: the scheduler's own gangs, without Muster
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from benchmarks.cluster_arms import ARMS, STOCK, Arm
from benchmarks.cluster_client import Request, sender
from benchmarks.cluster_fleet import NODE_GPUS, TOLERATION, node_name, places
from benchmarks.cluster_loads import MEMBER_GPUS, Arrival
from benchmarks.cluster_measures import finite, middle
from benchmarks.cluster_plane import Running, plane
from benchmarks.cluster_processes import Usage, settle
from benchmarks.cluster_run import Bench, requests_of
from benchmarks.cluster_timeline import Timeline
from benchmarks.report import report
from tests.e2e.controlplane.objects import pod

SIZE = 16
SPARE = 12
"""Members that there is room for beside what runs; less than a gang."""
PER_NODE = NODE_GPUS // MEMBER_GPUS
PLAIN = "muster-plain"
DEADLINE_S = 60.0
PATIENCE_S = 900.0
"""For the waiting pods to be created."""
SETTLE_S = 600.0
"""For each of them to be tried, and once more after what is written on it."""

WAITING_ARMS = {
    "muster": ARMS["burst"],
    "muster-300": replace(ARMS["burst"], options=("--max-backoff", "300")),
    "muster-gate-on": replace(ARMS["burst"], flags=()),
    "gated": ARMS["burst-gated"],
    "native": ARMS["native"],
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """How many wait, for how long, and how often a running gang ends."""

    gangs: int
    idle_s: float
    ends: int
    every_s: float


@dataclass(frozen=True, slots=True)
class Scene:
    """One arm at work."""

    bench: Bench
    running: Running
    arm: Arm
    timeline: Timeline

    @property
    def namespace(self) -> str:
        """Where all pods are."""
        return self.bench.plane.namespace


def sitting(nodes: int) -> list[Arrival]:
    """Gangs, and single pods for the rest, that fill the nodes but for ``SPARE`` members."""
    gangs, rest = divmod(nodes * PER_NODE - SPARE, SIZE)
    whole = [Arrival(f"full-{at}", SIZE) for at in range(gangs)]
    return [*whole, *(Arrival(f"rest-{at}", 0) for at in range(rest))]


def placed(arm: Arm, gangs: Sequence[Arrival], namespace: str) -> list[Request]:
    """The pods of running gangs, created where they sit."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods = [one for gang in gangs for one in arm.pods(gang, namespace)]
    for at, one in enumerate(pods):
        one["spec"]["nodeName"] = node_name(at // PER_NODE)
        one["spec"].pop("schedulingGates", None)
    return [Request(path, json.dumps(one).encode()) for one in pods]


def per_second(scene: Scene, work: Any) -> tuple[Row, Any]:
    """Rates while ``work`` is done, and its result."""
    usage, calls, cycles = Usage(scene.bench.pids()), *_counters(scene.running)
    began = time.monotonic()
    result = work()
    seconds = time.monotonic() - began
    after = _counters(scene.running)
    cpu = {name: round(used / seconds, 3) for name, used in usage.cpu_s().items()}
    rates = {
        "seconds": round(seconds, 1),
        "filter_calls_per_s": round((after[0] - calls) / seconds, 1),
        "cycles_per_s": round((after[1] - cycles) / seconds, 1),
        "cpu_share": cpu,
        "rss_mb": usage.peak_mb(),
    }
    return rates, result


def _counters(running: Running) -> tuple[int, int]:
    return running.filter_calls(), running.cycles()


def events(scene: Scene, plan: Plan, waiting: Sequence[Arrival]) -> Row:
    """Let running gangs end, each time with a plain pod behind; how long both take."""
    fitting, plain = [], []
    for at in range(plan.ends):
        due = time.monotonic() + plan.every_s
        plain.append(_plain_pod(scene, at))
        fitting.append(_one_ends(scene, Arrival(f"full-{at}", SIZE), waiting, at + 1))
        time.sleep(max(0.0, due - time.monotonic()))
    return {
        "fitting_s": middle(fitting),
        "fitting_worst_s": finite(max(fitting)),
        "plain_s": middle(plain),
        "plain_worst_s": finite(max(plain)),
    }


def _plain_pod(scene: Scene, at: int) -> float:
    name = f"plain-{at}"
    scheduler = PLAIN if scene.arm.start else STOCK
    body = pod(name, scene.namespace, scheduler=scheduler, tolerations=[TOLERATION])
    scene.bench.plane.client.create(body)
    scene.timeline.wait_bound([name], DEADLINE_S)
    seen = scene.timeline.pods[name]
    return float("inf") if seen.bound is None else seen.bound - seen.created


def _one_ends(scene: Scene, gang: Arrival, waiting: Sequence[Arrival], started: int) -> float:
    """Seconds from a gang's last pod gone until ``started`` gangs are whole."""
    client, names = scene.bench.plane.client, gang.pod_names()
    client.at_once(lambda name: client.delete("Pod", name, scene.namespace, grace=0), names)
    scene.timeline.wait_ended(names, DEADLINE_S)
    room_at = max(scene.timeline.pods[name].ended or 0.0 for name in names)
    at = whole_at(scene, waiting, started)
    return float("inf") if at is None else max(0.0, at - room_at)


def whole_at(scene: Scene, waiting: Sequence[Arrival], count: int) -> float | None:
    """When so many of the gangs were whole; None if that does not come."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        times = (scene.timeline.gang(gang) for gang in waiting)
        ends = sorted(gang.end for gang in times if gang.whole)
        if len(ends) >= count:
            return ends[count - 1]
        time.sleep(0.05)
    return None


def rows(bench: Bench, name: str, plan: Plan) -> Iterator[Row]:
    """One row in which nothing happens, and one in which gangs end."""
    arm, made = WAITING_ARMS[name], bench.plane
    full = sitting(len(bench.where))
    waiting = [Arrival(f"wait-{at}", SIZE) for at in range(plan.gangs)]
    made.create_all([one for gang in (*full, *waiting) for one in arm.groups(gang, made.namespace)])
    with Timeline(made.client, made.namespace) as timeline, made.arm(arm) as running:
        bench.sender.send(placed(arm, full, made.namespace), PATIENCE_S)
        bench.sender.send(requests_of(arm, waiting, made.namespace), PATIENCE_S)
        timeline.wait_created([pod for gang in waiting for pod in gang.pod_names()], PATIENCE_S)
        settled = settle(bench.pids(), deadline_s=SETTLE_S)
        scene = Scene(bench, running, arm, timeline)
        told = {
            "arm": name,
            "nodes": len(bench.where),
            "gangs": plan.gangs,
            "pods": plan.gangs * SIZE,
        }
        rates, _ = per_second(scene, lambda: time.sleep(plan.idle_s))
        yield {**told, "what": "idle" if settled else "first tries", **rates}
        rates, delays = per_second(scene, lambda: events(scene, plan, waiting))
        yield {**told, "what": "gangs end", **rates, **delays}


def main(words: Sequence[str] | None = None) -> None:
    """Measure all arms and report them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting")
    add = parser.add_argument
    add("--nodes", type=int, default=200, help="full nodes; 200")
    add("--gangs", type=int, default=200, help="waiting gangs of 16; 200")
    add("--idle-seconds", type=float, default=30.0, help="in which nothing happens; 30")
    add("--ends", type=int, default=6, help="running gangs that end; 6")
    add("--every", type=float, default=5.0, help="seconds between two that end; 5")
    arms = ",".join(WAITING_ARMS)
    add("--arms", default=arms, help=f"of {arms}; all; ARM:GANGS for another number of gangs")
    chosen = parser.parse_args(words)
    console, found = Console(stderr=True), []
    for word in chosen.arms.split(","):
        name, _, gangs = word.partition(":")
        number = int(gangs or chosen.gangs)
        plan = Plan(number, chosen.idle_seconds, chosen.ends, chosen.every)
        # A control plane of its own for each arm: none inherits what another left behind.
        with plane(chosen.nodes) as made, sender(made.cluster.kubeconfig) as client:
            for row in rows(Bench(made, client, places(chosen.nodes), DEADLINE_S), name, plan):
                console.print(row)
                found.append(row)
    report("waiting", found, ("msgspec", "urllib3"))


if __name__ == "__main__":
    main()
