"""Seats for the members of one gang: alike, unlike, or in segments that share a domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import feasibility, ranking
from scheduler.core.capacity import Bools, Ints
from scheduler.core.fabric import Fabric
from scheduler.core.gang import Gang, Status
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.placement import Ask, NoRoom, Seats, place
from scheduler.core.roles import RoleAsk, place_roles
from scheduler.core.rooming import (
    Room,
    accelerated,
    fits_of,
    home,
    living,
    usable_rows,
)
from scheduler.core.state import State
from scheduler.model import Constraints, GangKey, Pod

MOST_KINDS = 16
"""Kinds of members that are told apart; real gangs have a handful, and each costs a placement."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes; ``pods`` and then ``ghosts`` in rank order, ``nodes`` beside them."""

    pods: tuple[Pod, ...]
    nodes: tuple[str, ...]
    ghosts: tuple[Pod, ...] = ()
    """Members of later phases that do not exist yet."""
    taken: tuple[GangKey, ...] = ()
    """Gangs of lower priority whose open reservations stand in the way."""


@dataclass(frozen=True, slots=True)
class Effort:
    """One attempt to seat members of a gang in the room that it sees."""

    state: State
    gang: Gang
    level: int | None
    """All members inside one domain of this level."""
    room: Room

    @property
    def fabric(self) -> Fabric:
        """The tree of domains."""
        return self.state.topology().fabric

    @property
    def preferred(self) -> int | None:
        """The level whose unlabelled nodes are a last resort."""
        stated = self.gang.life.options.preferred if self.gang.life else ""
        return self.state.topology().resolve(stated) if stated else None

    def ask(self, kind: Kind, count: int, within: Bools | None, near: Ints | None) -> Ask:
        """What is asked of placement for members of one kind."""
        return Ask(
            count=count,
            fits=fits_of(self.state, kind, self.room),
            free=self.room.frame.total(self.room.free, self.state.is_accelerator),
            per_member=sum(n for name, n in kind.requests if self.state.is_accelerator(name)),
            required=self.level,
            preferred=self.preferred,
            within=within,
            near=near,
            accelerated=accelerated(self.state, self.room.frame),
        )

    def expand(self, seats: Seats) -> tuple[str, ...]:
        """Node names, one entry a member."""
        names = self.room.frame.names
        pairs = zip(seats.rows.tolist(), seats.counts.tolist(), strict=True)
        return tuple(names[row] for row, count in pairs for _ in range(count))


def gang_size(gang: Gang) -> int:
    """Members expected in all."""
    stated = gang.life.options.size if gang.life else None
    least = gang.life.min if gang.life else 1
    alive = gang.count(Status.SEATED, Status.SUCCEEDED, Status.WAITING, Status.GATED)
    return max(stated or 0, least, alive)


def seat(effort: Effort, pods: Sequence[Pod]) -> Plan | NoRoom:
    """Seats for all of these pods (in rank order), or how many would fit."""
    kinds: dict[Kind, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    if len(kinds) > MOST_KINDS:
        kinds = _merged(effort, kinds)
    if len(kinds) > MOST_KINDS:
        return NoRoom(0, None)
    if len(kinds) > 1:
        return _unlike(effort, kinds)
    [kind] = kinds
    segment = effort.gang.life.options.segment_size if effort.gang.life else None
    if segment is not None and segment > 1:
        return _segments(effort, kind, pods, segment)
    return _alike(effort, kind, pods)


def _merged(effort: Effort, kinds: dict[Kind, list[Pod]]) -> dict[Kind, list[Pod]]:
    """Fewer kinds: those with the same accelerators and constraints ask for the most of each.

    What has room for the largest has room for all of them. A gang that still has too many kinds is
    not planned: nobody could say in reasonable time whether it fits.
    """
    by_devices: dict[tuple[object, Constraints], list[Kind]] = {}
    for kind in kinds:
        devices = tuple(item for item in kind.requests if effort.state.is_accelerator(item[0]))
        by_devices.setdefault((devices, kind.constraints), []).append(kind)
    merged: dict[Kind, list[Pod]] = {}
    for (_, constraints), alike in by_devices.items():
        most: dict[str, int] = {}
        for name, amount in (item for kind in alike for item in kind.requests):
            most[name] = max(most.get(name, 0), amount)
        largest = Kind(tuple(sorted(most.items())), constraints)
        merged[largest] = [pod for kind in alike for pod in kinds[kind]]
    return merged


# ── members alike ──


def _alike(effort: Effort, kind: Kind, pods: Sequence[Pod]) -> Plan | NoRoom:
    near = living(effort.state, effort.gang, effort.room.frame)
    within = home(effort.state, effort.gang, effort.room.frame, effort.level)
    outcome = NoRoom(0, None)
    for narrowed in _narrowings(effort, pods, within):
        found = place(effort.fabric, effort.ask(kind, len(pods), narrowed, near))
        if isinstance(found, Seats):
            return Plan(tuple(pods), effort.expand(found))
        outcome = found
    return outcome


def _narrowings(effort: Effort, pods: Sequence[Pod], within: Bools | None) -> list[Bools | None]:
    """Where to look, first choice first: one replacement goes back to its own slot's domain."""
    before = effort.gang.memory.homes.get(ranking.slot(pods[0])) if len(pods) == 1 else None
    row = effort.room.frame.row.get(before) if before else None
    domains = effort.fabric.domains
    if row is None or not len(domains) or domains[-1, row] < 0:
        return [within]
    own = np.asarray(domains[-1] == domains[-1, row], dtype=np.bool_)
    return [own if within is None else own & within, within]


# ── segments ──


def _segments(effort: Effort, kind: Kind, pods: Sequence[Pod], size: int) -> Plan | NoRoom:
    """Place whole segments of ``size`` consecutive members, each inside one domain.

    Segments are placed like members alike on a tree that ends at the segment's level, where a
    domain holds as many as its nodes have room for; the members of each domain then follow.
    """
    level = _segment_level(effort)
    if level is None or (effort.level is not None and effort.level >= level):
        return _alike(effort, kind, pods)
    whole, rest = divmod(len(pods), size)
    near = living(effort.state, effort.gang, effort.room.frame)
    ask = effort.ask(
        kind, len(pods), home(effort.state, effort.gang, effort.room.frame, effort.level), near
    )
    placed: list[str] = []
    taken = np.zeros_like(ask.fits)
    for count, each in ((whole, size), (1 if rest else 0, rest)):
        if not count:
            continue
        rows = _place_segments(effort.fabric, ask, level, count, each, taken)
        if isinstance(rows, NoRoom):
            return NoRoom(rows.fits_in_best * each, None)
        placed += [effort.room.frame.names[row] for row in rows]
        taken = np.bincount([effort.room.frame.row[name] for name in placed], minlength=len(taken))
    return Plan(tuple(pods), tuple(placed))


def _segment_level(effort: Effort) -> int | None:
    """The level that a segment shares; the finest if none is stated, None if there is none."""
    stated = effort.gang.life.options.segment_level if effort.gang.life else ""
    if stated:
        return effort.state.topology().resolve(stated)
    return effort.fabric.levels - 1 if effort.fabric.levels else None


def _place_segments(
    fabric: Fabric, ask: Ask, level: int, count: int, size: int, taken: Ints
) -> list[int] | NoRoom:
    """Rows for ``count`` segments of ``size`` members, one row a member, segment by segment."""
    ids = fabric.domains[level]
    inside = ids >= 0 if ask.within is None else (ids >= 0) & ask.within
    fits = np.where(inside, np.maximum(ask.fits - taken, 0), 0)
    domains = int(ids.max(initial=-1)) + 1
    room = np.zeros(domains, dtype=np.int64)
    free = np.zeros(domains, dtype=np.int64)
    np.add.at(room, ids[inside], fits[inside])
    np.add.at(free, ids[inside], ask.free[inside])
    heads = [int(np.flatnonzero(ids == domain)[0]) for domain in range(domains)]
    coarse = Fabric(np.ascontiguousarray(fabric.domains[:level, heads]))
    segments = Ask(count, room // size, free, ask.per_member * size, required=ask.required)
    found = place(coarse, segments)
    if isinstance(found, NoRoom):
        return found
    rows: list[int] = []
    for domain, number in zip(found.rows.tolist(), found.counts.tolist(), strict=True):
        inner = Ask(
            number * size, np.where(ids == domain, fits, 0), ask.free, ask.per_member, near=ask.near
        )
        seats = place(fabric, inner)
        assert isinstance(seats, Seats), "a domain with room for its segments holds their members"
        rows += np.repeat(seats.rows, seats.counts).tolist()
    return rows


# ── unlike members ──


def _unlike(effort: Effort, kinds: dict[Kind, list[Pod]]) -> Plan | NoRoom:
    """Place several kinds together; each kind's members take its seats in rank order."""
    state, room = effort.state, effort.room
    asks = [_role_ask(effort, kind, len(pods)) for kind, pods in kinds.items()]
    known = [ask for ask in asks if ask is not None]
    if len(known) < len(asks):
        return NoRoom(0, None)
    near = living(state, effort.gang, room.frame)
    found = place_roles(
        effort.fabric,
        known,
        room.free,
        [at for name, at in room.frame.column.items() if state.is_accelerator(name)],
        required=effort.level,
        preferred=effort.preferred,
        within=home(state, effort.gang, room.frame, effort.level),
        near=near,
        accelerated=accelerated(state, room.frame),
    )
    if isinstance(found, NoRoom):
        return found
    placed: list[tuple[Pod, str]] = []
    for pods, seats in zip(kinds.values(), found, strict=True):
        placed += zip(pods, effort.expand(seats), strict=True)
    if _ports_collide(placed):
        return NoRoom(0, None)
    order = {pod.uid: at for at, pod in enumerate(ranking.in_order(_pods(placed), len(placed)))}
    placed.sort(key=lambda item: order[item[0].uid])
    return Plan(_pods(placed), tuple(node for _, node in placed))


def _pods(placed: Sequence[tuple[Pod, str]]) -> tuple[Pod, ...]:
    return tuple(pod for pod, _ in placed)


def _role_ask(effort: Effort, kind: Kind, count: int) -> RoleAsk | None:
    """One kind as placement asks for it; None if some resource is on no node at all."""
    frame = effort.room.frame
    at = frame.columns(kind.resources)
    if at is None:
        return None
    request = np.zeros(len(frame.column), dtype=np.int64)
    request[at[0]] = at[1]
    ports = kind.constraints.ports
    alone = feasibility.ports_clash(ports, ports)
    mask = usable_rows(effort.state, kind, effort.room)
    return RoleAsk(count, request, mask, 1 if alone else None)


def _ports_collide(placed: Sequence[tuple[Pod, str]]) -> bool:
    """Whether members of different kinds would share a host port on some node."""
    by_node: dict[str, list[Pod]] = {}
    for pod, node in placed:
        if pod.constraints.ports:
            by_node.setdefault(node, []).append(pod)
    return any(
        feasibility.ports_clash(one.constraints.ports, other.constraints.ports)
        for pods in by_node.values()
        for at, one in enumerate(pods)
        for other in pods[:at]
    )
