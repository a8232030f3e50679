"""The nodes of the cluster benchmark, and the fewest domains that a gang can share on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.e2e.controlplane.objects import BLOCK, RACK, node

Json = dict[str, Any]
Place = tuple[str, str]
"""Block and rack of a node."""

RACK_NODES = 16
BLOCK_RACKS = 16
NODE_GPUS = 8
LEVELS = (BLOCK, RACK)

MADE_BY = {"muster.bench/made-by": "cluster"}
SELECTOR = "muster.bench/made-by=cluster"
TAINT = {"key": "muster.bench/no-kubelet", "value": "true", "effect": "NoSchedule"}
"""So that in a cluster with other users nothing else lands on nodes that do not exist."""
TOLERATION = {"key": TAINT["key"], "operator": "Exists"}


def node_name(at: int) -> str:
    """As long as names of cloud nodes are, for they travel with every filter call."""
    return f"ip-10-{at // 256}-{at % 256}-17.compute.internal"


def place(at: int) -> Place:
    """Racks of 16 nodes, blocks of 16 racks; the last of each may be smaller."""
    rack = at // RACK_NODES
    return f"b{rack // BLOCK_RACKS}", f"r{rack}"


def places(nodes: int) -> dict[str, Place]:
    """Where every node is, by its name."""
    return {node_name(at): place(at) for at in range(nodes)}


def fleet(nodes: int) -> list[Json]:
    """Node objects with 8 GPUs each."""
    return [_node(at) for at in range(nodes)]


def _node(at: int) -> Json:
    block, rack = place(at)
    labels = {BLOCK: block, RACK: rack, **MADE_BY}
    return node(node_name(at), gpus=NODE_GPUS, labels=labels, taints=[TAINT])


def domains(where: Mapping[str, Place], used: Iterable[str]) -> list[int]:
    """How many blocks and racks the nodes in ``used`` are in."""
    found = [where[name] for name in set(used)]
    return [len({block for block, _ in found}), len({rack for _, rack in found})]


def fewest(where: Mapping[str, Place], pods: int, pods_per_node: int) -> list[int]:
    """The fewest blocks and racks for a gang on an empty cluster: the largest ones first."""
    needed = -(-pods // pods_per_node)
    sizes = [Counter(found[level] for found in where.values()) for level in range(len(LEVELS))]
    return [_fewest(sorted(size.values(), reverse=True), needed) for size in sizes]


def _fewest(sizes: Sequence[int], needed: int) -> int:
    """How many of the largest domains hold ``needed`` nodes. ValueError if all do not."""
    for count, size in enumerate(sizes, start=1):
        needed -= size
        if needed <= 0:
            return count
    raise ValueError(f"{needed} nodes are missing for the gang")
