"""What each stage of Muster costs for one object: decode, step, encode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from benchmarks.budget_soak import Obedient
from scheduler import decode
from scheduler.core.messages import NodeSeen, PodSeen, Synced
from scheduler.service import Service
from scheduler.settings import Settings

T = TypeVar("T")
R = TypeVar("R")


def stages(nodes: Sequence[bytes], pods: Sequence[bytes]) -> dict[str, Any]:
    """The row of the report: CPU microseconds for one object of each kind.

    ``nodes`` and ``pods`` are objects as the API server sends them.
    """
    service = Service(Settings(), Obedient())
    node_us, seen_nodes = each(decode.node_bytes, nodes)
    pod_us, seen_pods = each(decode.pod_bytes, pods)
    step_node_us, _ = each(lambda node: service.post(NodeSeen(node)), seen_nodes)
    step_pod_us, _ = each(lambda pod: service.post(PodSeen(pod)), seen_pods)
    synced_us, _ = each(lambda event: service.post(event), [Synced()])
    encode_us, _ = each(msgspec.json.encode, [_binding(at) for at in range(1_000)])
    return {
        "what": "stages",
        "decode_node_us": round(node_us, 1),
        "decode_pod_us": round(pod_us, 1),
        "step_node_us": round(step_node_us, 1),
        "step_pod_us": round(step_pod_us, 1),
        "synced_ms": round(synced_us / 1000, 1),
        "encode_binding_us": round(encode_us, 1),
    }


def each(work: Callable[[T], R], items: Sequence[T]) -> tuple[float, list[R]]:
    """CPU microseconds for one item, and all results. ValueError if there are no items."""
    if not items:
        raise ValueError("there is nothing to time")
    began = time.process_time()
    results = [work(item) for item in items]
    return 1e6 * (time.process_time() - began) / len(items), results


def _binding(at: int) -> dict[str, Any]:
    hint = {"version": 1, "rank": at, "size": 500, "path": ["b0", "r1"], "node": f"n{at}"}
    metadata = {
        "namespace": "bench",
        "name": f"gang-{at}",
        "uid": f"00000000-0000-0000-0000-{at:012}",
        "annotations": {"muster.scheduler/hint": msgspec.json.encode(hint).decode()},
    }
    target = {"apiVersion": "v1", "kind": "Node", "name": f"ip-10-0-{at}-17.compute.internal"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
