"""What events cost the engine while 1,000 gangs of 16 wait on 1,000 full nodes, and replays.

``python -m benchmarks.engine``
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import replace

from benchmarks.report import report
from scheduler.core import engine
from scheduler.core.messages import (
    EffectDone,
    Event,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Synced,
    Tick,
)
from scheduler.model import Declaration, Node, Options, Pod
from scheduler.settings import Settings
from scheduler.simulation.replay import replay

NODES = 1000
GANGS = 1000
MEMBERS = 16
GPUS = 8
REPLAYED, MEMBERS_OF_REPLAY = 4000, 4
"""Pods of the replay, and of each gang in it."""
LONG_S = 3600.0
"""By then all have waited long enough to have nodes kept for them."""


class Bench:
    """An engine and the milliseconds that each of its steps took."""

    def __init__(self) -> None:
        self.state = engine.new_state(Settings(levels=("topo/block", "topo/rack")))
        self.now = 0.0

    def timed(self, event: Event) -> float:
        """Milliseconds of one step, and whatever effects it has end well."""
        began = time.perf_counter()
        step = engine.step(self.state, event, self.now)
        took = (time.perf_counter() - began) * 1e3
        for effect in step.effects:
            engine.step(self.state, EffectDone(effect.id, Outcome.OK), self.now)
        return took


def nodes() -> Iterable[Node]:
    """Racks of 16 nodes, blocks of 20 racks."""
    for number in range(NODES):
        yield Node(
            f"n{number:05}",
            labels={"topo/block": f"b{number // 320:02}", "topo/rack": f"r{number // 16:03}"},
            allocatable={"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": GPUS},
        )


def member(gang: str, index: int, least: int) -> Pod:
    """A member that takes a whole node."""
    return Pod(
        "t",
        f"{gang}-{index}",
        f"{gang}-{index}",
        scheduler="muster",
        requests={"cpu": 8000, "memory": 2**30, "pods": 1, "nvidia.com/gpu": GPUS},
        declaration=Declaration(gang, "muster", Options(min_available=least)),
        index=index,
    )


def unlike(gang: int, index: int) -> Pod:
    """A member whose gang asks for what no other gang asks for."""
    alike = member(f"g{gang:04}", index, MEMBERS)
    return replace(alike, requests={**alike.requests, "cpu": 8000 + gang})


def filled() -> Bench:
    """A cluster without a free accelerator."""
    bench = Bench()
    for node in nodes():
        bench.timed(NodeSeen(node))
    bench.timed(Synced())
    for number in range(NODES):
        bench.timed(PodSeen(member(f"full-{number}", 0, 1)))
    return bench


def main() -> None:
    """Measure and print one row a kind of event."""
    bench = filled()
    pods = [
        bench.timed(PodSeen(member(f"g{gang:04}", index, MEMBERS)))
        for gang in range(GANGS)
        for index in range(MEMBERS)
    ]
    gained = [bench.timed(PodGone(f"full-{number}-0")) for number in range(MEMBERS - 1)]
    ticks = [bench.timed(Tick()) for _ in range(1000)]
    bench.now = LONG_S
    bench.timed(Tick())
    later = [bench.timed(PodSeen(member("forming", index, 1000))) for index in range(500)]
    late_ticks = [bench.timed(Tick()) for _ in range(1000)]
    rows = [
        row("pod", pods),
        row("node_comes_free", gained),
        row("tick", ticks),
        row("pod_after_an_hour", later),
        row("tick_after_an_hour", late_ticks),
        *all_unlike(),
        replayed(),
    ]
    report("engine", rows, ["numpy"])


def all_unlike() -> list[dict[str, object]]:
    """The same where no two gangs ask for the same, so that each has to be asked by itself."""
    bench = filled()
    pods = [
        bench.timed(PodSeen(unlike(gang, index)))
        for gang in range(GANGS)
        for index in range(MEMBERS)
    ]
    gained = [bench.timed(PodGone(f"full-{number}-0")) for number in range(MEMBERS - 1)]
    return [row("pod_all_unlike", pods), row("node_comes_free_all_unlike", gained)]


def replayed() -> dict[str, object]:
    """How fast ``muster replay`` is: gangs of four come, start and go on 100 nodes."""
    lines = [*told_nodes(), *told_gangs()]
    began = time.perf_counter()
    printed = sum(1 for _ in replay(iter(lines)))
    took = time.perf_counter() - began
    assert printed > REPLAYED, "each pod is bound"
    return {"event": "replay", "nodes": 100, "events_per_s": round(len(lines) / took)}


def told_nodes() -> Iterable[str]:
    """Nodes of eight accelerators in racks of ten, as lines of a replay."""
    yield json.dumps({"op": "config", "levels": ["topo/rack"]})
    for number in range(100):
        labels = {"topo/rack": f"r{number // 10}"}
        amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
        metadata = {"name": f"n{number:03}", "labels": labels}
        node = {"metadata": metadata, "status": {"allocatable": amounts}}
        yield json.dumps({"op": "node", "object": node})


def told_gangs() -> Iterable[str]:
    """Gangs that start and of which each is gone forty gangs later, as lines of a replay."""
    for number in range(REPLAYED // MEMBERS_OF_REPLAY + 40):
        for index in range(MEMBERS_OF_REPLAY):
            if number < REPLAYED // MEMBERS_OF_REPLAY:
                yield json.dumps({"op": "pod", "object": told_pod(f"g{number}", index)})
            if number >= 40:
                gone = {"kind": "Pod", "namespace": "t", "name": f"g{number - 40}-{index}"}
                yield json.dumps({"op": "delete", **gone})
        yield json.dumps({"op": "advance", "seconds": 5})


def told_pod(gang: str, index: int) -> dict[str, object]:
    """A member as API JSON."""
    stated = {"gang": gang, "min-available": str(MEMBERS_OF_REPLAY)}
    annotations = {f"muster.scheduler/{key}": value for key, value in stated.items()}
    metadata = {"name": f"{gang}-{index}", "namespace": "t", "annotations": annotations}
    amounts = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {"metadata": metadata, "spec": {"schedulerName": "muster", "containers": [container]}}


def row(event: str, took: list[float]) -> dict[str, object]:
    """One row: the median and the 99th percentile in milliseconds."""
    return {
        "event": event,
        "waiting_gangs": GANGS,
        "nodes": NODES,
        "p50_ms": round(statistics.median(took), 4),
        "p99_ms": round(sorted(took)[int(0.99 * (len(took) - 1))], 4),
    }


if __name__ == "__main__":
    main()
