"""Seats for the members of one gang: alike, unlike, or in segments that share a domain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core import ranking
from scheduler.core.capacity import Bools
from scheduler.core.effort import Effort, Plan, View
from scheduler.core.gang import Gang, Status
from scheduler.core.kinds import Kind
from scheduler.core.leftovers import fill_leftovers
from scheduler.core.linking import on_linked
from scheduler.core.placement import NoRoom, Seats, place
from scheduler.core.rooming import accelerated, kinds_of
from scheduler.core.segments import has_segments, seat_segments
from scheduler.core.state import State
from scheduler.core.unlike import seat_unlike
from scheduler.model import Pod

__all__ = ["MOST_KINDS", "Effort", "Plan", "by_devices", "gang_size", "seat"]

MOST_KINDS = 16
"""Kinds of members that are told apart; real gangs have a handful, and each costs a placement."""


def gang_size(gang: Gang) -> int:
    """Members expected in all."""
    stated = gang.life.options.size if gang.life else None
    least = gang.life.min if gang.life else 1
    alive = gang.count(Status.SEATED, Status.SUCCEEDED, Status.WAITING, Status.GATED)
    return max(stated or 0, least, alive)


def seat(effort: Effort, pods: Sequence[Pod]) -> Plan | NoRoom:
    """Seats for all of these pods (in rank order), or how many would fit.

    The nodes of a preferred GPU model are tried before all nodes.
    """
    kinds = kinds_of(effort.state, effort.gang, pods)
    if len(kinds) > MOST_KINDS:
        kinds = _merged(effort, kinds)
    if len(kinds) > MOST_KINDS:
        return NoRoom(0, None)
    outcome: Plan | NoRoom = NoRoom(0, None)
    for narrowed in effort.by_model():
        if effort.state.work.is_over():
            break
        outcome = _seat(narrowed, kinds, pods)
        if isinstance(outcome, Plan):
            break
    return outcome


def _seat(effort: Effort, kinds: dict[Kind, list[Pod]], pods: Sequence[Pod]) -> Plan | NoRoom:
    if len(kinds) > 1:
        return seat_unlike(effort, kinds)
    [kind] = kinds
    if has_segments(effort):
        return seat_segments(effort, kind, pods)
    return _alike(effort, kind, pods)


def by_devices(state: State, kinds: Iterable[Kind]) -> dict[Kind, list[Kind]]:
    """The kinds by what has to be told of them: their accelerators, and where they may go.

    The key is a kind that asks for the accelerators alone.
    """
    found: dict[Kind, list[Kind]] = {}
    for kind in kinds:
        devices = tuple(item for item in kind.requests if state.is_accelerator(item[0]))
        found.setdefault(replace(kind, requests=devices), []).append(kind)
    return found


def _merged(effort: Effort, kinds: dict[Kind, list[Pod]]) -> dict[Kind, list[Pod]]:
    """Fewer kinds: those with the same accelerators and constraints ask for the most of each.

    What has room for the largest has room for all of them. A gang that still has too many kinds is
    not planned: nobody could say in reasonable time whether it fits.
    """
    merged: dict[Kind, list[Pod]] = {}
    for bare, alike in by_devices(effort.state, kinds).items():
        most: dict[str, int] = {}
        for name, amount in (item for kind in alike for item in kind.requests):
            most[name] = max(most.get(name, 0), amount)
        largest = replace(bare, requests=tuple(sorted(most.items())))
        merged[largest] = [pod for kind in alike for pod in kinds[kind]]
    return merged


# ── members alike ──


def _alike(effort: Effort, kind: Kind, pods: Sequence[Pod]) -> Plan | NoRoom:
    outcome = NoRoom(0, None)
    within = effort.within
    for view in effort.views():
        for narrowed in _narrowings(effort, pods, within):
            found = _place(effort, view, kind, len(pods), narrowed)
            if isinstance(found, Seats):
                return Plan(tuple(pods), effort.expand(found))
            outcome = effort.translated(view, found)
    return outcome


def _place(
    effort: Effort, view: View, kind: Kind, count: int, within: Bools | None
) -> Seats | NoRoom:
    ask = effort.ask(view, kind, count, within)
    if effort.light and ask.per_member:
        return fill_leftovers(view.fabric, ask, _busy(effort))
    seats = place(view.fabric, ask)
    return on_linked(effort, view, kind, ask, seats) if isinstance(seats, Seats) else seats


def _busy(effort: Effort) -> Bools:
    """Per row whether accelerators are in use there."""
    frame, state = effort.room.frame, effort.state
    have = frame.total(frame.allocatable, state.is_accelerator)
    free = frame.total(effort.room.free, state.is_accelerator)
    return np.asarray((free < have) & accelerated(state, frame))


def _narrowings(effort: Effort, pods: Sequence[Pod], within: Bools | None) -> list[Bools | None]:
    """Where to look, first choice first: one replacement goes back to its own slot's domain."""
    before = effort.gang.memory.homes.get(ranking.slot(pods[0])) if len(pods) == 1 else None
    row = effort.room.frame.row.get(before) if before else None
    domains = effort.state.topology().fabric.domains
    if row is None or not len(domains) or domains[-1, row] < 0:
        return [within]
    own = np.asarray(domains[-1] == domains[-1, row], dtype=np.bool_)
    return [own if within is None else own & within, within]
