"""Worlds of several ranks for the tests: quick ones in forked processes, and hints to go with.

The processes are forked from multiprocessing's fork server, which has imported torch once.
"""

import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from trainer.rendezvous import Ranks, init_process_group

DEADLINE = 120.0

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "torch._dynamo",
        "torch.distributed.checkpoint.state_dict",
        "torch.distributed.run",
        "trainer.cli",
        "trainer.launch",
        "trainer.loop",
        "pydantic.main",
        "pydantic.fields",
        "pytest",
        "trainer_worlds",
        "trainer_pods",
    ]
)


def hint(rank: int, node: str, *path: str | None, **changes: Any) -> dict[str, Any]:
    """A hint as the scheduler writes it."""
    levels = ["topo/block", "topo/rack"]
    return {
        "v": 1,
        "gang": "team/job",
        "id": "uid-1",
        "rank": rank,
        "size": 4,
        "min": 4,
        "role": "worker",
        "node": node,
        "levels": levels,
        "path": list(path or ("b0", "r0")),
        "clique": None,
        "gpus": None,
        "spot": False,
    } | changes


INTERLEAVED = [
    hint(0, "n0", "b0", "r0"),
    hint(2, "n1", "b0", "r1"),
    hint(1, "n2", "b0", "r0"),
    hint(3, "n3", "b0", "r1"),
]
"""Pods 0 to 3 as a controller numbers them, placed alternately in two racks."""

IN_ORDER = ["b0/r0/n0", "b0/r0/n2", "b0/r1/n1", "b0/r1/n3"]


@dataclass
class Process:
    """One process of a world, as a launcher would start it."""

    rank: int
    env: dict[str, str]
    folder: Path

    def join_world(self, timeout: float = 60.0, backend: str | None = None) -> Ranks:
        from torch.distributed import FileStore

        store = FileStore(str(self.folder / "store"), int(self.env["WORLD_SIZE"]))
        limit = timedelta(seconds=timeout)
        return init_process_group(backend, limit, env=self.env, store=store)


def environments(local_sizes: list[int], hints: list[dict | None] | None = None) -> list[dict]:
    """What torchrun would set for the processes of pods with so many of them each."""
    world = sum(local_sizes)
    found = []
    for group, size in enumerate(local_sizes):
        for local in range(size):
            env = {
                "RANK": len(found),
                "WORLD_SIZE": world,
                "LOCAL_RANK": local,
                "LOCAL_WORLD_SIZE": size,
                "GROUP_RANK": group,
                "MASTER_ADDR": "127.0.0.1",
            }
            if hints and hints[group] is not None:
                env["MUSTER_HINT"] = json.dumps(hints[group])
            found.append({name: str(value) for name, value in env.items()})
    return found


def run_world(
    folder: Path, envs: list[dict[str, str]], job: Callable[..., Any], *args: Any
) -> list[Any]:
    """Run `job(process, *args)` in one process for each environment; their results.

    An exception comes back as the result. A process that ends without either gives its exit
    code as a SystemExit. All processes are gone on return.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running = [_start(Process(rank, env, folder), job, args) for rank, env in enumerate(envs)]
    try:
        return [_result(process, pipe) for process, pipe in running]
    finally:
        for process, _ in running:
            process.kill()
            process.join()


def _start(process: Process, job: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    receiver, sender = CONTEXT.Pipe(duplex=False)
    child = CONTEXT.Process(target=_child, args=(sender, process, job, args))
    child.start()
    sender.close()
    return child, receiver


def _child(
    pipe: Connection, process: Process, job: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    os.environ.update(process.env)
    try:
        pipe.send(job(process, *args))
    except Exception as error:
        pipe.send(error)


def _result(process: Any, pipe: Connection) -> Any:
    if not pipe.poll(DEADLINE):
        raise TimeoutError(f"a rank has given no result for {DEADLINE} s")
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        return SystemExit(process.exitcode)


def free_port() -> int:
    """Nobody listens on it at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> Any:
    """The condition's value once it holds; fails with `what` if it does not in time."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {deadline} s for {what}")
