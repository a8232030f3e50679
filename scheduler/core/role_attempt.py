"""One attempt to place the roles of a gang in turn, each exactly, close to those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from scheduler.core.fabric import BoolArray, Fabric, IntArray
from scheduler.core.ground import Ground
from scheduler.core.placement import Ask, NoRoom, Seats, place

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class RoleAsk:
    """Members alike among others that are not."""

    count: int
    """Members to place, >= 1."""
    request: IntArray
    """int64 [R]: what one member takes of each resource, in the units of the free matrix."""
    mask: BoolArray
    """bool [n]: nodes that may take a member of this role."""
    cap: int | None = None
    """At most so many members of this role on one node (1 where they exclude each other)."""


def member_fits(free: IntArray, request: IntArray, cap: int | None = None) -> IntArray:
    """How many members fit on each node: int64 [n] from what is free, int64 [n, R].

    A resource that is not asked for never limits, not even one of which too much is in use. A
    member that asks for nothing fits `cap` times, or 2**31 - 1 times without a cap.
    """
    fits = np.full(len(free), UNLIMITED if cap is None else cap, dtype=np.int64)
    for column in np.flatnonzero(request):
        np.minimum(fits, free[:, column] // request[column], out=fits)
    return np.maximum(fits, 0, out=fits)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """Seats per role, in the order in which they were placed; `missing` is the first role that
    found no room, with what it was told."""

    seats: dict[int, Seats]
    missing: tuple[int, NoRoom] | None

    @property
    def members(self) -> int:
        placed = sum(int(seats.counts.sum()) for seats in self.seats.values())
        return placed + (self.missing[1].fits_in_best if self.missing else 0)


@dataclass(frozen=True, eq=False)
class RoleProblem:
    """All roles of a gang, and what is free. `common` has the options that all roles share."""

    fabric: Fabric
    roles: tuple[RoleAsk, ...]
    free: IntArray
    accelerators: tuple[int, ...]
    common: Ask
    until: int | None = None
    """Rows of work from which on no further attempt is made; None: no end."""

    def is_enough(self) -> bool:
        """Whether what was found so far has to do."""
        work = self.common.work
        return (self.until is not None and work.rows >= self.until) or work.is_over()

    @cached_property
    def per_member(self) -> tuple[int, ...]:
        """Accelerators that a member of each role takes."""
        return tuple(int(role.request[list(self.accelerators)].sum()) for role in self.roles)

    @cached_property
    def fits(self) -> IntArray:
        """int64 [roles, n]: members of each role alone that fit on each node, at most all of it."""
        allowed = np.ones(self.fabric.nodes, np.bool_)
        if self.common.within is not None:
            allowed = self.common.within
        if self.common.required is not None:
            allowed = allowed & (self.fabric.domains[self.common.required] >= 0)
        fits = [
            np.where(
                role.mask & allowed,
                np.minimum(member_fits(self.free, role.request, role.cap), role.count),
                0,
            )
            for role in self.roles
        ]
        return np.array(fits)

    def held(self, level: int) -> IntArray:
        """int64 [roles, domains]: members of each role alone that fit, at most all of it."""
        counts = [role.count for role in self.roles]
        sums = np.array([self.in_domains(level, fits) for fits in self.fits])
        held: IntArray = np.minimum(sums, np.array(counts)[:, None])
        return held

    def in_domains(self, level: int, values: IntArray) -> IntArray:
        """Sum per domain of a level, of what is not negative and may be used."""
        ids = self.fabric.domains[level]
        usable = ids >= 0
        if self.common.within is not None:
            usable = usable & self.common.within
        some = np.maximum(values[usable], 0)
        return np.bincount(ids[usable], some, int(ids.max(initial=-1)) + 1).astype(np.int64)

    @cached_property
    def close(self) -> tuple[int, ...]:
        """Roles that are to be close to each other: those with accelerators, or all if none has."""
        everyone = tuple(range(len(self.roles)))
        return tuple(role for role in everyone if self.per_member[role]) or everyone

    @cached_property
    def accelerated(self) -> BoolArray:
        """Nodes that members without accelerators avoid."""
        if self.common.accelerated is not None:
            return self.common.accelerated
        return self.free_accelerators(self.free) > 0

    @cached_property
    def ground(self) -> Ground:
        """What is free for all roles together, to compare attempts by."""
        near = (
            np.zeros(self.fabric.nodes, np.int64) if self.common.near is None else self.common.near
        )
        free = self.free_accelerators(self.free)[self.fabric.order]
        return Ground(self.fabric, free, free, near[self.fabric.order] > 0, 0)

    def free_accelerators(self, free: IntArray) -> IntArray:
        total: IntArray = free[:, list(self.accelerators)].sum(axis=1)
        return total

    def orders(self) -> list[list[int]]:
        """Most accelerators per member first, then the largest share of all that is free; and
        the same with each of the other roles before that."""
        whole = np.maximum(self.free.sum(axis=0), 1)
        share = [float((role.request / whole).max()) * role.count for role in self.roles]
        largest = sorted(range(len(share)), key=lambda r: (-self.per_member[r], -share[r], r))
        return [_first(role, largest) for role in largest]

    def attempt(
        self, order: list[int], area: BoolArray | None = None, outer: BoolArray | None = None
    ) -> Attempt:
        """Place the roles in this order, close ones in `area`, others in `outer` (None: anywhere).

        A role that finds no room goes before all others in another attempt, once for every role.
        """
        promoted: set[int] = set()
        while True:
            result = self._in_turn(order, area, outer)
            if result.missing is None or result.missing[0] in promoted or self.is_enough():
                return result
            promoted.add(result.missing[0])
            order = _first(result.missing[0], order)

    def settled(self, attempt: Attempt) -> Attempt:
        """Place each role once more, beside all others: no role alone can be placed better then.

        Every step keeps or improves the objective of all roles together.
        """
        seats = dict(attempt.seats)
        wall = None
        if self.common.required is not None:
            wall = self.domain_of(self.common.required, int(seats[0].rows[0]))
        for role in self.orders()[0]:
            old = seats.pop(role)
            answer = self._place(role, seats, wall)
            seats[role] = old if isinstance(answer, NoRoom) else answer
        return Attempt(seats, None)

    def _in_turn(
        self, order: Sequence[int], area: BoolArray | None, outer: BoolArray | None
    ) -> Attempt:
        seats: dict[int, Seats] = {}
        for role in order:
            answer = self._place(role, seats, area if role in self.close else outer)
            if isinstance(answer, NoRoom):
                return Attempt(seats, (role, answer))
            seats[role] = answer
            if self.common.required is not None and outer is None:
                area = outer = self.domain_of(self.common.required, int(answer.rows[0]))
        return Attempt(seats, None)

    def _place(
        self, role: int, others: Mapping[int, Seats], area: BoolArray | None
    ) -> Seats | NoRoom:
        """Place one role beside others."""
        wanted = self.roles[role]
        free, near = self._beside(others)
        allowed = wanted.mask if area is None else wanted.mask & area
        ask = replace(
            self.common,
            count=wanted.count,
            fits=np.where(allowed, member_fits(free, wanted.request, wanted.cap), 0),
            free=self.free_accelerators(free),
            per_member=self.per_member[role],
            near=near,
            accelerated=self.accelerated,
        )
        return place(self.fabric, ask)

    def _beside(self, others: Mapping[int, Seats]) -> tuple[IntArray, IntArray]:
        """What the other roles leave free, and how many members of the gang are on each node."""
        free = self.free.copy()
        near = np.zeros(self.fabric.nodes, dtype=np.int64)
        near += 0 if self.common.near is None else self.common.near
        for role, seats in others.items():
            free[seats.rows] -= seats.counts[:, None] * self.roles[role].request
            near[seats.rows] += seats.counts
        return free, near

    def domain_of(self, level: int, row: int) -> BoolArray:
        """bool [n]: the nodes of the same domain."""
        ids = self.fabric.domains[level]
        same: BoolArray = ids == ids[row]
        return same


def _first(role: int, order: Sequence[int]) -> list[int]:
    return [role, *(other for other in order if other != role)]
