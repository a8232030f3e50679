"""How long the extender takes to answer a filter call: `python -m benchmarks.extender`.

The real service with the real engine runs in a process of its own and knows the nodes, of 8 GPUs.
The client sends prepared bytes over one kept-alive connection, one call after the other, as
kube-scheduler does, and times each from the first byte sent to the last byte received.

* hold: a member of a gang of which one pod is missing
* planned: a member of a gang that has its seats
* single: a pod of one GPU, which is a gang of one
* plain: a pod without accelerators and without a gang, offered back all nodes
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.report import report
from scheduler import decode
from scheduler.api import ServerThread, create_app
from scheduler.core.messages import Effect, NodeSeen, PodSeen, Synced
from scheduler.service import Post, Service
from scheduler.settings import Settings

NODES = (1_000, 5_000)
GANG = 64
CASES = ("hold", "planned", "single", "plain")
WARM_UP = 200
PACKAGES = ("fastapi", "uvicorn", "httptools", "uvloop", "msgspec")

Json = dict[str, Any]


# ── the world ─────────────────────────────────────────────────────────────────────────────────────


def node_name(at: int) -> str:
    """As long as names of cloud nodes are."""
    return f"ip-10-{at // 256}-{at % 256}-17.compute.internal"


def node(at: int) -> Json:
    """A node of 8 GPUs in racks of 16."""
    labels = {"bench/block": f"b{at // 496}", "bench/rack": f"r{at // 16}"}
    room = {"cpu": "128", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "metadata": {"name": node_name(at), "uid": f"node-{at}", "labels": labels},
        "status": {
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, gpus: int = 0, gang: str = "", least: int = GANG) -> Json:
    """A pod of a few kilobytes, as a training operator writes it."""
    ours = {"muster.scheduler/gang": gang, "muster.scheduler/min-available": str(least)}
    amounts = {"cpu": "8", "memory": "64Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    environment = [{"name": f"SETTING_{at}", "value": "x" * 40} for at in range(30)]
    return {
        "metadata": {
            "namespace": "bench",
            "name": name,
            "uid": f"pod-{name}",
            "labels": {"app": "train"},
            "annotations": ours if gang else {},
        },
        "spec": {
            "schedulerName": "muster",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "env": environment,
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def pods() -> dict[str, list[Json]]:
    """For each case the pods that exist; the first is the one that is asked for."""
    return {
        "hold": [pod(f"hold-{at}", 8, "hold") for at in range(GANG - 1)],
        "planned": [pod(f"planned-{at}", 8, "planned") for at in range(GANG)],
        "single": [pod("single", 1)],
        "plain": [pod("plain")],
    }


class NoActuator:
    """Carries nothing out, so that planned gangs keep their seats."""

    def start(self, post: Post) -> None:
        """Nothing to start."""

    def submit(self, effects: Sequence[Effect]) -> None:
        """Nothing is sent."""

    def stop(self, deadline_s: float) -> None:
        """Nothing to stop."""


def serve(pipe: Connection, nodes: int) -> None:
    """Run the service until the other end of the pipe says so."""
    service = Service(Settings(timeout_s=1e8), NoActuator())
    for at in range(nodes):
        service.post(NodeSeen(decode.node(node(at))))
    for group in pods().values():
        for one in group:
            service.post(PodSeen(decode.pod(one)))
    service.post(Synced())
    with ServerThread(create_app(service)) as server:
        pipe.send((server.host, server.port))
        pipe.recv()


@contextmanager
def server(nodes: int) -> Iterator[socket.socket]:
    """A connection to a service in another process."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, nodes), daemon=True)
    process.start()
    try:
        if not ours.poll(120):
            raise TimeoutError("the service did not start within 120 s")
        with socket.create_connection(ours.recv()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
        ours.send("stop")
        process.join(30)
    finally:
        process.kill()


# ── the client ────────────────────────────────────────────────────────────────────────────────────


def request(asked: Json, names: int) -> bytes:
    """A filter call as bytes."""
    args = {"Pod": asked, "Nodes": None, "NodeNames": [node_name(at) for at in range(names)]}
    body = json.dumps(args, separators=(",", ":")).encode()
    head = (
        "POST /filter HTTP/1.1\r\nHost: muster\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def call(connection: socket.socket, message: bytes) -> bytes:
    """Send one call; the body of its answer."""
    connection.sendall(message)
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _receive(connection)
    head = bytes(received[:end]).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    while len(received) < end + 4 + length:
        received += _receive(connection)
    return bytes(received[end + 4 :])


def _receive(connection: socket.socket) -> bytes:
    part = connection.recv(1 << 20)
    if not part:
        raise ConnectionError("the service closed the connection")
    return part


def expected(case: str, answer: bytes, names: int) -> bool:
    """Whether the answer is the one that the case is about."""
    found = json.loads(answer)["NodeNames"]
    return len(found) == {"hold": 0, "planned": 1, "single": 1, "plain": names}[case]


def measure(connection: socket.socket, case: str, names: int, calls: int) -> Json:
    """One row."""
    message = request(pods()[case][0], names)
    for _ in range(WARM_UP):
        answer = call(connection, message)
    if not expected(case, answer, names):
        raise RuntimeError(f"case {case} got another answer than it is about: {answer[:300]!r}")
    seconds = []
    for _ in range(calls):
        began = time.perf_counter()
        call(connection, message)
        seconds.append(time.perf_counter() - began)
    parts = statistics.quantiles(seconds, n=100)
    return {
        "case": case,
        "names": names,
        "p50_ms": round(parts[49] * 1e3, 3),
        "p99_ms": round(parts[98] * 1e3, 3),
        "calls_per_s": round(calls / sum(seconds)),
    }


def main() -> None:
    """Measure all cases and report them."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--calls", type=int, default=3000, help="calls in each row")
    options.add_argument("--names", type=int, nargs="+", default=NODES, help="nodes offered")
    chosen = options.parse_args()
    rows = []
    for names in chosen.names:
        with server(names) as connection:
            rows += [measure(connection, case, names, chosen.calls) for case in CASES]
    report("extender", rows, PACKAGES)


if __name__ == "__main__":
    main()
