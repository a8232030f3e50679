"""Bounds from Lagrange multipliers: what a domain must be worth to be part of an optimum.

Each domain of a level is given a price, in members. A domain is then worth what its children are
worth together (children worth less than nothing are left out) minus its price. However the
domains are chosen, at most (sum of prices times domains used) + (worth of the best outermost
domains) members fit. So many domains are needed that this reaches the members to place; and a
domain whose use makes it fall short is not part of an optimum. See Fisher, "The Lagrangian
Relaxation Method for Solving Integer Programming Problems" (1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.core.fabric import BoolArray, IntArray

Floats = npt.NDArray[np.float64]

SWEEPS = 3
HALVINGS = 7
_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class PriceTree:
    """The domains of some levels, outermost first, that members may be placed in.

    * `paths`: int64 [d, m], the domain of each leaf at each level; leaves are the last level.
    * `caps`: int64 [m], members that a leaf holds.
    * `opened`: bool [d, m], domains that are in use already: they have no price.
    * `group`: int64 [m], the alternative of each leaf, 0, 1, .. by position.
    * `outermost`: how many new domains of the first level are used.
    """

    paths: IntArray
    caps: IntArray
    opened: BoolArray
    group: IntArray
    outermost: int

    @cached_property
    def groups(self) -> int:
        return int(self.group[-1]) + 1

    @cached_property
    def heads(self) -> list[IntArray]:
        """Per level, the first leaf of each domain."""
        return [np.flatnonzero(np.diff(path, prepend=-1)) for path in self.paths]

    @cached_property
    def parents(self) -> list[IntArray]:
        """Per level but the first, the number of the domain around each domain."""
        pairs = zip(self.heads, self.heads[1:], strict=False)
        return [np.searchsorted(outer, inner, side="right") - 1 for outer, inner in pairs]

    @cached_property
    def children(self) -> list[IntArray]:
        """Per level but the last, the first child of each domain."""
        pairs = zip(self.heads, self.heads[1:], strict=False)
        return [np.searchsorted(inner, outer) for outer, inner in pairs]

    @cached_property
    def new(self) -> list[BoolArray]:
        return [~self.opened[level, heads] for level, heads in enumerate(self.heads)]

    @cached_property
    def groups_of(self) -> list[IntArray]:
        return [self.group[heads] for heads in self.heads]

    def worth(self, prices: Sequence[Floats]) -> Worth:
        """Value every domain. `prices`: float [groups] for each level but the first."""
        value = self.caps - self._price(prices, len(prices))
        values = [value]
        for level in range(len(self.heads) - 2, -1, -1):
            value = np.add.reduceat(np.maximum(value, 0), self.children[level])
            if level:
                value = value - self._price(prices, level)
            values.append(value)
        return Worth(self, values[::-1])

    def _price(self, prices: Sequence[Floats], level: int) -> Floats:
        price: Floats = prices[level - 1][self.groups_of[level]] * self.new[level]
        return price


@dataclass(frozen=True, eq=False)
class Worth:
    """`values`: float per level, what each domain is worth at some prices."""

    tree: PriceTree
    values: list[Floats]

    @cached_property
    def chosen(self) -> BoolArray:
        """bool [outermost domains]: the open ones, and of each alternative the best new ones."""
        new = np.flatnonzero(self.tree.new[0])
        order = new[np.lexsort((-self.values[0][new], self.tree.groups_of[0][new]))]
        group = self.tree.groups_of[0][order]
        begins = np.searchsorted(group, np.arange(self.tree.groups))
        best = np.arange(order.size) - begins[group] < self.tree.outermost
        chosen = ~self.tree.new[0]
        chosen[order[best]] = True
        return chosen

    @cached_property
    def total(self) -> Floats:
        """float [groups]: worth of the chosen outermost domains."""
        return self._per_group(0, self.chosen, self.values[0])

    @cached_property
    def used(self) -> list[Floats]:
        """Per level but the first, float [groups]: new domains used at these prices."""
        chosen, counts = self.chosen, []
        for level, parent in enumerate(self.tree.parents, start=1):
            chosen = chosen[parent] & (self.values[level] > 0)
            counts.append(self._per_group(level, chosen, self.tree.new[level].astype(float)))
        return counts

    def losses(self) -> Floats:
        """Per leaf, how much worth is lost when it must be used (for a single alternative)."""
        new, value = self.tree.new[0], self.values[0]
        least = value[self.chosen & new].min(initial=np.inf)
        loss = np.where(new, np.maximum(least - value, 0), 0)
        for level, parent in enumerate(self.tree.parents, start=1):
            loss = loss[parent] + np.maximum(-self.values[level], 0)
        return loss

    def _per_group(self, level: int, where: BoolArray, values: Floats) -> Floats:
        group = self.tree.groups_of[level][where]
        sums: Floats = np.bincount(group, values[where], self.tree.groups).astype(np.float64)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """`fewest`: int64 [groups], no choice uses fewer leaves; `prices`: those that were tried."""

    fewest: IntArray
    prices: list[tuple[Floats, ...]]


def fewest_leaves(tree: PriceTree, known: Sequence[int], need: int) -> Bound:
    """A lower bound of the leaves that hold `need` members, per alternative.

    `known` has the number of new domains of each level between the first and the last, which must
    not be exceeded. The prices are found by halving, one level after the other: a price rises
    while more is used than may be (for leaves: while more members fit than are needed).

    Complexity: O(SWEEPS HALVINGS d m).
    """
    top = float(tree.caps.max())
    prices = [np.zeros(tree.groups) for _ in known] + [np.full(tree.groups, top / 2)]
    bound = Bound(np.zeros(tree.groups, dtype=np.int64), [])
    for _ in range(SWEEPS if known else 1):
        for level in range(len(prices)):
            _halve(tree, known, need, prices, level, bound)
    return bound


def _halve(
    tree: PriceTree,
    known: Sequence[int],
    need: int,
    prices: list[Floats],
    level: int,
    bound: Bound,
) -> None:
    """Improve the price of one level, keeping the others; record what that proves."""
    low = np.zeros(tree.groups)
    high = np.full(tree.groups, _highest(tree, level + 1))
    for _ in range(HALVINGS):
        prices[level] = (low + high) / 2
        worth = tree.worth(prices)
        spent = worth.total + sum(p * k for p, k in zip(prices, known, strict=False))
        proven = np.ceil((need - spent) / prices[-1] - _TOLERANCE)
        np.maximum(bound.fewest, proven.astype(np.int64), out=bound.fewest)
        bound.prices.append(tuple(prices))
        if level < len(known):
            rise = worth.used[level] > known[level]
        else:
            rise = spent + prices[-1] * worth.used[level] > need
        low, high = np.where(rise, prices[level], low), np.where(rise, high, prices[level])


def _highest(tree: PriceTree, level: int) -> float:
    """No domain of the level is worth more."""
    return float(np.add.reduceat(tree.caps, tree.heads[level]).max())


def useful_leaves(
    tree: PriceTree, bound: Bound, known: Sequence[int], most: int, need: int
) -> BoolArray:
    """bool [m]: leaves that can be part of a choice of at most `most` leaves that holds `need`.

    For a tree of one alternative.
    """
    useful = np.ones(tree.caps.size, dtype=np.bool_)
    for prices in bound.prices:
        worth = tree.worth(prices)
        room = worth.total[0] + sum(
            float(p[0]) * k for p, k in zip(prices, [*known, most], strict=True)
        )
        useful &= room - worth.losses() >= need - _TOLERANCE
    return useful
