"""The cluster that a trace is replayed on: blocks of racks of equal nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.capacity import Ints
from scheduler.core.fabric import Fabric
from scheduler.errors import MusterError
from scheduler.model import Node
from scheduler.simulation.fleet import BLOCK, RACK

MOST_NODES = 50_000
MOST_GPUS = 999_999
CPUS, MEMORY = 12_000, 128 << 30
"""Millicores and bytes that a pod asks for beside each GPU; nodes have enough of both."""


@dataclass(frozen=True)
class Shape:
    """How many blocks, racks in a block, nodes in a rack, GPUs in a node."""

    blocks: int
    racks: int
    nodes: int
    gpus: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """``2x4x8x8``. Raises MusterError for anything else, and for clusters too large."""
        found = re.fullmatch(r"(\d+)x(\d+)x(\d+)x(\d+)", text[:200])
        sizes = [int(size) for size in found.groups()] if found else []
        if not sizes or min(sizes) < 1:
            raise MusterError(
                f"shape {text!r}: four whole numbers above 0 are expected, "
                "blocks x racks x nodes x GPUs, such as 2x4x8x8"
            )
        shape = cls(*sizes)
        if shape.count > MOST_NODES or shape.gpus > MOST_GPUS:
            raise MusterError(
                f"shape {text!r}: {shape.count} nodes of {shape.gpus} GPUs; at most {MOST_NODES} "
                f"nodes of {MOST_GPUS} GPUs are simulated"
            )
        return shape

    def __str__(self) -> str:
        return f"{self.blocks}x{self.racks}x{self.nodes}x{self.gpus}"

    @property
    def count(self) -> int:
        """Nodes in all."""
        return self.blocks * self.racks * self.nodes

    @property
    def total(self) -> int:
        """GPUs in all."""
        return self.count * self.gpus

    @cached_property
    def rack_of(self) -> Ints:
        """int64 [n]: the rack of each node, numbered through all blocks."""
        return np.arange(self.count) // self.nodes

    @cached_property
    def block_of(self) -> Ints:
        """int64 [n]."""
        return self.rack_of // self.racks

    @cached_property
    def fabric(self) -> Fabric:
        """The same for placement: level 0 are blocks, level 1 racks."""
        return Fabric(np.stack([self.block_of, self.rack_of]).astype(np.int32))

    def node_objects(self) -> list[Node]:
        """The nodes as the engine sees them; names sort as the rows do."""
        return [
            Node(
                node_name(row),
                labels={BLOCK: f"b{self.block_of[row]:05}", RACK: f"r{self.rack_of[row]:05}"},
                allocatable={
                    "cpu": CPUS * self.gpus + 8000,
                    "memory": MEMORY * self.gpus,
                    "pods": 110 + self.gpus,
                    "nvidia.com/gpu": self.gpus,
                },
            )
            for row in range(self.count)
        ]


def node_name(row: int) -> str:
    """``n00007``."""
    return f"n{row:05}"
