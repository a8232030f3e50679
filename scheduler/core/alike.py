"""Seats for members that ask for the same: together, and who comes back where its slot was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.core import ranking
from scheduler.core.effort import Effort, Plan, View
from scheduler.core.fabric import BoolArray
from scheduler.core.kinds import Kind
from scheduler.core.leftovers import fill_leftovers
from scheduler.core.linking import on_linked
from scheduler.core.placement import Ask, NoRoom, Seats, place
from scheduler.core.rooming import accelerated
from scheduler.core.slices import without
from scheduler.model import Pod

__all__ = ["seat_alike"]


def seat_alike(effort: Effort, kind: Kind, pods: Sequence[Pod]) -> Plan | NoRoom:
    """Seats for members alike, pods in rank order, or how many would fit.

    Members whose slots had a domain of the finest level go back there as far as there is room, so
    that ranks stay neighbours; the others, and all of them where that does not work out, go where
    they are closest together.
    """
    outcome = NoRoom(0, None)
    for view in effort.views():
        ask = effort.ask(view, kind, len(pods), effort.within)
        rows = _back(effort, view, kind, ask, pods) or _together(effort, view, kind, ask)
        if not isinstance(rows, NoRoom):
            names = effort.room.frame.names
            return Plan(tuple(pods), tuple(names[row] for row in rows))
        outcome = effort.translated(view, rows)
    return outcome


def _together(effort: Effort, view: View, kind: Kind, ask: Ask) -> list[int] | NoRoom:
    """The row of each member, as close together as possible, or in what others left over."""
    if effort.light and ask.per_member:
        seats = fill_leftovers(view.fabric, ask, _busy(effort))
    else:
        seats = _closest(effort, view, kind, ask)
    return seats if isinstance(seats, NoRoom) else seats.by_member()


def _closest(effort: Effort, view: View, kind: Kind, ask: Ask) -> Seats | NoRoom:
    seats = place(view.fabric, ask)
    return seats if isinstance(seats, NoRoom) else on_linked(effort, view, kind, ask, seats)


def _busy(effort: Effort) -> BoolArray:
    """Per row whether accelerators are in use there."""
    frame, state = effort.room.frame, effort.state
    have = frame.total(frame.allocatable, state.is_accelerator)
    free = frame.total(effort.room.free, state.is_accelerator)
    return np.asarray((free < have) & accelerated(state, frame))


# ── members that come back ──


def _back(
    effort: Effort, view: View, kind: Kind, ask: Ask, pods: Sequence[Pod]
) -> list[int] | None:
    """The row of each member, as many as possible in the domains of their slots; None if no member
    can have that, or if the others would then have no room."""
    seated: dict[str, int] = {}
    for inside, members in _by_home(effort, view, pods):
        found = _as_many(effort, view, kind, _inside(ask, inside), members)
        seated |= found
        ask = without(ask, list(found.values()))
    others = [pod for pod in pods if pod.uid not in seated]
    if not seated:
        return None
    if others:
        rows = _together(effort, view, kind, _beside(ask, len(others), list(seated.values())))
        if isinstance(rows, NoRoom):
            return None
        seated |= {pod.uid: row for pod, row in zip(others, rows, strict=True)}
    return [seated[pod.uid] for pod in pods]


def _by_home(effort: Effort, view: View, pods: Sequence[Pod]) -> list[tuple[BoolArray, list[Pod]]]:
    """(rows of a finest domain, members whose slots were in it), in rank order.

    Where nobody of a gang lives and several are placed, it begins anew, wherever it was before. So
    it does where all must share a domain, and those who live do not say which.
    """
    levels, remembered = effort.state.topology().fabric.domains, effort.gang.memory.homes
    if not len(levels) or not remembered:
        return []
    open_end = view.required is not None and effort.within is None
    if len(pods) > 1 and (open_end or effort.near is None):
        return []
    homes: dict[int, list[Pod]] = {}
    for pod in pods:
        before = remembered.get(ranking.slot(pod))
        row = effort.room.frame.row.get(before) if before else None
        if row is not None and levels[-1, row] >= 0:
            homes.setdefault(int(levels[-1, row]), []).append(pod)
    return [(np.asarray(levels[-1] == domain), members) for domain, members in homes.items()]


def _as_many(
    effort: Effort, view: View, kind: Kind, ask: Ask, members: Sequence[Pod]
) -> dict[str, int]:
    """The rows of the first members, as many as have room."""
    seats = _closest(effort, view, kind, replace(ask, count=len(members)))
    if isinstance(seats, NoRoom) and seats.fits_in_best:
        seats = _closest(effort, view, kind, replace(ask, count=seats.fits_in_best))
    if isinstance(seats, NoRoom):
        return {}
    return {pod.uid: row for pod, row in zip(members, seats.by_member(), strict=False)}


def _inside(ask: Ask, rows: BoolArray) -> Ask:
    return replace(ask, within=rows if ask.within is None else rows & ask.within)


def _beside(ask: Ask, count: int, rows: Sequence[int]) -> Ask:
    """The same for so many members beside those that have these rows already."""
    near = np.bincount(np.asarray(rows, dtype=np.int64), minlength=ask.fits.size)
    return replace(ask, count=count, near=near if ask.near is None else ask.near + near)
