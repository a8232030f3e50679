"""Seats for the members of one gang: alike, unlike, or in segments that share a domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core.alike import seat_alike
from scheduler.core.cutting import cut_members
from scheduler.core.effort import Effort, Plan, shared_domains
from scheduler.core.gang import Gang, Status
from scheduler.core.kinds import Kind
from scheduler.core.placement import NoRoom
from scheduler.core.rooming import fits_of, kinds_of
from scheduler.core.segments import has_segments, seat_segments
from scheduler.core.state import State
from scheduler.core.unlike import seat_unlike
from scheduler.model import Pod

__all__ = ["MOST_KINDS", "Effort", "Plan", "by_devices", "gang_size", "seat"]

MOST_KINDS = 16
"""Kinds of members that are told apart; real gangs have a handful, and each costs a placement."""

MOST_TRIES = 8
"""Domains that are tried from each end where others have no room beside the segments."""


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
    kinds = _told_apart(effort, pods)
    if kinds is None:
        return NoRoom(0, None)
    outcome: Plan | NoRoom = NoRoom(0, None)
    for narrowed in effort.by_model():
        if effort.state.work.is_over():
            break
        outcome = _seat(narrowed, kinds, pods)
        if isinstance(outcome, Plan):
            break
    return outcome


def _told_apart(effort: Effort, pods: Sequence[Pod]) -> dict[Kind, list[Pod]] | None:
    """The pods by kind; None where there are too many kinds."""
    kinds = kinds_of(effort.state, effort.gang, pods)
    if len(kinds) > MOST_KINDS:
        kinds = _merged(effort, kinds)
    return kinds if len(kinds) <= MOST_KINDS else None


def _seat(effort: Effort, kinds: dict[Kind, list[Pod]], pods: Sequence[Pod]) -> Plan | NoRoom:
    cut = cut_members(effort.state, effort.gang, pods) if has_segments(effort) else []
    return _in_segments(effort, cut, pods) if cut else _close(effort, kinds, pods)


def _close(effort: Effort, kinds: dict[Kind, list[Pod]], pods: Sequence[Pod]) -> Plan | NoRoom:
    if len(kinds) > 1:
        return seat_unlike(effort, kinds)
    [kind] = kinds
    return seat_alike(effort, kind, pods)


# ── members in segments, and others beside them ──


def _in_segments(effort: Effort, cut: Sequence[Pod], pods: Sequence[Pod]) -> Plan | NoRoom:
    """Members in segments first, and then the others, as close to them as possible.

    Where all must share a domain, and others have no room in that of the segments, some more of
    these are tried.
    """
    [kind] = kinds_of(effort.state, effort.gang, cut)
    inside = {pod.uid for pod in cut}
    others = [pod for pod in pods if pod.uid not in inside]
    outcome = _beside(effort, kind, cut, others)
    if others and not isinstance(outcome, Plan):
        for narrowed in _one_by_one(effort, kind, len(cut)):
            found = _beside(narrowed, kind, cut, others)
            if isinstance(found, Plan):
                return _in_order_of(pods, found)
            if effort.state.work.is_over():
                break
    return _in_order_of(pods, outcome) if isinstance(outcome, Plan) else outcome


def _beside(effort: Effort, kind: Kind, cut: Sequence[Pod], others: Sequence[Pod]) -> Plan | NoRoom:
    plan = seat_segments(effort, kind, cut)
    if isinstance(plan, NoRoom) or not others:
        return plan
    kinds = _told_apart(effort, others)
    if kinds is None:
        return NoRoom(0, None)
    rest = _close(effort.beside(kind, plan.nodes, kinds), kinds, others)
    if isinstance(rest, NoRoom):
        return replace(rest, fits_in_best=rest.fits_in_best + len(cut))
    return Plan(plan.pods + rest.pods, plan.nodes + rest.nodes)


def _in_order_of(pods: Sequence[Pod], plan: Plan) -> Plan:
    nodes = {pod.uid: node for pod, node in zip(plan.pods, plan.nodes, strict=True)}
    return Plan(tuple(pods), tuple(nodes[pod.uid] for pod in pods))


def _one_by_one(effort: Effort, kind: Kind, count: int) -> Iterator[Effort]:
    """This attempt in single domains of which one must hold all: the tightest for so many members
    of a kind, and the roomiest."""
    shared = shared_domains(effort.state, effort.gang, effort.level)
    if not shared or effort.within is not None:
        return
    ids, fits = shared[-1], fits_of(effort.state, kind, effort.room)
    held = np.bincount(ids[ids >= 0], fits[ids >= 0]).astype(np.int64)
    enough = np.flatnonzero(held >= count)
    ordered = enough[held[enough].argsort(kind="stable")].tolist()
    for domain in dict.fromkeys([*ordered[:MOST_TRIES], *ordered[-MOST_TRIES:]]):
        room = replace(effort.room, open=effort.room.open & (ids == domain))
        yield replace(effort, room=room)


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
