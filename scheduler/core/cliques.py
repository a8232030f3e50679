"""NVLink domains: a second axis beside the levels of the network.

All GPUs of a multi-node NVLink domain (an NVL72, for example) reach each other at NVLink speed.
Such a domain most often lies inside one rack or block, but nothing says so: two of them may share a
leaf switch, and one may hang on several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.core.fabric import Fabric
from scheduler.model import Node

__all__ = ["KEY", "NAMES", "Cliques", "clique_of"]

KEY = "nvidia.com/gpu.clique"
LABELS = (
    KEY,
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/ultraserver-id",
)
"""Node labels that name the domain, the first that a node has counts."""

NAMES = frozenset({*LABELS, "gpu.clique", "clique", "nvlink-domain"})
"""What may stand for the domain where a level is asked for."""

_NO_FABRIC = "00000000-0000-0000-0000-000000000000."
"""How the value begins where a node's NVSwitches join no other node."""

Ids = npt.NDArray[np.int32]


def clique_of(labels: Mapping[str, str]) -> str:
    """The NVLink domain of a node with these labels; "" if it is in none beyond itself."""
    found = next((labels[key] for key in LABELS if labels.get(key)), "")
    return "" if found.startswith(_NO_FABRIC) else found


@dataclass(frozen=True, eq=False)
class Cliques:
    """Which NVLink domain every node is in.

    * `names`: the domains by id, sorted.
    * `ids`: int32 [n] by row of the fabric, -1 for none.
    """

    fabric: Fabric
    names: tuple[str, ...]
    ids: Ids

    @classmethod
    def of(cls, fabric: Fabric, nodes: Iterable[Node]) -> Cliques | None:
        """Those of the nodes of a fabric; None if no node is in any."""
        found = [clique_of(node.labels) for node in sorted(nodes, key=lambda node: node.name)]
        names = tuple(sorted(set(found) - {""}))
        if not names:
            return None
        number = {name: at for at, name in enumerate(names)}
        ids = np.array([number.get(name, -1) for name in found], dtype=np.int32)
        return cls(fabric, names, ids)

    @cached_property
    def nested(self) -> tuple[Fabric, int] | None:
        """The tree with these domains as one more level, and which one it is: the finest at which
        they lie inside the domains above and those below lie inside them. None if they cross.

        Where they are not the finest level, a domain of the level below that is in none counts as
        one by itself. O(L n log n).
        """
        domains = self.fabric.domains
        for at in range(len(domains), -1, -1):
            ids = self._filled(at)
            if at and not _inside(ids, domains[at - 1]):
                continue
            if all(_inside(below, ids) for below in domains[at:]):
                above = domains[at - 1] if at else np.zeros_like(ids)
                level = _pairs(above, ids)
                return Fabric(np.concatenate([domains[:at], level[None], domains[at:]])), at
        return None

    @cached_property
    def first(self) -> Fabric:
        """The tree of what is left of every domain inside each NVLink domain, which are its
        broadest level. Nodes in none take no part."""
        levels = [self.ids, *(_pairs(self.ids, ids) for ids in self.fabric.domains)]
        return Fabric(np.stack(levels))

    def _filled(self, at: int) -> Ids:
        if at == len(self.fabric.domains):
            return self.ids
        below = self.fabric.domains[at]
        own = np.where(below >= 0, below + len(self.names), -1)
        return np.where(self.ids >= 0, self.ids, own).astype(np.int32)


def _inside(inner: Ids, outer: Ids) -> bool:
    """Whether every domain of one kind lies in a single one of the other."""
    known = inner >= 0
    if (outer[known] < 0).any():
        return False
    pairs = _joined(outer[known], inner[known])
    return np.unique(pairs).size == np.unique(inner[known]).size


def _pairs(outer: Ids, inner: Ids) -> Ids:
    """Dense ids of the pairs, in their order; -1 where either is missing."""
    both = (outer >= 0) & (inner >= 0)
    ids = np.full(outer.shape, -1, dtype=np.int32)
    _, ids[both] = np.unique(_joined(outer[both], inner[both]), return_inverse=True)
    return ids


def _joined(outer: Ids, inner: Ids) -> npt.NDArray[np.int64]:
    """One number for each pair."""
    joined: npt.NDArray[np.int64] = outer.astype(np.int64) << 32 | inner
    return joined
