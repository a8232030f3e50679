"""Chooses the nodes for members alike: narrows the tree, then solves what is left exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.knapsack import Items, cheapest_cover, work
from scheduler.core.narrowing import Narrowed, narrow, relaxed_fewest

Key = tuple[int, ...]

WORK_LIMIT = 600_000_000
"""Cells of one knapsack table (75 MB, about two seconds), beyond which nodes are taken largest
first: the level that narrowing fixed stays optimal, finer counts may be above the optimum."""


@dataclass(frozen=True, eq=False)
class Ground:
    """What is known of every node now, int64 [n] each, in topology order.

    `caps`: members that fit (0 where not allowed). `free`: free accelerators. `near`: bool, nodes
    in use by the gang already. `per_member`: accelerators a member takes.
    """

    fabric: Fabric
    caps: IntArray
    free: IntArray
    near: BoolArray
    per_member: int

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


def closest(ground: Ground, group: IntArray, need: int, above: int = 0) -> IntArray:
    """Positions of the nodes that hold `need` members with the least `Ground.key`.

    `group`, int64 [n]: alternatives numbered by position, one of which must hold all (-1: not
    allowed); each holds `need`, and its nodes agree on the outermost `above` levels. They are
    tried in the order of a lower bound, until none can be better.
    """
    for opened in ground.opened[:above]:
        if (opened & (group >= 0)).any():
            group = np.where(opened, group, -1)
    narrowed = narrow(ground.fabric, ground.caps, ground.near, group, need, above)
    best: tuple[Key, list[int]] | None = None
    for bound, positions in _by_bound(ground, narrowed, need):
        if best is not None and best <= (bound, [int(positions[0])]):
            break
        chosen = _cover(ground, narrowed.level, positions, need)
        found = (ground.key(chosen), chosen.tolist())
        best = min(best, found) if best else found
    assert best is not None
    return np.array(best[1], dtype=np.int64)


def _by_bound(ground: Ground, narrowed: Narrowed, need: int) -> Iterator[tuple[Key, IntArray]]:
    """The alternatives with a lower bound of their key, least first; ties by position."""
    alive = np.flatnonzero(narrowed.group >= 0)
    begins = np.searchsorted(narrowed.group[alive], np.arange(narrowed.group.max() + 1))
    if begins.size == 1:
        yield (), alive
        return
    ends = np.append(begins[1:], alive.size)
    bounds = _bounds(ground, narrowed, alive, begins, need)
    for i in _ascending(bounds):
        yield tuple(bounds[:, i].tolist()), alive[begins[i] : ends[i]]


def _ascending(bounds: IntArray) -> Iterator[int]:
    """Columns in lexicographic order. The first is found without sorting: it often is enough."""
    least = np.arange(bounds.shape[1])
    for row in bounds:
        values = row[least]
        least = least[values == values.min()]
    yield int(least[0])
    yield from np.lexsort(bounds[::-1])[1:].tolist()


def _bounds(
    ground: Ground, narrowed: Narrowed, alive: IntArray, begins: IntArray, need: int
) -> IntArray:
    """int64 [keys, alternatives]: no choice within the alternative has a lower key.

    Above the narrowed level everything is known from any node of the alternative. Below, counts
    are bounded by taking the largest domains wherever they lie, and free accelerators by what the
    fewest nodes must have.
    """
    level, heads = narrowed.level, alive[begins]
    new = ~ground.opened[:, heads]
    counts = new.astype(np.int64)
    counts[level] = narrowed.fewest
    for finer in range(level + 1, len(counts)):
        counts[finer] = relaxed_fewest(
            ground.fabric, finer, ground.caps, ground.near, narrowed.group, need
        )
    left = np.where(new, ground.domain_free[:, heads], 0)
    left[level:] = 0 if ground.near.any() else _least_free(ground, alive, begins, counts[-1], need)
    return np.concatenate([counts, left[::-1], np.zeros_like(counts[-1:])])


def _least_free(
    ground: Ground, alive: IntArray, begins: IntArray, nodes: IntArray, need: int
) -> IntArray:
    """Per alternative, free accelerators that any choice of at least `nodes` new nodes has."""
    free = ground.free[alive]
    waste = np.minimum.reduceat(free - ground.caps[alive] * ground.per_member, begins)
    filled = np.where(waste >= 0, need * ground.per_member + nodes * waste, 0)
    return np.maximum(nodes * np.minimum.reduceat(free, begins), filled)


def _cover(ground: Ground, level: int, positions: IntArray, need: int) -> IntArray:
    """The best choice among `positions`, which agree on everything above `level`."""
    caps = ground.caps[positions]
    unit = int(np.gcd.reduce(caps))
    need = -(-need // unit)
    if _alike(ground, positions, caps):
        return _cover_alike(ground, level, positions, need)
    items = _items(ground, level, positions, caps // unit)
    if work(items, need) > WORK_LIMIT:
        return _largest_first(ground, level, positions, need * unit)
    return positions[cheapest_cover(items, need)]


def _alike(ground: Ground, positions: IntArray, caps: IntArray) -> bool:
    """Whether it makes no difference which nodes of a domain are used."""
    free = ground.free[positions]
    same = (caps == caps[0]).all() and (free == free[0]).all()
    return bool(same and not ground.near[positions].any())


def _cover_alike(ground: Ground, level: int, positions: IntArray, nodes: int) -> IntArray:
    """The same for nodes alike, of which `nodes` are needed: choose the finest domains only.

    The fewest domains are used, so leaving out the last nodes leaves no domain out.
    """
    finest = ground.fabric.levels - 1
    if level > finest:
        return positions[:nodes]
    domain = ground.fabric.paths[finest, positions]
    heads = np.flatnonzero(np.diff(domain, prepend=-1))
    sizes = np.diff(heads, append=domain.size)
    items = _items(ground, level, positions[heads], sizes, finest)
    chosen = cheapest_cover(items, nodes)
    return positions[np.isin(domain, domain[heads[chosen]])][:nodes]


def _items(
    ground: Ground, level: int, positions: IntArray, caps: IntArray, finest: int | None = None
) -> Items:
    depths = slice(level, None if finest is None else finest + 1)
    return Items(
        caps,
        ground.fabric.paths[depths, positions],
        ground.opened[depths, positions],
        ground.domain_free[depths, positions],
    )


def _largest_first(ground: Ground, level: int, positions: IntArray, need: int) -> IntArray:
    """A choice that is good but not proven: from `level` down, the largest domains first."""
    for finer in range(level, ground.fabric.levels + 1):
        domain = ground.fabric.paths[finer, positions]
        heads = np.flatnonzero(np.diff(domain, prepend=-1))
        caps = np.add.reduceat(ground.caps[positions], heads)
        order = np.lexsort((-caps, ~ground.opened[finer, positions[heads]]))
        enough = int(np.searchsorted(np.cumsum(caps[order]), need)) + 1
        positions = positions[np.isin(domain, domain[heads[order[:enough]]])]
    return positions
