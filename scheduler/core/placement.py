"""Exact placement of members alike: as close together as the free nodes allow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from scheduler.core.covering import closest
from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.ground import Ground
from scheduler.core.work import Work

__all__ = ["Ask", "Fabric", "NoRoom", "Seats", "place"]


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Members alike that are placed together."""

    count: int
    """Members to place, >= 1."""
    fits: IntArray
    """int64 [n]: how many of these members fit on node i now (0: none)."""
    free: IntArray
    """int64 [n]: free accelerators on node i now."""
    per_member: int
    """Accelerators that a member takes; 0 for members without."""
    required: int | None = None
    """Level: all members inside one domain of this level; nodes in none take no part."""
    preferred: int | None = None
    """Level: nodes in no domain of this level are used only for what does not fit elsewhere."""
    within: BoolArray | None = None
    """bool [n]: only these nodes may be used."""
    near: IntArray | None = None
    """int64 [n]: members of the same gang that live on node i already. Their nodes and domains
    cost nothing: only new ones are counted."""
    accelerated: BoolArray | None = None
    """bool [n]: nodes with accelerators, free or not: the last resort of members without. By
    default those that have free ones."""
    work: Work = field(default_factory=Work)
    """The count of what is looked at; knapsacks beyond its end are answered by rule of thumb."""


@dataclass(frozen=True, slots=True, eq=False)
class Seats:
    """Where the members go."""

    rows: IntArray
    """int64 [m]: the nodes, in topology order (path of domain ids, then row)."""
    counts: IntArray
    """int64 [m]: members on each, >= 1; their sum is the number asked for."""
    domains: tuple[int, ...]
    """Different domains used at each level, then nodes; a node in no domain counts as one. Seats
    of living members (`Ask.near`) are not counted."""

    def by_member(self) -> list[int]:
        """The row of each member, in the order of ``rows``."""
        return [int(row) for row in np.repeat(self.rows, self.counts)]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The members do not all fit."""

    fits_in_best: int
    """Members that fit in the best place: a domain of the required level, or all nodes."""
    best_domain: tuple[int, int] | None
    """(level, domain id) of that place; None where no level is required or no domain has room."""
    clique: int | None = None
    """The NVLink domain that is that place, where one must hold all members."""


def place(fabric: Fabric, ask: Ask) -> Seats | NoRoom:
    """Place all members as close together as possible, or say how many would fit.

    Solutions are compared in this order, and the least one is returned:

    1. members without accelerators on nodes with accelerators (only if `per_member` is 0);
    2. members on nodes in no domain of the preferred level (only if `preferred` is set);
    3. new domains used at each level, broadest first, then new nodes;
    4. free accelerators left on the new nodes, then in the new domains, finest level first;
    5. nodes used, living members' nodes included; then the positions of the nodes in topology
       order, so that ties go to the first names.

    "New" is every domain and node where no member of the gang lives yet.

    How it works: counting alone fixes the broad levels and cuts off most of the tree
    (`narrowing.narrow`); an exact tree knapsack decides the rest (`knapsack.cheapest_cover`).

    Members that the chosen nodes could hold beyond `count` leave their room on one node: the one
    that has most accelerators free anyway, the last such node in topology order. Every other node
    is filled.

    Raises ValueError for a count below 1, for arrays of the wrong length, and for levels that do
    not exist. Complexity: see `cheapest_cover`; `need` is the count divided by the greatest common
    divisor of all capacities.
    """
    _check(fabric, ask)
    ground = ground_of(fabric, ask)
    room = room_in(fabric, ask, ground.caps)
    if room.fits_in_best < ask.count:
        return room
    chosen, counts = _solve(ask, ground)
    used = tuple(int(np.unique(path).size) for path in fabric.paths[:, chosen])
    return Seats(fabric.order[chosen], counts, used)


def _check(fabric: Fabric, ask: Ask) -> None:
    if ask.count < 1:
        raise ValueError(f"count must be at least 1, not {ask.count}")
    for name in ("fits", "free", "within", "near", "accelerated"):
        value = getattr(ask, name)
        if value is not None and value.shape != (fabric.nodes,):
            raise ValueError(f"{name} has shape {value.shape}, the fabric {fabric.nodes} nodes")
    for name in ("required", "preferred"):
        level = getattr(ask, name)
        if level is not None and not 0 <= level < fabric.levels:
            raise ValueError(f"{name} is level {level} of a fabric with {fabric.levels}")


def ground_of(fabric: Fabric, ask: Ask) -> Ground:
    """What the nodes hold for an ask, in topology order."""
    allowed = ask.fits > 0
    if ask.within is not None:
        allowed = allowed & ask.within
    if ask.required is not None:
        allowed = allowed & (fabric.domains[ask.required] >= 0)
    near = np.zeros(fabric.nodes, np.bool_) if ask.near is None else ask.near > 0
    order = fabric.order
    caps = np.where(allowed, np.minimum(ask.fits, ask.count), 0)[order]
    ask.work.placing(fabric.nodes, int(np.count_nonzero(caps)))
    return Ground(fabric, caps, ask.free[order], near[order], ask.per_member, ask.work)


def room_in(fabric: Fabric, ask: Ask, caps: IntArray) -> NoRoom:
    """How many members the best place holds."""
    if ask.required is None or not fabric.nodes:
        return NoRoom(int(caps.sum()), None)
    starts = fabric.starts[ask.required]
    held = np.add.reduceat(caps, starts)
    best = int(held.argmax())
    if not held[best]:
        return NoRoom(0, None)
    domain = int(fabric.domains[ask.required, fabric.order[starts[best]]])
    return NoRoom(int(held[best]), (ask.required, domain))


def _solve(ask: Ask, ground: Ground) -> tuple[IntArray, IntArray]:
    """Positions of the chosen nodes and the members on each."""
    group, above = _alternatives(ask, ground)
    tier = _tiers(ask, ground)
    group, needs_last_resort = _fewest_last_resort(ground.caps, group, tier, ask.count)
    if needs_last_resort:
        fills = [_fill(ground, np.where(group == g, tier, -1), ask.count) for g in _numbers(group)]
        return min(fills, key=lambda fill: (ground.key(fill[0]), fill[0].tolist()))
    chosen = closest(ground, np.where(tier == 0, group, -1), ask.count, above)
    return chosen, spread(ground, chosen, ask.count)


def _alternatives(ask: Ask, ground: Ground) -> tuple[IntArray, int]:
    """int64 [n]: the domains of which one must hold all members (-1: not allowed), and at how many
    levels the nodes of one of them agree."""
    allowed = ground.caps > 0
    if ask.required is None:
        return np.where(allowed, 0, -1), 0
    path, starts = ground.fabric.paths[ask.required], ground.fabric.starts[ask.required]
    enough = np.add.reduceat(ground.caps, starts) >= ask.count
    return np.where(allowed & enough[path], path, -1), ask.required + 1


def _tiers(ask: Ask, ground: Ground) -> IntArray:
    """int64 [n]: 0 for nodes to use first, up to 3 for the last resort.

    +2: a node with accelerators, for members that need none. +1: no preferred domain.
    """
    tier = np.zeros(ground.caps.size, dtype=np.int64)
    if ask.per_member == 0:
        has = ask.free > 0 if ask.accelerated is None else ask.accelerated
        tier += 2 * has[ground.fabric.order]
    if ask.preferred is not None:
        tier += ground.fabric.domains[ask.preferred, ground.fabric.order] < 0
    return tier


def _fewest_last_resort(
    caps: IntArray, group: IntArray, tier: IntArray, count: int
) -> tuple[IntArray, bool]:
    """Keep the alternatives that put fewest members on nodes of last resort; say whether any are.

    The tiers are filled one after the other, so the members on each are known without a search.
    """
    if not tier.any():
        return group, False
    alive = group >= 0
    cells = np.bincount(group[alive] * 4 + tier[alive], caps[alive], 4 * (int(group.max()) + 1))
    held = cells.reshape(-1, 4).astype(np.int64)
    members = np.clip(count - held.cumsum(axis=1) + held, 0, held)
    worst = np.stack([members[:, 2] + members[:, 3], members[:, 1] + members[:, 3]], axis=1)
    least = min(worst[_numbers(group)].tolist())
    kept = (worst == least).all(axis=1) & (held.sum(axis=1) >= count)
    return np.where(alive & kept[group], group, -1), any(least)


def _numbers(group: IntArray) -> list[int]:
    present: list[int] = np.unique(group[group >= 0]).tolist()
    return present


def _fill(ground: Ground, tier: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Use all nodes of the lower tiers, and the closest ones of the last tier that is needed."""
    held = np.bincount(tier[tier >= 0], ground.caps[tier >= 0], 4).astype(np.int64).cumsum()
    last = int(np.searchsorted(held, count))
    full = (tier >= 0) & (tier < last)
    rest = count - int(ground.caps[full].sum())
    beside = replace(ground, near=ground.near | full)
    chosen = closest(beside, np.where(tier == last, 0, -1), rest)
    positions = np.concatenate([np.flatnonzero(full), chosen])
    counts = np.concatenate([ground.caps[full], spread(ground, chosen, rest)])
    order = positions.argsort()
    return positions[order], counts[order]


def spread(ground: Ground, chosen: IntArray, count: int) -> IntArray:
    """Members on each chosen node: full, but for one node that keeps all the room to spare."""
    counts = ground.caps[chosen].copy()
    slack = int(counts.sum()) - count
    left = ground.free[chosen] - counts * ground.per_member
    left[counts <= slack] = left.min() - 1
    counts[counts.size - 1 - int(left[::-1].argmax())] -= slack
    return counts
