"""How well the accelerators that are free can be used: three figures, from arrays alone.

All arrays have one row a node, in the order of ``Frame`` and ``Fabric``. Nodes that may take no new
pod at all are left out by the caller (their ``usable`` is False): what is free there is no use to
anybody, and that is no fragmentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.cliques import KEY as CLIQUE
from scheduler.core.cliques import Cliques
from scheduler.core.fabric import Fabric

__all__ = [
    "CLUSTER",
    "SIZES",
    "Ask",
    "FreeBy",
    "Largest",
    "free_by_completeness",
    "largest_gang",
    "largest_gangs",
    "share_without_use",
]

SIZES = (1, 2, 4, 8)
"""Accelerators a pod, as people ask for them."""

CLUSTER = "cluster"
"""The level above all others: everything is one domain."""


class Largest(NamedTuple):
    """The most pods alike that fit into one domain of a level now."""

    resource: str
    level: str
    """The level's label key, that of the NVLink domain, or ``cluster``."""
    size: int
    """Accelerators a pod."""
    pods: int


class FreeBy(NamedTuple):
    """Free accelerators, by how much of their node is free."""

    whole: int
    """On nodes of which every accelerator is free."""
    part: int
    """On nodes of which some accelerators are taken."""
    unusable: int
    """On nodes that take no new pod: cordoned, not ready, avoided or going."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What pods of one kind ask for, and how many of them there are."""

    requests: Mapping[str, int]
    weight: int


def largest_gang(free: Ints, domains: npt.NDArray[np.int32] | None, size: int) -> int:
    """How many pods of ``size`` accelerators each fit into one domain, at best.

    ``free``: int [n], free accelerators of one kind. ``domains``: int [n], the id of each node's
    domain, -1 for none; None if all nodes are one domain. Only accelerators are looked at: a node
    that is short of processors may hold fewer. O(n).
    """
    pods = free // size
    if domains is None:
        return int(pods.sum())
    inside = domains >= 0
    if not inside.any():
        return 0
    return int(np.bincount(domains[inside], weights=pods[inside]).max())


def largest_gangs(
    frame: Frame,
    fabric: Fabric,
    levels: Sequence[str],
    resources: Iterable[str],
    usable: Bools,
    cliques: Cliques | None = None,
) -> list[Largest]:
    """``largest_gang`` for every resource, level (the cluster first, NVLink domains last) and size.

    O(R L n).
    """
    by_level: list[tuple[str, npt.NDArray[np.int32] | None]] = [(CLUSTER, None)]
    by_level += [(level, fabric.domains[at]) for at, level in enumerate(levels)]
    if cliques is not None:
        by_level.append((CLIQUE, cliques.ids))
    found = []
    for resource in sorted(resources):
        free = np.where(usable, frame.free[:, frame.column[resource]], 0)
        for level, domains in by_level:
            found += [
                Largest(resource, level, size, largest_gang(free, domains, size)) for size in SIZES
            ]
    return found


def free_by_completeness(free: Ints, have: Ints, usable: Bools) -> FreeBy:
    """Free accelerators on nodes that are wholly free, partly free, and not to be used.

    ``free`` and ``have``: int [n], accelerators of all kinds, free and in all. O(n).
    """
    whole = usable & (free == have)
    total = int(free.sum())
    on_whole, on_usable = int(free[whole].sum()), int(free[usable].sum())
    return FreeBy(on_whole, on_usable - on_whole, total - on_usable)


def share_without_use(
    frame: Frame, asks: Sequence[Ask], resources: Iterable[str], usable: Bools
) -> float | None:
    """The share of free accelerators that a pod drawn from ``asks`` cannot use, as expected.

    For a kind of pod m that makes up the part p(m) of all, a free accelerator of the kind it asks
    for is without use if its node has not the room for one more such pod: accelerators, processors,
    memory or pods. The figure is the sum over m of

        p(m) * (free accelerators on nodes without room for m) / (free accelerators)

    Zero if none is free, None if no pod asks for any. 0.3 reads: for the next pod, three in ten of
    the free accelerators might as well be taken. Labels and taints are not looked at.

    Parameters
    ----------
    frame : the room of all nodes.
    asks : kinds of pods with their number; those that ask for no accelerator are passed over.
    resources : which columns are accelerators.
    usable : bool [n], nodes that count.

    Notes
    -----
    O(kinds x n x resources asked for).

    References
    ----------
    The measure F(n, m) of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
    with Fragmentation Gradient Descent", USENIX ATC 2023, section 3.2, for whole devices, over the
    free devices instead of as a number of them, so that clusters of any size can be compared.
    """
    accelerators = frozenset(resources)
    shares = []
    for ask in asks:
        asked = frozenset(name for name in accelerators if ask.requests.get(name))
        if asked:
            shares.append((ask.weight, _without_use(frame, ask.requests, asked, usable)))
    total = sum(weight for weight, _ in shares)
    return sum(weight * share for weight, share in shares) / total if total else None


def _without_use(
    frame: Frame, requests: Mapping[str, int], asked: frozenset[str], usable: Bools
) -> float:
    free = np.where(usable, frame.total(frame.free, asked.__contains__), 0)
    total = int(free.sum())
    at = frame.columns(requests)
    if not total:
        return 0.0
    if at is None:
        return 1.0
    columns, amounts = at
    fits = (frame.free[:, columns] >= amounts).all(axis=1)
    return float(free[~fits].sum()) / total
