"""Solves a large knapsack level by level, on the few domains that can still be in an optimum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from scheduler.core.fabric import BoolArray, IntArray
from scheduler.core.knapsack import Items, cheapest_cover, work
from scheduler.core.pricing import PriceTree, fewest_leaves, useful_leaves
from scheduler.core.work import Work

WORK_LIMIT = 500_000_000
"""Cells of one table (60 MB, a second or two) beyond which no exact answer is given."""

PRICED_FROM = 400_000
"""Cells from which on it pays to cut off items by prices first."""


def cover(items: Items, fewest: int, need: int, counted: Work) -> IntArray | None:
    """The same answer as `cheapest_cover`, or None where a table would exceed WORK_LIMIT, or what
    `counted` has left.

    `fewest` new outermost domains are known to be used. Level by level, the fewest domains are
    found exactly, with whole domains as items; then every domain is cut off that no such choice
    can contain.
    """
    if len(items.paths) == 1 or work(items, need) < PRICED_FROM:
        return cheapest_cover(items, need) if _may_fill(work(items, need), counted) else None
    alive = np.arange(items.caps.size)
    known = [fewest]
    for depth in range(1, len(items.paths)):
        last = depth == len(items.paths) - 1
        within = items.take(alive)
        stage = _solve(within if last else _outline(within, depth), known, need, counted)
        if stage is None:
            return None
        if last:
            alive = alive[stage.chosen]
        else:
            _, domain = np.unique(within.paths[depth], return_inverse=True)
            alive = alive[stage.useful[domain]]
            known.append(stage.leaves)
    return alive


def _may_fill(cells: int, counted: Work) -> bool:
    """Whether a table may be filled; if so, it is counted."""
    if cells > WORK_LIMIT or not counted.allows(cells):
        return False
    counted.filling(cells)
    return True


def _outline(items: Items, depth: int) -> Items:
    """The domains of a depth as items, without regard to free accelerators."""
    heads = np.flatnonzero(np.diff(items.paths[depth], prepend=-1))
    paths = items.paths[: depth + 1, heads]
    caps = np.add.reduceat(items.caps, heads)
    return Items(caps, paths, items.opened[: depth + 1, heads], np.zeros_like(paths))


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """The best choice, its number of new leaves, and the leaves that were looked at, which are
    all that can be in a choice as small."""

    chosen: IntArray
    leaves: int
    useful: BoolArray


def _solve(items: Items, known: list[int], need: int, counted: Work) -> _Stage | None:
    """Guess how many new leaves are needed, from a lower bound upwards, and solve what is left.

    An answer within the guess is proven: all choices as small are among the leaves it was found
    in. One above the guess is the next guess. Where a guess brings no more leaves in, the answer
    stays the same. None: a table would be too large.
    """
    fewest, *inner = known
    group = np.zeros(items.caps.size, dtype=np.int64)
    tree = PriceTree(items.paths, items.caps, items.opened, group, fewest)
    bound = fewest_leaves(tree, inner, need)
    guess, limit = int(bound.fewest[0]), -1
    tried, found = np.zeros(items.caps.size, np.bool_), None
    for step in count(1):
        useful = useful_leaves(tree, bound, inner, guess, need)
        if guess > limit or (useful != tried).any():
            tried, limit = useful, 2 * guess
            if not _may_fill(int(useful.sum()) * len(items.paths) * (need + 1), counted):
                return None
            found = _best_of(items, useful, need, [*known, limit])
        if found is not None and found.leaves <= guess:
            return found
        guess = guess + step if found is None else found.leaves
    raise AssertionError


def _best_of(items: Items, useful: BoolArray, need: int, limits: list[int]) -> _Stage | None:
    """The best choice of useful leaves within the limits, if there is one."""
    within = np.flatnonzero(useful)
    if int(items.caps[within].sum()) < need:
        return None
    chosen = within[cheapest_cover(items.take(within), need, limits)]
    *outer, leaves = items.new_domains(chosen)
    covers = int(items.caps[chosen].sum()) >= need
    if outer == limits[:-1] and leaves <= limits[-1] and covers:
        return _Stage(chosen, leaves, useful)
    return None
