"""What the trainer costs and keeps: `python -m benchmarks.train`.

Rows: `world_invariance`, the largest difference between the losses that worlds of 1, 2 and 4
end with; `elastic`, that between a run whose world changed from 4 to 2 to 3 in the midst of
epochs and one that was left alone; `launch_overhead_s`, seconds that `muster-train launch` adds
to torchrun; `throughput_ratio`, steps per second of `muster-train train`'s loop over those of a
minimal DDP loop, on the same model and data in a world of two.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.report import report
from trainer.train_settings import TrainSettings

BARS = {
    "world_invariance": (0.0, 1e-5),
    "elastic": (0.0, 1e-6),
    "launch_overhead_s": (float("-inf"), 1.0),
    "throughput_ratio": (0.97, float("inf")),
}
"""Least and most that is good."""

SECONDS = 300
QUIET = TrainSettings(steps=120, log_every=0, checkpoint_every=0)
LOAD = replace(QUIET, hidden=4096, global_batch=512, lr=0.01)
"""Steps of about ten milliseconds, still short for a training."""


# ── worlds of forked processes ──


def world(size: int, job: Callable[..., Any], *args: Any) -> Any:
    """Run `job(ranks, *args)` in so many processes that have a process group; rank 0's result."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", "torch.distributed.checkpoint.state_dict"])
    with tempfile.TemporaryDirectory() as folder:
        receiver, sender = context.Pipe(duplex=False)
        processes = [
            context.Process(target=_member, args=(sender, rank, size, folder, job, args))
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        try:
            return _result(receiver)
        finally:
            for process in processes:
                process.join(SECONDS)
                process.kill()


def _result(receiver: Connection) -> Any:
    if not receiver.poll(SECONDS):
        raise TimeoutError(f"no result from rank 0 within {SECONDS} s")
    return receiver.recv()


def _member(
    sender: Connection, rank: int, size: int, folder: str, job: Callable[..., Any], args: Any
) -> None:
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    from trainer.loop import leave
    from trainer.rendezvous import init_process_group

    numbers = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    env = {name: str(value) for name, value in numbers.items()} | {"MASTER_ADDR": "127.0.0.1"}
    store = FileStore(f"{folder}/store", size)
    ranks = init_process_group("gloo", timedelta(seconds=SECONDS), env=env, store=store)
    found = job(ranks, *args)
    leave()
    if rank == 0:
        sender.send(found)


def loss(ranks: Any, settings: TrainSettings) -> float:
    from trainer.loop import train

    finished = train(settings, ranks)
    assert finished is not None
    return finished.loss


# ── what is measured ──


def world_invariance() -> float:
    losses = [world(size, loss, QUIET) for size in (1, 2, 4)]
    return float(max(losses) - min(losses))


def elastic() -> float:
    """The changes come at steps 37 and 81; an epoch has 11 and a quarter."""
    with tempfile.TemporaryDirectory() as folder:
        kept = replace(QUIET, checkpoint_dir=Path(folder))
        for size, steps in ((4, 37), (2, 81), (3, QUIET.steps)):
            changed = world(size, loss, replace(kept, steps=steps))
    return abs(float(changed - world(2, loss, QUIET)))


def launch_overhead(repeats: int) -> float:
    """Both are given the same empty script, in turn; the median of the differences counts."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text("", encoding="utf-8")
        bare = ["torch.distributed.run", "--nnodes=1", "--nproc-per-node=1", str(script)]
        ours = ["trainer", "launch", "--nnodes=1", "--nproc-per-node=1", "--", str(script)]
        for command in (bare, ours):
            _seconds(command)
        return median(_seconds(ours) - _seconds(bare) for _ in range(repeats))


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
    return time.perf_counter() - start


def throughput_ratio(repeats: int, steps: int) -> float:
    return float(world(2, ratio, repeats, steps))


def ratio(ranks: Any, repeats: int, steps: int) -> float:
    """Blocks of both loops in turn, so that whatever else the machine does hits both."""
    pairs = [(ours(ranks, steps), minimal(ranks, steps)) for _ in range(repeats + 1)]
    return median(bare / mine for mine, bare in pairs[1:])


def ours(ranks: Any, steps: int) -> float:
    """Seconds."""
    from trainer.eyes import Eyes
    from trainer.interruption import StopFlag
    from trainer.job import prepare
    from trainer.loop import run

    job = prepare(replace(LOAD, steps=steps), ranks)
    stop, eyes = StopFlag(), Eyes(job)
    return _timed(lambda: run(job, stop, eyes))


def minimal(ranks: Any, steps: int) -> float:
    """Seconds of a DDP loop as tutorials write it, data in memory."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    from trainer import data, model

    split = data.digits(LOAD.seed)
    x, y = split.train_x, split.train_y
    network = DistributedDataParallel(model.build("mlp", LOAD.hidden, LOAD.seed))
    optimizer = torch.optim.SGD(network.parameters(), lr=LOAD.lr, momentum=LOAD.momentum)
    share = LOAD.global_batch // ranks.world_size

    def run() -> None:
        for step in range(steps):
            rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(step))
            mine = rows[ranks.rank * share : (ranks.rank + 1) * share]
            optimizer.zero_grad()
            cross_entropy(network(x[mine]), y[mine]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return _timed(run)


def _timed(act: Callable[[], object]) -> float:
    import torch.distributed as dist

    dist.barrier()
    start = time.perf_counter()
    act()
    dist.barrier()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    quick = parser.parse_args().quick
    todo: dict[str, Callable[[], float]] = {
        "world_invariance": world_invariance,
        "elastic": elastic,
        "launch_overhead_s": lambda: launch_overhead(2 if quick else 5),
        "throughput_ratio": lambda: throughput_ratio(5 if quick else 15, 60),
    }
    console, rows = Console(stderr=True), list[dict[str, Any]]()
    for what, measure in todo.items():
        with console.status(what):
            value = measure()
        rows.append({"what": what, "value": float(f"{value:.4g}")})
        console.print(f"{what}: {value:.4g}")
    report("train", rows, ["torch"])
    bad = [row for row in rows if not BARS[row["what"]][0] <= row["value"] <= BARS[row["what"]][1]]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
