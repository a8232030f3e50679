"""How Muster's own cost grows with the number of nodes: `python -m benchmarks.cluster_scale`.

In-process, without an API server: nodes of 8 GPUs in racks of 16 and blocks of 16 racks, of which
six in ten are full of running gangs. Each number of nodes is measured in a process of its own.

Milliseconds are of CPU.

* gang_ms: the step in which a gang of 500 pods becomes complete: it is planned, and its Bindings
  are handed out
* node_ms: the step in which one node changes a label that no level depends on
* plain_ms: a filter call for a pod without accelerators that is offered all nodes
* rss_mb: memory with everything known
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.progress import track

from benchmarks.budget_soak import Obedient
from benchmarks.cluster_fleet import node_name, place
from benchmarks.cluster_processes import rss_mb
from benchmarks.report import report
from scheduler.core.messages import NodeSeen, PodGone, PodSeen, Synced
from scheduler.model import Declaration, Node, Options, Phase, Pod
from scheduler.service import Service
from scheduler.settings import Settings

NODES = (1_000, 5_000, 15_000, 50_000, 100_000)
GANG, REPEATS, PER_NODE, FULL = 500, 7, 4, 0.6
LEVELS = ("topo/block", "topo/rack")


class World:
    """A service that knows so many nodes, six in ten of them full."""

    def __init__(self, nodes: int) -> None:
        self.names = [node_name(at) for at in range(nodes)]
        self.actuator = Obedient()
        self.service = Service(Settings(levels=LEVELS), self.actuator)
        for at in range(nodes):
            self.service.post(NodeSeen(node(at)))
        for at in range(int(nodes * FULL) * PER_NODE):
            gang, index = divmod(at, 16)
            pod = member(f"full-{gang}", index, 1)
            sitting = replace(pod, node=self.names[at // PER_NODE], phase=Phase.RUNNING)
            self.service.post(PodSeen(sitting))
        self.service.post(Synced())

    def gang_ms(self, number: int) -> float:
        """Plan a gang; it is gone again afterwards."""
        self.actuator.start(self.service.post)
        pods = [member(f"gang-{number}", index, GANG) for index in range(GANG)]
        self.actuator.pods = {pod.uid: pod for pod in pods}
        for pod in pods[:-1]:
            self.service.post(PodSeen(pod))
        took = timed(lambda: self.service.post(PodSeen(pods[-1])))
        self.actuator.carry_out()
        for pod in pods:
            self.service.post(PodGone(pod.uid))
        self.actuator.carry_out()
        return took

    def node_ms(self, number: int) -> float:
        """One node changes a little."""
        changed = node(number)
        labels = {**changed.labels, "other": str(number)}
        return timed(lambda: self.service.post(NodeSeen(replace(changed, labels=labels))))

    def plain_ms(self, number: int) -> float:
        """A plain pod is offered all nodes."""
        pod = Pod("x", f"plain-{number}", f"plain-{number}", scheduler="muster")
        self.service.post(PodSeen(pod))
        return timed(lambda: self.service.filter(pod.ref, self.names, lambda: pod))


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of CPU: all of it runs in this thread, and others may be busy beside it."""
    began = time.thread_time()
    work()
    return 1e3 * (time.thread_time() - began)


def node(at: int) -> Node:
    """A node with 8 GPUs."""
    labels = dict(zip(LEVELS, place(at), strict=True))
    room = {"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8}
    return Node(node_name(at), labels=labels, allocatable=room)


def member(gang: str, index: int, least: int) -> Pod:
    """A member with 2 GPUs."""
    return Pod(
        "x",
        f"{gang}-{index}",
        f"{gang}-{index}",
        scheduler="muster",
        requests={"cpu": 8000, "memory": 2**30, "pods": 1, "nvidia.com/gpu": 2},
        declaration=Declaration(gang, "muster", Options(min_available=least)),
        index=index,
    )


def measure(nodes: int) -> dict[str, Any]:
    """One row."""
    world = World(nodes)
    world.gang_ms(-1)
    kinds = {"gang_ms": world.gang_ms, "node_ms": world.node_ms, "plain_ms": world.plain_ms}
    times = {
        name: round(statistics.median(kind(at) for at in range(REPEATS)), 2)
        for name, kind in kinds.items()
    }
    if world.actuator.bound != GANG * (REPEATS + 1):
        raise RuntimeError(f"only {world.actuator.bound} pods were bound")
    return {"nodes": nodes, **times, "rss_mb": round(rss_mb(os.getpid()))}


def fresh(nodes: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, nodes).result()


def main(words: Sequence[str] | None = None) -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_scale")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="1000 to 100000")
    todo = parser.parse_args(words).nodes
    console = Console(stderr=True)
    rows = [fresh(nodes) for nodes in track(todo, "Growing", console=console)]
    report("scale", rows, ["numpy", "msgspec"])


if __name__ == "__main__":
    main()
