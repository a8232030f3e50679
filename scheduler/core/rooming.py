"""The room that one gang sees: free amounts as arrays, and the nodes it may use at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import exactness
from scheduler.core.booking import given_up
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.gang import Gang, Status
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.queue import place_of
from scheduler.core.repulsion import shut_rows
from scheduler.core.state import State
from scheduler.model import GangKey, Pod, Resources


@dataclass(frozen=True, slots=True)
class Room:
    """The arrays that one attempt works on."""

    frame: Frame
    free: Ints
    open: Bools
    """Per row whether the node takes new reservations at all."""


def room_of(state: State, gang: Gang, lower: Sequence[str]) -> Room:
    """Free room as this gang sees it: seats kept for others are taken, ``lower`` uids are not."""
    frame = state.ledger.frame()
    free, copied = frame.free, False
    for name, amounts in _kept_seats(state, gang):
        free, copied = (free if copied else free.copy()), True
        _take(frame, free, name, amounts)
    for name, amounts in _sums(state, lower).items():
        if name in frame.row:
            free, copied = (free if copied else free.copy()), True
            kept = free[frame.row[name]] - frame.free[frame.row[name]]
            free[frame.row[name]] = state.ledger.row(name, amounts) + kept
    if copied:
        np.maximum(free, 0, out=free)
    rows = _open_rows(state, frame)
    if state.kept is not None and is_behind(state, gang):
        rows[[frame.row[name] for name in state.kept.nodes if name in frame.row]] = False
    shut = shut_rows(state, gang, frame)
    if shut is not None:
        rows &= ~shut
    return Room(frame, free, rows)


def open_room(state: State) -> Room:
    """The room as it is, whoever asks."""
    frame = state.ledger.frame()
    return Room(frame, frame.free, _open_rows(state, frame))


def is_behind(state: State, gang: Gang) -> bool:
    """Whether the kept nodes are shut to this gang: it queues behind and may not end in time."""
    kept = state.kept
    if kept is None or kept.gang == gang.key or kept.gang not in state.gangs:
        return False
    if place_of(gang) < place_of(state.gangs[kept.gang]):
        return False
    runtime = gang.life.options.max_runtime if gang.life else None
    return runtime is None or kept.until is None or state.now + runtime > kept.until


def _sums(state: State, lower: Sequence[str]) -> dict[str, dict[str, int]]:
    """Node -> what these reservations take there in all."""
    sums: dict[str, dict[str, int]] = {}
    for uid in lower:
        on_node = sums.setdefault(state.reservations[uid].node, {})
        for name, amount in state.pods[uid].requests.items():
            on_node[name] = on_node.get(name, 0) + amount
    return sums


def _take(frame: Frame, table: Ints, node: str, amounts: Resources) -> None:
    row = frame.row.get(node)
    if row is None:
        return
    for name, amount in amounts.items():
        column = frame.column.get(name)
        if column is not None:
            table[row, column] -= min(amount, 2**60)


def _kept_seats(state: State, gang: Gang) -> list[tuple[str, Resources]]:
    """Seats of broken gangs of equal or higher priority, which this gang may not take."""
    return [
        (seat.node, seat.resources)
        for key in state.broken
        if key != gang.key and state.gangs[key].priority >= gang.priority
        for seat in (*state.gangs[key].memory.lost, *state.gangs[key].memory.ahead)
    ]


def _open_rows(state: State, frame: Frame) -> Bools:
    """Rows without a Binding whose outcome is unknown after its reservation ended."""
    rows = np.ones(len(frame.names), dtype=np.bool_)
    for name in given_up(state):
        if name in frame.row:
            rows[frame.row[name]] = False
    return rows


def takeable(state: State, gang: Gang) -> list[str]:
    """Uids with an open reservation of lower priority and no Binding on its way."""
    return [
        uid
        for uid, reservation in state.reservations.items()
        if uid not in state.binding
        and not reservation.uncertain
        and state.gangs[reservation.gang].priority < gang.priority
    ]


def in_the_way(state: State, lower: Sequence[str], nodes: Sequence[str]) -> tuple[GangKey, ...]:
    chosen = set(nodes)
    reservations = [state.reservations[uid] for uid in lower]
    return tuple(dict.fromkeys(item.gang for item in reservations if item.node in chosen))


def kinds_of(state: State, gang: Gang, pods: Sequence[Pod]) -> dict[Kind, list[Pod]]:
    """The pods by kind. GPU models that a group object names hold for its pods with accelerators
    that name none themselves."""
    named = [state.groups[key].options.gpu_required for key in gang.groups if key in state.groups]
    models = next(filter(None, named), ())
    kinds: dict[Kind, list[Pod]] = {}
    for pod in pods:
        kind = kind_of(pod, models if models and state.accelerators(pod) else ())
        kinds.setdefault(kind, []).append(pod)
    return kinds


def fits_of(state: State, kind: Kind, room: Room) -> Ints:
    """Per row how many members of this kind have room."""
    at = room.frame.columns(kind.resources)
    if at is None or not room.frame.names:
        return np.zeros(len(room.frame.names), dtype=np.int64)
    columns, amounts = at
    fits = (room.free[:, columns] // amounts).min(axis=1)
    if kind.one_a_node:
        fits = np.minimum(fits, 1)
    return np.where(usable_rows(state, kind, room), fits, 0)


def usable_rows(state: State, kind: Kind, room: Room) -> Bools:
    """Per row whether a member of this kind may go there at all, resources aside."""
    usable = room.open & state.ledger.mask(kind.constraints)
    if ports := kind.constraints.ports:
        usable = usable & state.ledger.without_ports(ports)
    return exactness.assignable(state, kind, room.frame, room.free, usable)


def accelerated(state: State, frame: Frame) -> Bools:
    """Per row whether the node has accelerators, free or not."""
    return np.asarray(frame.total(frame.allocatable, state.is_accelerator) > 0, dtype=np.bool_)


def living(state: State, gang: Gang, frame: Frame) -> Ints | None:
    """Per row how many members live or are about to; None if none does."""
    nodes = [state.pods[uid].node for uid in gang.by_status[Status.SEATED]]
    nodes += [state.reservations[uid].node for uid in gang.reserved]
    rows = [frame.row[node] for node in nodes if node in frame.row]
    if not rows:
        return None
    return np.bincount(rows, minlength=len(frame.names)).astype(np.int64)


def home(state: State, gang: Gang, frame: Frame, domains: Ints) -> Bools | None:
    """The rows of the domains that bound members occupy, of those of which one must hold all.

    ``domains``: int [n], each row's domain or -1. Members whose seats are only reserved count where
    nobody is bound in a domain yet. None if neither are.
    """
    seated = [state.pods[uid].node for uid in gang.by_status[Status.SEATED]]
    reserved = [state.reservations[uid].node for uid in gang.reserved]
    for nodes in (seated, reserved):
        homes = np.unique(domains[[frame.row[node] for node in nodes if node in frame.row]])
        if (homes >= 0).any():
            return np.asarray(np.isin(domains, homes[homes >= 0]), dtype=np.bool_)
    return None
