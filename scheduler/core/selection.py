"""Solves one alternative: which of its nodes to use."""

from __future__ import annotations

import numpy as np

from scheduler.core.fabric import IntArray
from scheduler.core.ground import Ground
from scheduler.core.knapsack import Items
from scheduler.core.staged import cover


def select(ground: Ground, level: int, fewest: int, positions: IntArray, need: int) -> IntArray:
    """Those of `positions` that hold `need` members with the least `Ground.key`.

    They agree on everything above `level`, of which `fewest` new domains are to be used.
    """
    caps = ground.caps[positions]
    unit = int(np.gcd.reduce(caps))
    units = -(-need // unit)
    if _alike(ground, level, positions):
        chosen = _cover_alike(ground, level, fewest, positions, units)
    else:
        items = _items(ground, level, ground.fabric.levels, positions, caps // unit)
        chosen = cover(items, fewest, units, ground.work)
    return _largest_first(ground, level, positions, need) if chosen is None else positions[chosen]


def _alike(ground: Ground, level: int, positions: IntArray) -> bool:
    """Whether it makes no difference which nodes of a domain are used."""
    caps, free = ground.caps[positions], ground.free[positions]
    same = (caps == caps[0]).all() and (free == free[0]).all()
    return bool(same and not ground.opened[level:, positions].any())


def _cover_alike(
    ground: Ground, level: int, fewest: int, positions: IntArray, nodes: int
) -> IntArray | None:
    """`cover` for nodes alike, of which `nodes` are needed: choose the finest domains only.

    The fewest domains are used, so leaving out the last nodes leaves no domain out.
    """
    finest = ground.fabric.levels - 1
    if level > finest:
        return np.arange(nodes)
    domain = ground.fabric.paths[finest, positions]
    heads = np.flatnonzero(np.diff(domain, prepend=-1))
    sizes = np.diff(heads, append=domain.size)
    items = _items(ground, level, finest, positions[heads], sizes)
    chosen = cover(items, fewest, nodes, ground.work)
    if chosen is None:
        return None
    return np.flatnonzero(np.isin(domain, domain[heads[chosen]]))[:nodes]


def _items(ground: Ground, level: int, last: int, positions: IntArray, caps: IntArray) -> Items:
    """The domains of level `last` that begin at `positions`, with all levels from `level` on.

    A level that is the same as the next finer one there, free accelerators included, is left out:
    it would be compared twice.
    """
    levels = slice(level, last + 1)
    paths = ground.fabric.paths[levels, positions]
    opened, free = ground.opened[levels, positions], ground.domain_free[levels, positions]
    domains = (np.diff(paths, axis=1, prepend=-1) != 0).sum(axis=1)
    alike = (free[1:] == free[:-1]).all(axis=1) & (opened[1:] == opened[:-1]).all(axis=1)
    kept = np.append(~(alike & (domains[1:] == domains[:-1])), True)
    return Items(caps, paths[kept], opened[kept], free[kept])


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
