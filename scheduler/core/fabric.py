"""The fixed tree of topology domains, prepared once and shared read-only by every plan."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Which domain every node is in, level by level.

    Nodes are rows 0..n-1 in name order, so "lowest row" means "first by name".

    `domains` is int [L, n]: the id of the domain of node i at level l (0 is the broadest level),
    or -1 where the node is in no domain of that level; it then has -1 at all finer levels too. Ids
    are dense per level and follow the order of the domains' path tuples. L may be 0.

    Derived, in *topology order* (by path of domain ids, then row; unlabelled nodes come after
    labelled ones), with the nodes themselves as one more level, the finest:

    * `order`: int64 [n], the row at each position.
    * `paths`: int64 [L+1, n], the number of the domain at each position. A node without a domain
      counts as a domain of its own.
    * `starts`: one int64 array per level, the first position of each domain.

    Raises ValueError when a domain lies in more than one broader domain, or when a node has a
    domain below a level where it has none. Complexity: O(L n log n).
    """

    domains: npt.NDArray[np.int32]
    order: IntArray = field(init=False, repr=False)
    paths: IntArray = field(init=False, repr=False)
    starts: tuple[IntArray, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        own = self._with_own_domains()
        order = np.lexsort((np.arange(self.nodes), *own[::-1]))
        opens = self._first_in_domain(own[:, order])
        object.__setattr__(self, "order", order)
        object.__setattr__(self, "paths", opens.cumsum(axis=1, dtype=np.int64) - 1)
        object.__setattr__(self, "starts", tuple(np.flatnonzero(row) for row in opens))
        self._check_tree()

    @property
    def levels(self) -> int:
        """How many levels of domains there are, nodes not counted."""
        return int(self.domains.shape[0])

    @property
    def nodes(self) -> int:
        return int(self.domains.shape[1])

    def _with_own_domains(self) -> IntArray:
        """The ids, with one of its own (above all real ones) for a node in no domain."""
        ids = self.domains.astype(np.int64)
        above = ids.max(initial=-1) + 1
        return np.where(ids >= 0, ids, above + np.arange(self.nodes))

    def _first_in_domain(self, ids: IntArray) -> BoolArray:
        """bool [L+1, n]: where a new domain begins, in topology order."""
        opens = np.ones((self.levels + 1, self.nodes), dtype=np.bool_)
        if self.nodes:
            changes = ids[:, 1:] != ids[:, :-1]
            opens[:-1, 1:] = np.logical_or.accumulate(changes, axis=0)
        return opens

    def _check_tree(self) -> None:
        labelled = self.domains >= 0
        for level in range(self.levels):
            if level and (labelled[level] & ~labelled[level - 1]).any():
                raise ValueError(f"a node has a domain at level {level} but none above it")
            heads = self.order[self.starts[level]]
            ids = self.domains[level, heads]
            ids = ids[ids >= 0]
            if np.unique(ids).size != ids.size:
                raise ValueError(f"a domain of level {level} lies in more than one broader domain")
