"""Placement of members that talk little: in what others left, so that whole domains stay free."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduler.core.covering import closest
from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.ground import Ground
from scheduler.core.placement import Ask, NoRoom, Seats, ground_of, room_in, spread


def fill_leftovers(fabric: Fabric, ask: Ask, busy: BoolArray) -> Seats | NoRoom:
    """Place members where they break up least, however far from each other.

    Nodes are used in this order: those on which accelerators are in use (`busy`, bool [n]), the
    fullest first; idle nodes in domains of the finest level of which others are in use; and so on
    up to domains of the broadest level that are wholly idle. Of the last of these sorts that is
    needed, the fewest domains and nodes are broken into, as `place` would choose them. Nodes in no
    domain of the preferred level come after all others. Where one domain must hold all members, it
    is the one in which they break up least by that order, then that with least free.

    A heuristic: each sort is used up before the next, which is not always the least in the end.
    Complexity: O(L n log n), and one `closest` where whole nodes are broken into.
    """
    ground = ground_of(fabric, ask)
    room = room_in(fabric, ask, ground.caps)
    if room.fits_in_best < ask.count:
        return room
    tier = np.where(ground.caps > 0, _tiers(fabric, ask, busy[fabric.order]), -1)
    if ask.required is not None:
        tier = np.where(_tightest(ground, ask, tier), tier, -1)
    chosen, counts = _fill(ground, tier, ask.count)
    used = tuple(int(np.unique(path).size) for path in fabric.paths[:, chosen])
    return Seats(fabric.order[chosen], counts, used)


def _tiers(fabric: Fabric, ask: Ask, busy: BoolArray) -> IntArray:
    """int64 [n] in topology order: at how many levels, nodes included, all around is idle."""
    tier = np.zeros(fabric.nodes, dtype=np.int64)
    for path, starts in zip(fabric.paths, fabric.starts, strict=True):
        tier += ~np.logical_or.reduceat(busy, starts)[path]
    if ask.preferred is not None:
        tier += (fabric.levels + 2) * (fabric.domains[ask.preferred, fabric.order] < 0)
    return tier


def _tightest(ground: Ground, ask: Ask, tier: IntArray) -> BoolArray:
    """The nodes of the required domain in which members break up least."""
    assert ask.required is not None
    path = ground.fabric.paths[ask.required]
    domains, tiers = int(path[-1]) + 1, int(tier.max()) + 1
    cells = np.bincount(path * tiers + np.maximum(tier, 0), ground.caps, domains * tiers)
    held = cells.reshape(domains, tiers).astype(np.int64).cumsum(axis=1)
    needed = (held < ask.count).sum(axis=1)
    free = np.bincount(path, ground.free, domains).astype(np.int64)
    best: BoolArray = path == int(np.lexsort((free, needed))[0])
    return best


def _fill(ground: Ground, tier: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Positions of the nodes that are used, and the members on each."""
    held = np.bincount(tier[tier >= 0], ground.caps[tier >= 0]).astype(np.int64).cumsum()
    last = int(np.searchsorted(held, count))
    full = (tier >= 0) & (tier < last)
    rest = count - int(ground.caps[full].sum())
    busiest = last % (ground.fabric.levels + 2) == 0
    beside = replace(ground, near=ground.near | full)
    chosen = (
        _fullest_first(ground, np.flatnonzero(tier == last), rest)
        if busiest
        else closest(beside, np.where(tier == last, 0, -1), rest)
    )
    positions = np.concatenate([np.flatnonzero(full), chosen])
    counts = np.concatenate([ground.caps[full], spread(ground, chosen, rest)])
    order = positions.argsort()
    return positions[order], counts[order]


def _fullest_first(ground: Ground, positions: IntArray, need: int) -> IntArray:
    """Nodes with the least free first, as many as are needed."""
    order = positions[np.lexsort((positions, ground.free[positions]))]
    enough = int(np.searchsorted(np.cumsum(ground.caps[order]), need)) + 1
    return np.sort(order[:enough])
