"""Solves one alternative: which of its nodes to use."""

from __future__ import annotations

import numpy as np

from scheduler.core.fabric import IntArray
from scheduler.core.ground import Ground
from scheduler.core.knapsack import Items
from scheduler.core.staged import TooLargeError, cover


def select(ground: Ground, level: int, fewest: int, positions: IntArray, need: int) -> IntArray:
    """Those of `positions` that hold `need` members with the least `Ground.key`.

    They agree on everything above `level`, of which `fewest` new domains are to be used.
    """
    try:
        return _exact(ground, level, fewest, positions, need)
    except TooLargeError:
        return _largest_first(ground, level, positions, need)


def _exact(ground: Ground, level: int, fewest: int, positions: IntArray, need: int) -> IntArray:
    caps = ground.caps[positions]
    unit = int(np.gcd.reduce(caps))
    need = -(-need // unit)
    if _alike(ground, positions, caps):
        return _exact_alike(ground, level, fewest, positions, need)
    items = _items(ground, level, ground.fabric.levels, positions, caps // unit)
    return positions[cover(items, fewest, need)]


def _alike(ground: Ground, positions: IntArray, caps: IntArray) -> bool:
    """Whether it makes no difference which nodes of a domain are used."""
    free = ground.free[positions]
    same = (caps == caps[0]).all() and (free == free[0]).all()
    return bool(same and not ground.near[positions].any())


def _exact_alike(
    ground: Ground, level: int, fewest: int, positions: IntArray, nodes: int
) -> IntArray:
    """The same for nodes alike, of which `nodes` are needed: choose the finest domains only.

    The fewest domains are used, so leaving out the last nodes leaves no domain out.
    """
    finest = ground.fabric.levels - 1
    if level > finest:
        return positions[:nodes]
    domain = ground.fabric.paths[finest, positions]
    heads = np.flatnonzero(np.diff(domain, prepend=-1))
    sizes = np.diff(heads, append=domain.size)
    items = _items(ground, level, finest, positions[heads], sizes)
    chosen = cover(items, fewest, nodes)
    return positions[np.isin(domain, domain[heads[chosen]])][:nodes]


def _items(ground: Ground, level: int, last: int, positions: IntArray, caps: IntArray) -> Items:
    """The domains of level `last` that begin at `positions`, with all levels from `level` on."""
    levels = slice(level, last + 1)
    return Items(
        caps,
        ground.fabric.paths[levels, positions],
        ground.opened[levels, positions],
        ground.domain_free[levels, positions],
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
