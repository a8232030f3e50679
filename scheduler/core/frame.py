"""The nodes' amounts as arrays, which placement works on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from scheduler.model import Node, Resources

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NODE_LIMIT = 2**61
REQUEST_LIMIT = 2**62
# Sums are exact integers of any size; the arrays hold 64 bits. A node is cut off below the largest
# request, so that "too big" never wraps around into "fits".


class Frame:
    """The nodes as rows in name order and the resources as columns.

    ``free`` and ``allocatable`` have the shape [nodes, resources]; ``free`` is never negative.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        known = {node.name: node for node in nodes}
        self.names: tuple[str, ...] = tuple(sorted(known))
        self.row: dict[str, int] = {name: row for row, name in enumerate(self.names)}
        resources = {name for node in known.values() for name in node.allocatable}
        self.column: dict[str, int] = {name: at for at, name in enumerate(sorted(resources))}
        shape = (len(self.names), len(self.column))
        self.free: Ints = np.zeros(shape, dtype=np.int64)
        self.allocatable: Ints = np.zeros(shape, dtype=np.int64)

    def columns(self, requests: Resources) -> tuple[list[int], Ints] | None:
        """Columns and amounts of a request, or None if some resource is on no node at all."""
        try:
            at = [self.column[name] for name in requests]
        except KeyError:
            return None
        amounts = [min(value, REQUEST_LIMIT) for value in requests.values()]
        return at, np.array(amounts, dtype=np.int64)

    def total(self, table: Ints, wanted: Callable[[str], bool]) -> Ints:
        """Per node the sum over the resources that ``wanted`` names; shape [nodes]."""
        at = [column for name, column in self.column.items() if wanted(name)]
        return np.asarray(table[:, at].sum(axis=1), dtype=np.int64)
