"""Muster's own budget: `python -m benchmarks.budget`.

* startup: seconds from the start of the process to ready, and its memory, with many pods on a real
  API server; about 4 in 10 are members of gangs of 16
* idle: the CPU it uses while nothing happens
* stages: CPU for one object in decode, step and encode
* soak: memory over many gangs that come and go, in-process
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console

from benchmarks.budget_soak import soak
from benchmarks.budget_stages import stages
from benchmarks.cluster_arms import ARMS
from benchmarks.cluster_client import Request, sender
from benchmarks.cluster_fleet import TOLERATION, node_name
from benchmarks.cluster_loads import Arrival
from benchmarks.cluster_plane import Plane, plane
from benchmarks.cluster_processes import cpu_s, peak_mb, rss_mb, settle
from benchmarks.report import report
from tests.e2e.controlplane.client import Client, Object
from tests.e2e.controlplane.objects import pod

GANG, PER_NODE = 16, 4
PAGE = 500
PATIENCE_S = 1800.0
PACKAGES = ("msgspec", "numpy", "fastapi", "urllib3")


def population(namespace: str, nodes: int, pods: int) -> Iterator[Object]:
    """Pods that run: gangs of 16 as far as there are accelerators, others spread evenly."""
    members = min(2 * pods // 5, nodes * PER_NODE) // GANG * GANG
    gangs = [Arrival(f"g{at}", GANG) for at in range(members // GANG)]
    for at, one in enumerate(one for gang in gangs for one in ARMS["burst"].pods(gang, namespace)):
        one["spec"]["nodeName"] = node_name(at // PER_NODE)
        yield one
    for at in range(pods - members):
        name = node_name(at % nodes)
        yield pod(f"p{at}", namespace, nodeName=name, cpu="100m", tolerations=[TOLERATION])


def populate(made: Plane, nodes: int, pods: int) -> None:
    """Create all pods where they sit."""
    path = f"/api/v1/namespaces/{made.namespace}/pods"
    batch = [
        Request(path, json.dumps(one).encode()) for one in population(made.namespace, nodes, pods)
    ]
    with sender(made.cluster.kubeconfig) as client:
        client.send(batch, PATIENCE_S)


def startups(made: Plane, repeats: int) -> Iterator[dict[str, float]]:
    """Start Muster again and again."""
    for _ in range(repeats):
        settle(made.pids())
        began = time.monotonic()
        with made.muster() as muster:
            pid = muster.child.pid
            ready_s = time.monotonic() - began
            used = {"cpu_s": cpu_s(pid), "rss_mb": rss_mb(pid), "peak_mb": peak_mb(pid)}
            yield {"ready_s": ready_s, **used}


def idle(made: Plane, seconds: float) -> dict[str, Any]:
    """Let Muster run while nothing happens: its share of a CPU, and what its memory grew by."""
    with made.muster() as muster:
        pid = muster.child.pid
        settle(made.pids())
        used, rss = cpu_s(pid), rss_mb(pid)
        time.sleep(seconds)
        share, grew = (cpu_s(pid) - used) / seconds, rss_mb(pid) - rss
    told = {"cpu_share": round(share, 4), "grew_mb": round(grew, 1)}
    return {"what": "idle", "seconds": seconds, **told}


def raw_objects(client: Client, kind: str, namespace: str | None = None) -> list[bytes]:
    """All objects of a kind as the API server sends them."""
    found, token = [], ""
    while True:
        query = {"limit": str(PAGE), **({"continue": token} if token else {})}
        answer = client.request("GET", client.path(kind, "", namespace), query=query)
        found += [json.dumps(item).encode() for item in answer["items"]]
        token = answer["metadata"].get("continue", "")
        if not token:
            return found


def row(nodes: int, pods: int, found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The medians of several starts."""
    middle = {key: round(statistics.median(one[key] for one in found), 2) for key in found[0]}
    return {"what": "startup", "nodes": nodes, "pods": pods, "repeats": len(found), **middle}


def measured(nodes: int, pods: int, repeats: int, idle_s: float) -> Iterator[dict[str, Any]]:
    """The rows that need an API server."""
    with plane(nodes) as made:
        populate(made, nodes, pods)
        yield row(nodes, pods, list(startups(made, repeats)))
        yield idle(made, idle_s)
        yield stages(
            raw_objects(made.client, "Node"), raw_objects(made.client, "Pod", made.namespace)
        )


def main(words: Sequence[str] | None = None) -> None:
    """Measure all and report it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budget")
    add = parser.add_argument
    add("--nodes", type=int, default=5_000, help="5000")
    add("--pods", type=int, default=50_000, help="50000")
    add("--repeats", type=int, default=3, help="starts; 3")
    add("--idle-seconds", type=float, default=60.0, help="60")
    add("--soak-gangs", type=int, default=20_000, help="gangs that pass through; 20000, 0 for none")
    chosen = parser.parse_args(words)
    console, rows = Console(stderr=True), []
    with ThreadPoolExecutor(1) as beside:
        soaking = None
        for told in measured(chosen.nodes, chosen.pods, chosen.repeats, chosen.idle_seconds):
            console.print(told)
            rows.append(told)
            if chosen.soak_gangs and soaking is None:
                # Beside the idle time, in which seconds do not count, but the process's own CPU.
                soaking = beside.submit(soak, chosen.soak_gangs)
        if soaking is not None:
            rows.append(soaking.result())
            console.print(rows[-1])
    report("budget", rows, PACKAGES)


if __name__ == "__main__":
    main()
