"""Placing a whole gang in one decision: what is asked of placement, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import feasibility, ranking
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.gang import HELD, Gang, Reason, Refusal, Status
from scheduler.core.placement import Ask, NoRoom, Seats, place
from scheduler.core.roles import RoleAsk, place_roles
from scheduler.core.rooming import (
    Kind,
    Room,
    accelerated,
    fits_of,
    home,
    in_the_way,
    kind_of,
    living,
    room_of,
    takeable,
    usable_rows,
)
from scheduler.core.shortfall import Shortage, explain
from scheduler.core.state import State
from scheduler.model import GangKey, Pod

_ASKS_KEPT = 4096
"""Different asks that are remembered; forgetting them costs one more attempt each."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes; ``pods`` in rank order, ``nodes`` beside it."""

    pods: tuple[Pod, ...]
    nodes: tuple[str, ...]
    taken: tuple[GangKey, ...] = ()
    """Gangs of lower priority whose open reservations stand in the way."""


def attempt(state: State, gang: Gang) -> Plan | Refusal:
    """Place what the gang wants placed now, or say why not.

    A fresh gang: all members, else the mandatory part whole. An admitted one: all that wait, else
    the mandatory part, else one.
    """
    known = refused(state, gang)
    if known is not None:
        return known
    outcome = _best(state, gang, waiting_pods(state, gang))
    if isinstance(outcome, Plan):
        return outcome
    reason = Reason.NEVER if outcome.never else Reason.NO_ROOM
    refusal = Refusal(reason, outcome.text, state.gains)
    if gang.ask is not None:
        state.refused[gang.ask] = refusal
    return refusal


def refused(state: State, gang: Gang) -> Refusal | None:
    """The refusal that a gang alike had since room last came free, if there was one."""
    if gang.held or gang.memory.lost or gang.reserved:
        gang.ask = None
        return None
    if gang.ask is None:
        gang.ask = _number(state, gang)
    known = state.refused.get(gang.ask)
    return known if known is not None and known.gains == state.gains else None


def shortage(state: State, gang: Gang) -> Shortage | None:
    """Why the gang cannot be placed now, in full, for ``why``; None if it can."""
    waiting = waiting_pods(state, gang)
    if not waiting:
        return None
    outcome = _best(state, gang, waiting)
    return outcome if isinstance(outcome, Shortage) else None


def _best(state: State, gang: Gang, waiting: Sequence[Pod]) -> Plan | Shortage:
    """The plan for the largest portion that fits, else why the smallest does not."""
    outcome: Plan | Shortage = Shortage(False, "no pod waits")
    for portion in _portions(gang, waiting):
        outcome = _place(state, gang, portion)
        if isinstance(outcome, Plan):
            break
    return outcome


def waiting_pods(state: State, gang: Gang) -> list[Pod]:
    """Members to be placed, in rank order."""
    pods = [state.pods[uid] for uid in gang.by_status[Status.WAITING] if uid not in gang.reserved]
    return ranking.in_order(pods, gang_size(gang))


def gang_size(gang: Gang) -> int:
    """Members expected in all."""
    stated = gang.life.options.size if gang.life else None
    least = gang.life.min if gang.life else 1
    alive = gang.count(Status.SEATED, Status.SUCCEEDED, Status.WAITING, Status.GATED)
    return max(stated or 0, least, alive)


def missing(gang: Gang) -> int:
    """Members that must still be bound or reserved to make up min."""
    return gang.lacking(*HELD, with_reserved=True)


def _portions(gang: Gang, waiting: Sequence[Pod]) -> Iterator[Sequence[Pod]]:
    """Which members to try at once: all, else the mandatory ones, else one at a time.

    One at a time is only for gangs that were whole before: a replacement goes in at once.
    """
    yield waiting
    needed = missing(gang)
    mandatory = _mandatory(gang, waiting, needed)
    if 0 < len(mandatory) < len(waiting):
        yield mandatory
    if gang.memory.admitted and len(waiting) > 1:
        yield waiting[:1]


def _mandatory(gang: Gang, waiting: Sequence[Pod], needed: int) -> list[Pod]:
    """The first members that make up each role's min, then min in all, in rank order."""
    role_min = dict(gang.life.options.role_min) if gang.life else {}
    there = Counter(gang.roles.get(uid, "") for item in HELD for uid in gang.by_status[item])
    there.update(gang.roles.get(uid, "") for uid in gang.reserved)
    open_seats = {role: number - there[role] for role, number in role_min.items()}
    chosen: set[str] = set()
    for pod in waiting:
        role = ranking.role_of(pod)
        if open_seats.get(role, 0) > 0:
            open_seats[role] -= 1
            chosen.add(pod.uid)
    others = [pod.uid for pod in waiting if pod.uid not in chosen]
    chosen.update(others[: max(0, needed - len(chosen))])
    return [pod for pod in waiting if pod.uid in chosen]


def _number(state: State, gang: Gang) -> int:
    """The number of what a fresh gang asks for; gangs with the same one fail together."""
    counted: dict[Kind, int] = {}
    for pod in waiting_pods(state, gang):
        kind = kind_of(pod)
        counted[kind] = counted.get(kind, 0) + 1
    if len(state.asks) >= _ASKS_KEPT:
        state.asks.clear()
        state.refused.clear()
    options = gang.life.options if gang.life else None
    asked: Hashable = (options, gang.priority, tuple(counted.items()))
    return state.asks.setdefault(asked, state.next_ask())


# ── one attempt ──


def _place(state: State, gang: Gang, pods: Sequence[Pod]) -> Plan | Shortage:
    state.plans += 1
    topology = state.topology()
    options = gang.life.options if gang.life else None
    required = options.required if options else ""
    level = topology.resolve(required) if required else None
    if required and level is None:
        known = ", ".join(topology.levels) or "none"
        text = f"never fits: level {required!r} is unknown; known levels: {known}"
        return Shortage(True, text, level=required)
    outcome = _seat(state, gang, pods, level, room_of(state, gang, ()))
    if isinstance(outcome, Plan):
        return outcome
    lower = takeable(state, gang)
    if lower:
        taken = _seat(state, gang, pods, level, room_of(state, gang, lower))
        if isinstance(taken, Plan):
            return Plan(taken.pods, taken.nodes, in_the_way(state, lower, taken.nodes))
    return explain(state, pods, level, outcome)


def _seat(
    state: State, gang: Gang, pods: Sequence[Pod], level: int | None, room: Room
) -> Plan | NoRoom:
    kinds: dict[Kind, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    if len(kinds) > 1:
        return _seat_unlike(state, gang, kinds, level, room)
    [(kind, alike)] = kinds.items()
    near = living(state, gang, room.frame)
    within = home(state, level, near)
    outcome = NoRoom(0, None)
    for narrowed in _narrowings(state, gang, alike, room.frame, within):
        ask = _ask(state, gang, kind, len(alike), room, level, narrowed, near)
        found = place(state.topology().fabric, ask)
        if isinstance(found, Seats):
            return Plan(tuple(pods), _expand(room.frame, found))
        outcome = found
    return outcome


def _ask(
    state: State,
    gang: Gang,
    kind: Kind,
    count: int,
    room: Room,
    level: int | None,
    within: Bools | None,
    near: Ints | None,
) -> Ask:
    return Ask(
        count=count,
        fits=fits_of(state, kind, room),
        free=room.frame.total(room.free, state.is_accelerator),
        per_member=sum(n for name, n in kind.requests if state.is_accelerator(name)),
        required=level,
        preferred=_preferred(state, gang),
        within=within,
        near=near,
        accelerated=accelerated(state, room.frame),
    )


def _expand(frame: Frame, seats: Seats) -> tuple[str, ...]:
    return tuple(
        frame.names[row]
        for row, count in zip(seats.rows.tolist(), seats.counts.tolist(), strict=True)
        for _ in range(count)
    )


def _narrowings(
    state: State, gang: Gang, pods: Sequence[Pod], frame: Frame, within: Bools | None
) -> list[Bools | None]:
    """Where to look, first choice first: one replacement goes back to its own slot's domain."""
    home = gang.memory.homes.get(ranking.slot(pods[0])) if len(pods) == 1 else None
    row = frame.row.get(home) if home else None
    domains = state.topology().fabric.domains
    if row is None or not len(domains) or domains[-1, row] < 0:
        return [within]
    own = np.asarray(domains[-1] == domains[-1, row], dtype=np.bool_)
    return [own if within is None else own & within, within]


# ── unlike members ──


def _seat_unlike(
    state: State, gang: Gang, kinds: dict[Kind, list[Pod]], level: int | None, room: Room
) -> Plan | NoRoom:
    """Place several kinds together; each kind's members take its seats in rank order."""
    near = living(state, gang, room.frame)
    asks = [_role_ask(state, kind, len(pods), room) for kind, pods in kinds.items()]
    if any(ask is None for ask in asks):
        return NoRoom(0, None)
    found = place_roles(
        state.topology().fabric,
        [ask for ask in asks if ask is not None],
        room.free,
        [at for name, at in room.frame.column.items() if state.is_accelerator(name)],
        required=level,
        preferred=_preferred(state, gang),
        within=home(state, level, near),
        near=near,
        accelerated=accelerated(state, room.frame),
    )
    if isinstance(found, NoRoom):
        return found
    placed: list[tuple[Pod, str]] = []
    for pods, seats in zip(kinds.values(), found, strict=True):
        placed += zip(pods, _expand(room.frame, seats), strict=True)
    if _ports_collide(placed):
        return NoRoom(0, None)
    order = {pod.uid: at for at, pod in enumerate(ranking.in_order(_pods(placed), len(placed)))}
    placed.sort(key=lambda item: order[item[0].uid])
    return Plan(_pods(placed), tuple(node for _, node in placed))


def _pods(placed: Sequence[tuple[Pod, str]]) -> tuple[Pod, ...]:
    return tuple(pod for pod, _ in placed)


def _role_ask(state: State, kind: Kind, count: int, room: Room) -> RoleAsk | None:
    """One kind as placement asks for it; None if some resource is on no node at all."""
    at = room.frame.columns(kind.resources)
    if at is None:
        return None
    request = np.zeros(len(room.frame.column), dtype=np.int64)
    request[at[0]] = at[1]
    ports = kind.constraints.ports
    alone = feasibility.ports_clash(ports, ports)
    return RoleAsk(count, request, usable_rows(state, kind, room), 1 if alone else None)


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


def _preferred(state: State, gang: Gang) -> int | None:
    stated = gang.life.options.preferred if gang.life else ""
    return state.topology().resolve(stated) if stated else None
