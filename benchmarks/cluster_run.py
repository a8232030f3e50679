"""One measurement: a load's pods are created, and a watch tells when each of them was bound."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_arms import Arm
from benchmarks.cluster_client import Request, Sender
from benchmarks.cluster_fleet import NODE_GPUS, Place, domains, fewest, node_name
from benchmarks.cluster_loads import MEMBER_GPUS, Arrival, Load
from benchmarks.cluster_measures import GangTimes
from benchmarks.cluster_plane import Plane, Running
from benchmarks.cluster_processes import Usage, quiet, settle
from benchmarks.cluster_samples import GangResult, Sample
from benchmarks.cluster_timeline import Timeline

PODS_PER_NODE = NODE_GPUS // MEMBER_GPUS
SETTLE_S = 15.0
"""For what an earlier measurement left to do; on a quiet machine it takes two or three seconds."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all measurements on one cluster share."""

    plane: Plane
    sender: Sender
    where: Mapping[str, Place]
    deadline_s: float
    patience_s: float = 0.0
    """How long to wait before each measurement for others on this machine to be quiet."""

    def pids(self) -> dict[str, int]:
        """The cluster's processes, the client that creates pods, and this one, which watches."""
        return {**self.plane.pids(), "client": self.sender.pid, "watch": os.getpid()}


def measure(
    bench: Bench, running: Running, arm: Arm, load: Load, repeat: int, *, patient: bool = True
) -> Sample:
    """Put a load on an arm, wait until all pods are bound, and take everything away again."""
    plane = bench.plane
    for arrival in load.arrivals:
        plane.create_all(arm.groups(arrival, plane.namespace))
    batch = requests(arm, load, plane.namespace)
    kubelet = plane.kubelet() if load.is_churn else nullcontext()
    with kubelet, Timeline(plane.client, plane.namespace) as timeline:
        settle(bench.pids(), deadline_s=SETTLE_S)
        if patient:
            quiet(bench.pids(), bench.patience_s)
        usage, before = Usage(bench.pids()), (running.filter_calls(), running.cycles())
        bench.sender.begin(batch)
        bench.sender.done(bench.deadline_s)
        if arm.raw:
            _bind(bench, load, timeline)
        names = [name for arrival in load.arrivals for name in arrival.pod_names()]
        timeline.wait_bound(names, bench.deadline_s)
        after = (running.filter_calls(), running.cycles())
        sample = _sample(bench, arm, load, repeat, timeline, usage, before, after)
    plane.clear()
    settle(bench.pids(), deadline_s=SETTLE_S)
    return sample


def requests(arm: Arm, load: Load, namespace: str) -> list[Request]:
    """The POST of every pod of a load."""
    return requests_of(arm, load.arrivals, namespace)


def requests_of(arm: Arm, arrivals: Sequence[Arrival], namespace: str) -> list[Request]:
    """The POST of every pod, in order."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return [
        Request(path, json.dumps(pod).encode(), arrival.at_s)
        for arrival in arrivals
        for pod in arm.pods(arrival, namespace)
    ]


def bindings(names: Sequence[str], nodes: Sequence[str], namespace: str) -> list[Request]:
    """The POST of every Binding, each node filled before the next."""
    return [
        Request(
            f"/api/v1/namespaces/{namespace}/pods/{name}/binding",
            json.dumps(_binding(name, nodes[at // PODS_PER_NODE % len(nodes)])).encode(),
        )
        for at, name in enumerate(names)
    ]


def _binding(name: str, node: str) -> dict[str, Any]:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def _bind(bench: Bench, load: Load, timeline: Timeline) -> None:
    """Bind all pods once they exist, with nothing to decide: as fast as the API server takes it."""
    names = [name for arrival in load.arrivals for name in arrival.pod_names()]
    batch = bindings(
        names, [node_name(at) for at in range(len(bench.where))], bench.plane.namespace
    )
    timeline.wait_created(names, bench.deadline_s)
    bench.sender.send(batch, bench.deadline_s)


def _sample(
    bench: Bench,
    arm: Arm,
    load: Load,
    repeat: int,
    timeline: Timeline,
    usage: Usage,
    before: tuple[int, int],
    after: tuple[int, int],
) -> Sample:
    seen = list(timeline.pods.values())
    first = min(pod.created for pod in seen)
    ends = [pod.bound for pod in seen if pod.bound is not None]
    return Sample(
        arm=arm.name,
        nodes=len(bench.where),
        load=load.name,
        repeat=repeat,
        gangs=list(_gangs(bench, load, timeline)),
        singles_s=list(_singles(load, timeline)),
        pods=load.pods,
        bound=len(ends),
        seconds=max(ends, default=first) - first,
        creating_s=max(pod.created for pod in seen) - first,
        filter_calls=after[0] - before[0],
        cycles=after[1] - before[1],
        others_cpu=usage.others(),
        cpu_s=usage.cpu_s(),
        peak_mb=usage.peak_mb(),
    )


def _gangs(bench: Bench, load: Load, timeline: Timeline) -> Iterator[GangResult]:
    for arrival in load.arrivals:
        if arrival.size:
            yield result(bench.where, arrival, timeline.gang(arrival))


def result(where: Mapping[str, Place], arrival: Arrival, times: GangTimes) -> GangResult:
    """What became of a gang on these nodes."""
    return GangResult(
        pods=arrival.size,
        complete_to_bound_s=times.complete_to_bound_s,
        partial_pod_s=times.partial_pod_s(),
        beyond_pod_s=times.beyond_pod_s(),
        domains=domains(where, (member.node for member in times.members if member.node)),
        fewest=fewest(where, arrival.size, PODS_PER_NODE),
    )


def _singles(load: Load, timeline: Timeline) -> Iterator[float]:
    for arrival in load.arrivals:
        if not arrival.size:
            yield timeline.gang(arrival).complete_to_bound_s
