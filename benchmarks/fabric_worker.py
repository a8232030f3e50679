"""One node of `benchmarks.fabric`: takes part in all cases, one after the other.

The only argument is JSON: `{"node": 3, "address": .., "port": .., "mib": .., "repeats": ..,
"cases": [{"case": .., "nodes": [..]}]}`, where a case's nodes stand in rank order. Node 0 serves
the store. Rank 0 of a case prints its times as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

LIMIT = timedelta(seconds=300)


def main() -> None:
    job = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    store = TCPStore(
        job["address"], job["port"], is_master=job["node"] == 0, timeout=LIMIT,
        wait_for_workers=False,
    )  # fmt: skip
    for number, case in enumerate(job["cases"]):
        meet(store, f"before-{number}", job)
        if job["node"] in case["nodes"]:
            take_part(store, number, case, job)
    meet(store, "end", job)
    if job["node"] == 0:
        store.wait([f"left/{node}" for node in range(1, job["nodes"])], LIMIT)
    store.set(f"left/{job['node']}", "")


def meet(store: TCPStore, name: str, job: dict[str, Any]) -> None:
    """Cases do not overlap: everybody waits here for everybody."""
    store.set(f"{name}/{job['node']}", "")
    store.wait([f"{name}/{node}" for node in range(job["nodes"])], LIMIT)


def take_part(store: TCPStore, number: int, case: dict[str, Any], job: dict[str, Any]) -> None:
    rank, size = case["nodes"].index(job["node"]), len(case["nodes"])
    dist.init_process_group(
        "gloo", store=PrefixStore(f"case-{number}", store), rank=rank, world_size=size
    )
    found = {
        "allreduce": measured(allreduce(job["mib"]), job["repeats"]),
        "step": measured(training_step(job["mib"]), job["repeats"]),
    }
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps({"case": case["case"], **found}), flush=True)


def allreduce(mib: int) -> Callable[[], object]:
    data = torch.ones(mib << 18)
    return lambda: dist.all_reduce(data)


def training_step(mib: int) -> Callable[[], object]:
    """A whole DDP step on a model with as many bytes of gradients."""
    torch.manual_seed(0)
    width = (mib << 18) // (64 + 10)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    network = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def measured(act: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each repetition after a first one, which opens connections. The barrier makes
    them start together; its own bytes are few.
    """
    act()
    found = []
    for _ in range(repeats):
        dist.barrier()
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    return found


if __name__ == "__main__":
    main()
