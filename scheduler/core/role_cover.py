"""The exact placement of members that are not alike, for gangs small enough to look at all ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from scheduler.core.fabric import BoolArray, IntArray
from scheduler.core.ground import Key
from scheduler.core.knapsack import Costs, largest, never, pack, shared_depths
from scheduler.core.placement import Seats
from scheduler.core.role_attempt import RoleProblem
from scheduler.core.role_grid import Grid

NODE_CELLS = 2_000
"""What a node costs besides its ways, in cells: so long do a few calls of numpy take."""

_MOST_STATES = 4_096
_PER_NODE = NODE_CELLS // 2


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """The best way there is: `Seats` per role; None if it is proven that there is none."""

    seats: tuple[Seats, ...] | None


def cover_roles(problem: RoleProblem, limit: int, single: int | None = None) -> Cover | None:
    """The best placement of all roles by the objective of `place`, or None: too large to say.

    The tree knapsack of `cheapest_cover` with a vector instead of a number: what is still to be
    placed of each role. At every node, all ways to put members of each role there are tried. Of
    nodes of one domain that are equal in everything, only as many are looked at as there are
    members. Where one domain is required, each that has room for every role alone is solved; the
    same where all are to lie inside one domain of the level `single`, which is no broader.

    Complexity: with S = product of (members of a role + 1), d levels, and w ways to use a node,
    O(nodes (w + d) S) time and O(nodes d S) memory. It is not tried if S is above 4,096, or
    nodes * ((w + d) S + 2,000), the cells, above `limit`, or if there are so many nodes that
    telling equal ones apart would take too long (`limit` / 1,000). A cell takes about 10 ns.
    """
    if _is_short(problem):
        return Cover(None)
    if prod(role.count + 1 for role in problem.roles) > _MOST_STATES:
        return None
    grid = Grid(problem)
    searches = []
    cells = 0
    for allowed in _areas(problem, problem.common.required if single is None else single):
        if int(allowed.sum()) > limit // _PER_NODE:
            return None
        search = _Search(grid, _candidates(problem, allowed))
        cells += search.cells
        if cells > limit:
            return None
        searches.append(search)
    problem.common.work.filling(cells)
    found = [answer for search in searches if (answer := search.best()) is not None]
    return Cover(_seats(problem, min(found, key=lambda a: a.key).ways) if found else None)


def _is_short(problem: RoleProblem) -> bool:
    """Whether some role alone does not fit, or all together ask for more accelerators than there
    are on nodes that any of them may use."""
    counts = np.array([role.count for role in problem.roles])
    if (problem.fits.sum(axis=1) < counts).any():
        return True
    usable = (problem.fits > 0).any(axis=0)
    free = np.maximum(problem.free_accelerators(problem.free), 0)
    return int(counts @ np.array(problem.per_member)) > int(free[usable].sum())


def _areas(problem: RoleProblem, level: int | None) -> Iterator[BoolArray]:
    """bool [n]: nodes that may be used together: those of one domain of a level, or all."""
    usable: BoolArray = np.any(problem.fits > 0, axis=0)
    if level is None:
        yield usable
        return
    ids = problem.fabric.domains[level]
    counts = np.array([role.count for role in problem.roles])
    enough = (problem.held(level) >= counts[:, None]).all(axis=0)
    for domain in np.flatnonzero(enough).tolist():
        yield usable & (ids == domain)


def _candidates(problem: RoleProblem, allowed: BoolArray) -> IntArray:
    """Positions of the nodes to look at: of equal ones in one domain the first by position."""
    fabric = problem.fabric
    positions = np.flatnonzero(allowed[fabric.order])
    rows = fabric.order[positions]
    members = sum(role.count for role in problem.roles)
    parent = fabric.paths[-2, positions] if fabric.levels else np.zeros_like(positions)
    flags = np.stack([problem.ground.near[positions], problem.accelerated[rows]])
    alike = np.concatenate([[parent], flags, problem.fits[:, rows], problem.free[rows].T])
    _, number = np.unique(alike, axis=1, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    group = number.ravel()[order]
    begins = np.searchsorted(group, group)
    return np.sort(positions[order[np.arange(order.size) - begins < members]])


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """`ways`: (position, members of each role) of every node that is used."""

    key: tuple[Any, ...]
    ways: list[tuple[int, IntArray]]


@dataclass(frozen=True, eq=False)
class _Search:
    """The table for some nodes, in topology order."""

    grid: Grid
    positions: IntArray

    @property
    def cells(self) -> int:
        """How much there is to fill."""
        levels = len(self.grid.problem.fabric.paths)
        ways = sum(int(self.ways[kind].size) + levels for kind in self.kinds.tolist())
        return ways * len(self.grid.vectors) + NODE_CELLS * self.positions.size

    @cached_property
    def rows(self) -> IntArray:
        return self.grid.problem.fabric.order[self.positions]

    @cached_property
    def _numbered(self) -> tuple[IntArray, IntArray]:
        problem = self.grid.problem
        table = np.concatenate([problem.fits[:, self.rows], problem.free[self.rows].T])
        _, first, kinds = np.unique(table, axis=1, return_index=True, return_inverse=True)
        return self.rows[first], kinds.ravel()

    @cached_property
    def kinds(self) -> IntArray:
        """int64 [m]: nodes of one kind are used in the same ways."""
        return self._numbered[1]

    @cached_property
    def ways(self) -> list[IntArray]:
        return [self.grid.ways(row) for row in self._numbered[0].tolist()]

    @cached_property
    def before(self) -> list[IntArray]:
        return [self.grid.before(ways) for ways in self.ways]

    @cached_property
    def shared(self) -> list[int]:
        return shared_depths(self.grid.problem.fabric.paths[:, self.positions])

    @cached_property
    def costs(self) -> tuple[Costs, Costs, Costs]:
        """What is paid: [d+1, m] for opening a node when so many depths of its path are open; [m]
        for each member without accelerators that is put there; [m] for each member at all."""
        problem, at = self.grid.problem, self.positions
        ground, members = problem.ground, int(self.grid.vectors[-1].sum())
        new = ~ground.opened[:, at]
        left = np.where(new, ground.domain_free[:, at], 0)
        firsts = np.diff(problem.fabric.paths[:, at], axis=1, prepend=-1).astype(bool) & new
        most = np.minimum(firsts.sum(axis=1), members).tolist()
        lefts = [largest(x[first], k) for x, first, k in zip(left, firsts, most, strict=True)]
        extra = members if ground.near.any() else 0
        keys = [members, members, *most, *lefts[::-1], extra]
        on_accelerated, on_unlabelled, *rest = pack([1 + key for key in keys])
        counts, weights = np.array(rest[: len(most)]), np.array(rest[len(most) : -1][::-1])
        cost = new * counts[:, None] + left * weights[:, None]
        cost[-1] += rest[-1] if extra else 0
        bare, every = self._last_resorts()
        if not self.grid.bare.any():
            bare = np.zeros_like(bare)
        return np.cumsum(cost[::-1], axis=0)[::-1], bare * on_accelerated, every * on_unlabelled

    def _last_resorts(self) -> tuple[IntArray, IntArray]:
        problem = self.grid.problem
        preferred = problem.common.preferred
        bare = problem.accelerated[self.rows].astype(np.int64)
        if preferred is None:
            return bare, np.zeros_like(bare)
        return bare, (problem.fabric.domains[preferred, self.rows] < 0).astype(np.int64)

    def paid(self, item: int) -> Costs | None:
        """[ways, 1]: what the members put on a node cost, whichever domains are open; None: none
        of them costs anything."""
        _, bare, every = self.costs
        if not bare[item] and not every[item]:
            return None
        ways = self.ways[self.kinds[item]]
        members = self.grid.vectors[ways].sum(axis=1)
        paid: Costs = (self.grid.bare[ways] * bare[item] + members * every[item])[:, None]
        return paid

    def best(self) -> _Answer | None:
        """The least cost, and of all ways that have it the one on the first nodes."""
        if not self.positions.size:
            return None
        tables = self._fill()
        if tables[0][0, -1] >= never(tables[0].dtype):
            return None
        ways = self._walk(tables)
        return _Answer(self._key(ways), ways)

    def _fill(self) -> list[Costs]:
        """Per node (and one beyond the last) [d+1, S]: the cost of the best completion, by how many
        depths of the path are open and what is still to be placed."""
        opening = self.costs[0]
        best = np.full((len(opening), len(self.grid.vectors)), never(opening.dtype), opening.dtype)
        best[:, 0] = 0
        tables = [best]
        for item in reversed(range(self.positions.size)):
            shared = self.shared[item]
            skipped = tables[-1].copy()
            skipped[shared + 1 :] = skipped[shared]
            taken = self._taken(item, tables[-1][shared]).min(axis=0, initial=never(best.dtype))
            tables.append(np.minimum(skipped, taken + opening[:, item, None]))
        return tables[::-1]

    def _taken(self, item: int, behind: Costs) -> Costs:
        """[ways, S]: the cost of each way and of the best completion behind it, opening aside."""
        known = np.append(behind, never(behind.dtype))
        found: Costs = known[self.before[self.kinds[item]]]
        paid = self.paid(item)
        return found if paid is None else found + paid

    def _walk(self, tables: Sequence[Costs]) -> list[tuple[int, IntArray]]:
        """Follow all best ways at once; whenever one of them uses a node, those that do not are
        dropped."""
        opening = self.costs[0]
        alive: dict[tuple[int, int], _Steps] = {(0, len(self.grid.vectors) - 1): None}
        for item, (table, after) in enumerate(pairwise(tables)):
            shared, kind = self.shared[item], self.kinds[item]
            taken = self._taken(item, after[shared])
            using: dict[tuple[int, int], _Steps] = {}
            for (is_open, state), steps in alive.items():
                best = taken[:, state] + opening[is_open, item] == table[is_open, state]
                for way in np.flatnonzero(best).tolist() if state else ():
                    left = int(self.before[kind][way, state])
                    using.setdefault((shared, left), (item, int(self.ways[kind][way]), steps))
            idle = {
                (min(is_open, shared), state): steps for (is_open, state), steps in alive.items()
            }
            alive = using or idle
        return list(self._steps(next(iter(alive.values()))))[::-1]

    def _steps(self, steps: _Steps) -> Iterator[tuple[int, IntArray]]:
        while steps is not None:
            item, way, steps = steps
            yield int(self.positions[item]), self.grid.vectors[way]

    def _key(self, ways: list[tuple[int, IntArray]]) -> tuple[Key, list[int]]:
        bare, every = self._last_resorts()
        chosen = np.array([position for position, _ in ways], dtype=np.int64)
        at = np.searchsorted(self.positions, chosen)
        members = np.array([vector for _, vector in ways])
        without = members @ np.array([not n for n in self.grid.problem.per_member], dtype=np.int64)
        last = int(without @ bare[at]), int(members.sum(axis=1) @ every[at])
        return (*last, *self.grid.problem.ground.key(chosen)), chosen.tolist()


_Steps = tuple[int, int, Any] | None
"""(item, way, earlier steps)."""


def _seats(problem: RoleProblem, ways: list[tuple[int, IntArray]]) -> tuple[Seats, ...]:
    positions = np.array([position for position, _ in ways], dtype=np.int64)
    members = np.array([vector for _, vector in ways])
    return tuple(
        _seats_of(problem, positions[counts > 0], counts[counts > 0]) for counts in members.T
    )


def _seats_of(problem: RoleProblem, positions: IntArray, counts: IntArray) -> Seats:
    used = tuple(int(np.unique(path).size) for path in problem.fabric.paths[:, positions])
    return Seats(problem.fabric.order[positions], counts, used)
