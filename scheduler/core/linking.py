"""Of nodes that are all the same to a placement: those whose free accelerators are linked best.

Two nodes are the same where they are in the same domains, have room for as many members and have as
many accelerators free: exchanged for one another, they make a placement neither closer nor tighter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core import indexing
from scheduler.core.devices import Worth
from scheduler.core.devices_matrix import MOST_GPUS
from scheduler.core.effort import Effort, View
from scheduler.core.fabric import Fabric, IntArray
from scheduler.core.kinds import Kind
from scheduler.core.placement import Ask, Seats

MOST_LOOKS = 128
"""Nodes that are compared with those chosen, at most; beyond these the first by name do."""


def on_linked(effort: Effort, view: View, kind: Kind, ask: Ask, seats: Seats) -> Seats:
    """Seats for members of one kind, on the best linked of equal nodes, as far as agents tell."""
    state, names = effort.state, effort.room.frame.names
    found = indexing.linked(state, kind)
    told = (indexing.is_published(state, names[row]) for row in seats.rows.tolist())
    if found is None or not any(told):
        return seats

    def worth(row: int) -> Worth:
        return indexing.links_on(state, names[row], *found)

    return linked_best(view.fabric, ask, seats, worth)


def linked_best(fabric: Fabric, ask: Ask, seats: Seats, worth: Callable[[int], Worth]) -> Seats:
    """The same seats, but on the best linked of the nodes that are the same to them.

    `worth` is that of a row, looked at for at most `MOST_LOOKS` rows beside those of the seats.
    Ties go to the first names. Nodes of living members stay, and those with more than `MOST_GPUS`
    free. Complexity: O(L n), and the looks.
    """
    kinds, known = _kinds(fabric, ask), ask.free <= MOST_GPUS
    chosen = np.zeros(fabric.nodes, np.bool_)
    chosen[seats.rows] = True
    living = np.zeros(fabric.nodes, np.bool_) if ask.near is None else ask.near > 0
    movable = chosen & ~living & known
    others = (ask.fits > 0) & ~chosen & ~living & known & np.isin(kinds, kinds[movable])
    if ask.within is not None:
        others &= ask.within
    looked_at = np.flatnonzero(others)[:MOST_LOOKS]
    if not looked_at.size:
        return seats
    rows = set(seats.rows.tolist())
    for kind in np.unique(kinds[looked_at]).tolist():
        mine = np.flatnonzero(movable & (kinds == kind)).tolist()
        pool = [*mine, *looked_at[kinds[looked_at] == kind].tolist()]
        rows = rows.difference(mine).union(_best(pool, len(mine), worth))
    return _reseated(fabric, seats, kinds, rows)


def _kinds(fabric: Fabric, ask: Ask) -> IntArray:
    """int64 [n]: the same number for nodes that are the same to a placement."""
    place, numbers = np.zeros(fabric.nodes, np.int64), 1
    for domains in fabric.domains:
        place = np.where(domains >= 0, numbers + domains, place)
        numbers += int(domains.max(initial=-1)) + 1
    fits, free = np.minimum(ask.fits, ask.count), np.minimum(ask.free, MOST_GPUS + 1)
    kinds: IntArray = (place * (ask.count + 1) + fits) * (MOST_GPUS + 2) + free
    return kinds


def _best(pool: Sequence[int], count: int, worth: Callable[[int], Worth]) -> list[int]:
    # Sorting keeps the order of equals, which is that of names within both halves of the pool.
    return sorted(sorted(pool), key=worth, reverse=True)[:count]


def _reseated(fabric: Fabric, seats: Seats, kinds: IntArray, rows: set[int]) -> Seats:
    """The seats on these rows, with as many members on those of each kind as before."""
    position = np.empty(fabric.nodes, np.int64)
    position[fabric.order] = np.arange(fabric.nodes)
    chosen = np.array(sorted(rows, key=position.tolist().__getitem__), np.int64)
    # Rows of a kind stand in both in topology order: the counts go over from one to the other.
    before, after = kinds[seats.rows].argsort(kind="stable"), kinds[chosen].argsort(kind="stable")
    counts = np.empty_like(seats.counts)
    counts[after] = seats.counts[before]
    return replace(seats, rows=chosen, counts=counts)
