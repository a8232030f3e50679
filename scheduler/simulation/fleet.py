"""Node objects of the embedded cluster: blocks of racks of GPU nodes."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.simulation.objects import Object

BLOCK = "topo.example/block"
RACK = "topo.example/rack"
LEVELS = (BLOCK, RACK)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The shape of a cluster of equal nodes."""

    blocks: int = 2
    racks: int = 4
    """Racks in a block."""
    nodes: int = 8
    """Nodes in a rack."""
    gpus: int = 8
    """GPUs in a node."""

    @property
    def total_gpus(self) -> int:
        """GPUs of the whole cluster."""
        return self.blocks * self.racks * self.nodes * self.gpus


def nodes(fleet: Fleet) -> list[Object]:
    """Node objects named ``n000`` and up; racks are named anew in every block."""
    found: list[Object] = []
    for block in range(fleet.blocks):
        for rack in range(fleet.racks):
            for _ in range(fleet.nodes):
                found.append(node(f"n{len(found):03d}", f"b{block}", f"r{rack}", fleet.gpus))
    return found


def node(name: str, block: str, rack: str, gpus: int) -> Object:
    """One Ready node with plenty of processors and memory."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {BLOCK: block, RACK: rack}},
        "spec": {},
        "status": {
            "allocatable": {
                "cpu": "128",
                "memory": "1Ti",
                "pods": "110",
                "nvidia.com/gpu": str(gpus),
            },
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
