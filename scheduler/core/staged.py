"""Solves a large knapsack level by level, on the few domains that can still be in an optimum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from scheduler.core.fabric import BoolArray, IntArray
from scheduler.core.knapsack import Items, cheapest_cover, work
from scheduler.core.pricing import PriceTree, fewest_leaves, useful_leaves

WORK_LIMIT = 600_000_000
"""Cells of one table (75 MB, about two seconds) beyond which no exact answer is given."""

PRICED_FROM = 400_000
"""Cells from which on it pays to cut off items by prices first."""


class TooLargeError(Exception):
    """The exact answer would take more than WORK_LIMIT cells."""


def cover(items: Items, fewest: int, need: int) -> IntArray:
    """The same answer as `cheapest_cover`; `fewest` new outermost domains are known to be used.

    Level by level, the fewest domains are found exactly, with whole domains as items; then every
    domain is cut off that no such choice can contain. Raises TooLargeError.
    """
    if len(items.paths) == 1 or work(items, need) < PRICED_FROM:
        return _affordable(items, need)
    alive = np.arange(items.caps.size)
    known = [fewest]
    for depth in range(1, len(items.paths) - 1):
        stage = _solve(_outline(items.take(alive), depth), known, need)
        _, domain = np.unique(items.paths[depth, alive], return_inverse=True)
        alive = alive[stage.useful[domain]]
        known.append(stage.leaves or 0)
    return alive[_solve(items.take(alive), known, need).chosen]


def _affordable(items: Items, need: int, limits: list[int] | None = None) -> IntArray:
    if work(items, need) > WORK_LIMIT:
        raise TooLargeError
    return cheapest_cover(items, need, limits)


def _outline(items: Items, depth: int) -> Items:
    """The domains of a depth as items, without regard to free accelerators."""
    heads = np.flatnonzero(np.diff(items.paths[depth], prepend=-1))
    paths = items.paths[: depth + 1, heads]
    caps = np.add.reduceat(items.caps, heads)
    return Items(caps, paths, items.opened[: depth + 1, heads], np.zeros_like(paths))


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """The best choice, its number of new leaves (None: there is no choice), and the leaves that
    were looked at, which are all that can be in a choice as small."""

    chosen: IntArray
    leaves: int | None
    useful: BoolArray


def _solve(items: Items, known: list[int], need: int) -> _Stage:
    """Guess how many new leaves are needed, from a lower bound upwards, and solve what is left.

    An answer within the guess is proven: all choices as small are among the leaves it was found
    in. One above the guess is the next guess. Where a guess brings no more leaves in, the answer
    stays the same.
    """
    fewest, *inner = known
    group = np.zeros(items.caps.size, dtype=np.int64)
    tree = PriceTree(items.paths, items.caps, items.opened, group, fewest)
    bound = fewest_leaves(tree, inner, need)
    guess, limit = int(bound.fewest[0]), 0
    found = _Stage(np.empty(0, np.int64), None, np.zeros(items.caps.size, np.bool_))
    for step in count(1):
        useful = useful_leaves(tree, bound, inner, guess, need)
        if guess > limit or (useful != found.useful).any():
            limit = 2 * guess
            found = _best_of(items, useful, need, [*known, limit])
        if found.leaves is not None and found.leaves <= guess:
            return found
        guess = guess + step if found.leaves is None else found.leaves
    raise AssertionError


def _best_of(items: Items, useful: BoolArray, need: int, limits: list[int]) -> _Stage:
    """The best choice of useful leaves within the limits."""
    within = np.flatnonzero(useful)
    if int(items.caps[within].sum()) >= need:
        chosen = within[_affordable(items.take(within), need, limits)]
        *outer, leaves = items.new_domains(chosen)
        if outer == limits[:-1] and leaves <= limits[-1] and items.caps[chosen].sum() >= need:
            return _Stage(chosen, leaves, useful)
    return _Stage(np.empty(0, np.int64), None, useful)
