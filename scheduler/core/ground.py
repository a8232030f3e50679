"""What is free on every node now, seen in topology order."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.work import Work

Key = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Ground:
    """What is known of every node now, int64 [n] each, in topology order.

    `caps`: members that fit (0 where not allowed). `free`: free accelerators. `near`: bool, nodes
    in use by the gang already. `per_member`: accelerators a member takes. `work`: the count of
    what is looked at.
    """

    fabric: Fabric
    caps: IntArray
    free: IntArray
    near: BoolArray
    per_member: int
    work: Work = field(default_factory=Work)

    @cached_property
    def opened(self) -> BoolArray:
        """bool [L+1, n]: whether the domain of the node at each level is in use already."""
        fabric = self.fabric
        if not self.near.any():
            return np.zeros(fabric.paths.shape, dtype=np.bool_)
        per_level = [np.logical_or.reduceat(self.near, starts) for starts in fabric.starts]
        return np.array([x[path] for x, path in zip(per_level, fabric.paths, strict=True)])

    @cached_property
    def domain_free(self) -> IntArray:
        """int64 [L+1, n]: free accelerators in the domain of the node at each level."""
        fabric = self.fabric
        per_level = [np.add.reduceat(self.free, starts) for starts in fabric.starts]
        return np.array([x[path] for x, path in zip(per_level, fabric.paths, strict=True)])

    def key(self, chosen: IntArray) -> Key:
        """What is compared between two choices of nodes, least first; the order of `place`."""
        new = ~self.opened[:, chosen]
        counts, left = [], []
        for level, path in enumerate(self.fabric.paths[:, chosen]):
            _, firsts = np.unique(path, return_index=True)
            fresh = firsts[new[level, firsts]]
            counts.append(fresh.size)
            left.append(int(self.domain_free[level, chosen[fresh]].sum()))
        used = chosen.size if self.near.any() else 0
        return (*counts, *left[::-1], used)
