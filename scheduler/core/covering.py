"""Chooses the nodes for members alike: among alternatives, the one that comes out closest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler.core.fabric import IntArray
from scheduler.core.ground import Ground, Key
from scheduler.core.narrowing import Narrowed, narrow, relaxed_fewest
from scheduler.core.pricing import PriceTree, fewest_leaves
from scheduler.core.selection import select


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
        if best is not None:
            if best <= (bound, [int(positions[0])]):
                break
            positions = _still_useful(ground, narrowed, bound, best[0], positions, need)
            if not positions.size:
                continue
        chosen = select(ground, narrowed.level, narrowed.fewest, positions, need)
        found = (ground.key(chosen), chosen.tolist())
        best = min(best, found) if best else found
    assert best is not None
    return np.array(best[1], dtype=np.int64)


def _still_useful(
    ground: Ground, narrowed: Narrowed, bound: Key, best: Key, positions: IntArray, need: int
) -> IntArray:
    """The nodes of an alternative that can be part of a choice as good as the best one so far.

    If that has as few domains and nodes as the bound, nothing with more nodes is as good: a node
    must hold what the others cannot. None is left if no choice can have so few.
    """
    nodes = ground.fabric.levels
    if ground.near.any() or best[: nodes + 1] != bound[: nodes + 1]:
        return positions
    caps = ground.caps[positions]
    positions = positions[caps >= need - (bound[nodes] - 1) * int(caps.max())]
    heads = np.flatnonzero(np.diff(ground.fabric.paths[narrowed.level, positions], prepend=-1))
    if not heads.size:
        return positions
    held = np.sort(np.add.reduceat(ground.caps[positions], heads))
    enough = int(held[-narrowed.fewest :].sum()) >= need
    return positions if enough else positions[:0]


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
    are bounded by prices and by taking the largest domains wherever they lie, and free
    accelerators by what the fewest nodes must have.
    """
    level, heads = narrowed.level, alive[begins]
    new = ~ground.opened[:, heads]
    counts = new.astype(np.int64)
    counts[level] = narrowed.fewest
    for finer in range(level + 1, len(counts)):
        relaxed = relaxed_fewest(
            ground.fabric, finer, ground.caps, ground.near, narrowed.group, need
        )
        counts[finer] = np.maximum(relaxed, _priced(ground, narrowed, finer, alive, need))
    left = np.where(new, ground.domain_free[:, heads], 0)
    left[level:] = 0 if ground.near.any() else _least_free(ground, alive, begins, counts[-1], need)
    return np.concatenate([counts, left[::-1], np.zeros_like(counts[-1:])])


def _priced(ground: Ground, narrowed: Narrowed, finer: int, alive: IntArray, need: int) -> IntArray:
    """Per alternative, a lower bound of the domains of a level below the narrowed one, whatever
    lies between."""
    levels = [narrowed.level, finer]
    paths = ground.fabric.paths[levels][:, alive]
    heads = np.flatnonzero(np.diff(paths[-1], prepend=-1))
    tree = PriceTree(
        paths[:, heads],
        np.add.reduceat(ground.caps[alive], heads),
        ground.opened[levels][:, alive[heads]],
        narrowed.group[alive[heads]],
        narrowed.fewest,
    )
    return fewest_leaves(tree, (), need).fewest


def _least_free(
    ground: Ground, alive: IntArray, begins: IntArray, nodes: IntArray, need: int
) -> IntArray:
    """Per alternative, free accelerators that any choice of at least `nodes` new nodes has."""
    free = ground.free[alive]
    waste = np.minimum.reduceat(free - ground.caps[alive] * ground.per_member, begins)
    filled = np.where(waste >= 0, need * ground.per_member + nodes * waste, 0)
    return np.maximum(nodes * np.minimum.reduceat(free, begins), filled)
