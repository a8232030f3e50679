"""The exact tree knapsack: which items to take so that enough members fit at the least cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduler.core.fabric import BoolArray, IntArray

Costs = npt.NDArray[Any]
"""Packed costs: int64, or complex128 when int64 is too narrow (see `_weights`)."""

_INT_BITS = 61
_FLOAT_BITS = 52


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """m items in topology order, each a leaf of a tree of depth d (the item itself not counted).

    * `caps`: int64 [m], how many members the item holds, >= 1.
    * `paths`: int64 [d+1, m], the domain of each item at each depth, outermost first; the last row
      is the item itself. Each domain's items are adjacent.
    * `opened`: bool [d+1, m], domains that are in use already and cost nothing.
    * `free`: int64 [d+1, m], free accelerators of the item's domain at each depth.
    """

    caps: IntArray
    paths: IntArray
    opened: BoolArray
    free: IntArray

    def take(self, numbers: IntArray) -> Items:
        """Some of the items."""
        return Items(
            self.caps[numbers],
            self.paths[:, numbers],
            self.opened[:, numbers],
            self.free[:, numbers],
        )

    def new_domains(self, numbers: IntArray) -> list[int]:
        """How many new domains those items are in, at each depth."""
        paths, opened = self.paths[:, numbers], self.opened[:, numbers]
        return [int(np.unique(p[~o]).size) for p, o in zip(paths, opened, strict=True)]


def cheapest_cover(items: Items, need: int, limits: Sequence[int] | None = None) -> IntArray:
    """Positions of the items that hold `need` members at the least cost.

    The cost is compared in this order: new domains at each depth from the outermost to the items;
    free accelerators of the new items, then of the new domains from the innermost outwards; number
    of items; and at last the positions themselves, lowest first.

    The items are walked in topology order, so the domains of a depth that are open at any moment
    are those on the path to the walk's place. The state is therefore only (members still to hold,
    how many depths of the path are open), and its value is the packed lexicographic cost of the
    best completion. That is the left-right form of the tree knapsack of Johnson and Niemi, "On
    Knapsacks, Partitions, and a New Dynamic Programming Technique for Trees" (1983), turned from
    "most value" to "least cost that covers".

    Parameters: `need` >= 1, at most the sum of the caps (ValueError otherwise). `limits`: new
    domains at each depth that the answer is expected not to exceed: they make the packed costs
    shorter. If it does exceed them, what is returned is any choice, and may not cover `need`.
    Complexity: O(m d need) time, m d need / 8 bytes.

    >>> one = np.ones((2, 3), dtype=np.int64)
    >>> rack = Items(np.array([1, 2, 2]), np.array([[0, 0, 1], [0, 1, 2]]), one == 0, one)
    >>> cheapest_cover(rack, 3).tolist()
    [0, 1]
    """
    if not 0 < need <= int(items.caps.sum()):
        raise ValueError(f"{need} members cannot be covered by items that hold {items.caps.sum()}")
    shared = shared_depths(items.paths)
    takes = _decide(items.caps, shared, _opening_costs(items, need, limits), need)
    return np.fromiter(_walk(items.caps, shared, takes, need), dtype=np.int64)


def work(items: Items, need: int) -> int:
    """How many cells `cheapest_cover` would fill."""
    return int(items.caps.size) * int(items.paths.shape[0]) * (need + 1)


def shared_depths(paths: IntArray) -> list[int]:
    """For each item, how many depths of its path the next item has in common."""
    depths = len(paths) - 1
    same = (paths[:-1, 1:] == paths[:-1, :-1]).sum(axis=0)
    return [*same.tolist(), depths]


def _opening_costs(items: Items, need: int, limits: Sequence[int] | None) -> Costs:
    """[d+1, m]: what taking an item costs when the outermost s depths of its path are open."""
    new = ~items.opened
    left = np.where(new, items.free, 0)
    counts, lefts, extra = _weights(items, new, left, need, limits or [need] * len(new))
    cost = new * counts[:, None] + left * lefts[:, None]
    cost[-1] += extra
    return np.cumsum(cost[::-1], axis=0)[::-1]


def _weights(
    items: Items, new: BoolArray, left: IntArray, need: int, limits: Sequence[int]
) -> tuple[Costs, Costs, Any]:
    """Weights that make a plain sum of costs compare like the tuple of all keys.

    It is enough that the keys of the optimum do not overflow: a choice that is worse in one key
    costs more than all lower keys of the optimum together, whatever its own are.

    Where 62 bits do not hold all keys, complex numbers do: numpy compares them lexicographically,
    real part first, and both parts are exact below 2**53. Keys beyond that (least important last)
    get weight 0.
    """
    depths = range(len(items.paths))
    firsts = [_first(items.paths[d]) & new[d] for d in depths]
    most = [min(int(f.sum()), need, limit) for f, limit in zip(firsts, limits, strict=True)]
    lefts = [largest(left[d][firsts[d]], most[d]) for d in depths]
    extra = need if items.opened.any() else 0
    packed = pack([1 + key for key in (*most, *lefts[::-1], extra)])
    inner = packed[-1] if extra else 0
    return np.array(packed[: len(depths)]), np.array(packed[len(depths) : -1][::-1]), inner


def largest(values: IntArray, count: int) -> int:
    """Sum of the `count` largest values."""
    return int(np.sort(values)[values.size - count :].sum())


def pack(radices: list[int]) -> list[Any]:
    """One weight per key, most important first."""
    if prod(radices) < 1 << _INT_BITS:
        return _place_values(radices)
    split = _fitting(radices)
    rest = radices[split:]
    low = _fitting(rest)
    high = [complex(w) for w in _place_values(radices[:split])]
    tail = [complex(0, w) for w in _place_values(rest[:low])]
    return [*high, *tail, *[0j] * (len(rest) - low)]


def _place_values(radices: list[int]) -> list[int]:
    return [prod(radices[i + 1 :]) for i in range(len(radices))]


def _fitting(radices: list[int]) -> int:
    """How many leading keys fit into the mantissa of a float."""
    return next((i for i in range(len(radices), 0, -1) if prod(radices[:i]) < 1 << _FLOAT_BITS), 0)


def _first(path: IntArray) -> BoolArray:
    first = np.ones(path.size, dtype=np.bool_)
    first[1:] = path[1:] != path[:-1]
    return first


@dataclass(frozen=True, slots=True, eq=False)
class _Take:
    """Whether to take one item, for `low`.. members still to hold: bits [d+1, window], packed
    along the window, eight to a byte."""

    low: int
    bits: npt.NDArray[np.uint8]

    def at(self, is_open: int, need: int) -> bool:
        byte, bit = divmod(need - self.low, 8)
        return bool(self.bits[is_open, byte] & (128 >> bit))


def _decide(caps: IntArray, shared: list[int], costs: Costs, need: int) -> list[_Take]:
    """Fill the table from the last item to the first.

    At each item only those numbers of members can still be open that the items before it leave
    over and that the items behind it can hold: that window is all that is computed.
    """
    before = np.maximum(0, need - np.cumsum(caps) + caps).tolist()
    behind = np.minimum(need, np.cumsum(caps[::-1])[::-1]).tolist()
    depths = len(costs)
    best = np.full((depths, need + 1), never(costs.dtype), dtype=costs.dtype)
    best[:, 0] = 0
    takes = []
    for i, cap in reversed(list(enumerate(caps.tolist()))):
        low, high = before[i], behind[i] + 1
        if shared[i] < depths - 1:
            best[shared[i] + 1 :, low:high] = best[shared[i], low:high]
        takes.append(_Take(low, _relax(best, best[shared[i]], cap, costs[:, i, None], low, high)))
    return takes[::-1]


def _relax(
    best: Costs, behind: Costs, cap: int, cost: Costs, low: int, high: int
) -> npt.NDArray[np.uint8]:
    """Improve `best` over a window by taking one item; say where that was at least as good."""
    taken = np.empty((len(best), high - low), dtype=best.dtype)
    edge = min(max(cap, low), high)
    taken[:, : edge - low] = cost
    np.add(behind[edge - cap : high - cap], cost, out=taken[:, edge - low :])
    window = best[:, low:high]
    better = taken <= window
    np.minimum(taken, window, out=window)
    return np.packbits(better, axis=1)


def never(dtype: npt.DTypeLike) -> Any:
    """The cost of what cannot be; above every packed cost, whatever is added to it."""
    return np.inf if dtype == np.complex128 else 1 << (_INT_BITS + 1)


def _walk(caps: IntArray, shared: list[int], takes: list[_Take], need: int) -> Iterator[int]:
    """Follow the decisions from the first item on."""
    is_open = 0
    for i, take in enumerate(takes):
        if need <= 0:
            return
        if take.at(is_open, need):
            yield i
            need -= int(caps[i])
            is_open = shared[i]
        else:
            is_open = min(is_open, shared[i])
