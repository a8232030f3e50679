"""Which gangs may start now: each is tried in the queue's order, partners together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from scheduler.core import backfill, bottleneck, ending, indexing, planning, rooming, starting
from scheduler.core.gang import Gang, Reason, Refusal, Stage, Status
from scheduler.core.judging import can_complete, judge_again
from scheduler.core.queue import order
from scheduler.core.seating import Plan
from scheduler.core.state import State, Turn
from scheduler.model import GangKey

_ROTATIONS = 4
"""Orders in which partners are tried; each costs a plan of every one of them."""


class _Gains(NamedTuple):
    """What one pass over the waiting gangs is about."""

    since: int
    """The count of gains at the last pass."""
    until: int
    """The count at this one; a plan of this pass may free room itself, for the next."""
    nodes: tuple[str, ...] | None
    """Where room came free in between; None = anywhere."""


def plan(turn: Turn, fresh: Sequence[GangKey]) -> bool:
    """Try the gangs that may start now; whether anything was planned or given back."""
    state = turn.state
    touched = [key for key in fresh if key in state.wanting]
    settled = not ending.is_under_way(state)
    gained = settled and state.planned_at != state.gains
    if gained or any(state.gangs[key].stage is Stage.QUEUED for key in touched):
        backfill.update(turn)
    gains = _Gains(state.planned_at, state.gains, state.newly_free())
    for gang in order(state.gangs[key] for key in _to_try(state, touched, settled)):
        if _may_be_tried(turn, gang) and not _is_shut(state, gang, gains):
            _try(turn, gang)
    backfill.give_up(turn)
    return bool(turn.touched) or (settled and state.gains != gains.until)


def _to_try(state: State, touched: Sequence[GangKey], settled: bool) -> Iterable[GangKey]:
    """All that wait, if room may have come free since they were tried last, else the touched.

    While a gang is ending, its room goes to none but those that are to be made whole again.
    """
    if state.planned_at == state.gains:
        return touched
    if not settled:
        broken = (key for key in state.wanting if state.gangs[key].memory.admitted)
        return dict.fromkeys([*touched, *broken])
    state.planned_at = state.gains
    state.freed.clear()
    return state.wanting


def _may_be_tried(turn: Turn, gang: Gang) -> bool:
    if gang.memory.backoff_until > turn.now or not _has_waiting(gang):
        return False
    return gang.stage is Stage.QUEUED or gang.memory.admitted or can_complete(gang)


def _is_shut(state: State, gang: Gang, gains: _Gains) -> bool:
    """Whether it is no use to try: nothing came free since it was refused, or far too little."""
    refusal = gang.memory.refusal
    if refusal is None or refusal.gains == state.gains:
        return refusal is not None
    if refusal.bottleneck is None or _has_nodes_kept(state, gang):
        return False
    freed = gains.nodes if refusal.gains == gains.since else None
    if freed is None and refusal.reason is Reason.NEVER:
        # A node may have come or grown. It then fits one day, and others may have to wait for it.
        return False
    found = bottleneck.is_shut(state, gang, refusal.bottleneck, freed)
    if found is None:
        return False
    gang.memory.refusal = replace(refusal, gains=gains.until, bottleneck=found)
    return True


def _has_nodes_kept(state: State, gang: Gang) -> bool:
    """Others wait for it meanwhile: it must be known whether it can still start at all."""
    return state.kept is not None and state.kept.gang == gang.key


def _has_waiting(gang: Gang) -> bool:
    return gang.count(Status.WAITING) > len(gang.reserved)


def _try(turn: Turn, gang: Gang) -> None:
    state = turn.state
    partners = _partners(state, gang)
    if isinstance(partners, Refusal):
        _refuse(turn, gang, partners)
        return
    # Always in the same order, whichever of them is due: partners are refused as one.
    unit = sorted([gang, *partners], key=lambda member: member.key)
    # One that does not name this gang has not asked to wait for it.
    waiting = [member for member in unit if member is gang or member.names(gang.key)]
    if partners and _is_still_short(state, unit):
        for member in waiting:
            assert member.memory.refusal is not None
            member.memory.refusal = replace(member.memory.refusal, gains=state.gains)
        return
    plans = _plan_together(state, unit)
    if isinstance(plans, Refusal):
        for member in waiting:
            _refuse(turn, member, plans)
        return
    for member, found in zip(unit, plans, strict=True):
        for key in found.taken:
            starting.release(turn, state.gangs[key], keep_binding=True)
            turn.touch(key)
        _start(turn, member, found)


def _refuse(turn: Turn, gang: Gang, refusal: Refusal) -> None:
    gang.memory.refusal = refusal
    life = gang.life
    if life is None or life.stage is not Stage.QUEUED:
        judge_again(turn.state, gang)
    else:
        # What judging anew would say; a thousand gangs may be refused at once.
        gang.life = replace(life, reason=refusal.reason, text=refusal.text)
    if life is None or life.reason is not refusal.reason:
        turn.told[gang.key] = None


def _start(turn: Turn, gang: Gang, found: Plan) -> None:
    starting.start(turn, gang, found)
    for seats in (gang.memory.lost, gang.memory.ahead):
        for node in found.nodes[: len(found.pods)]:
            seat = next((seat for seat in seats if seat.node == node), None)
            if seat is not None:
                seats.remove(seat)
                turn.state.gain_on(node)
    starting.keep_ahead(turn, gang, found)
    turn.touch(gang.key)


# ── partners ──


def _partners(state: State, gang: Gang) -> list[Gang] | Refusal:
    """The other gangs that must be planned in the same moment, or why they cannot be yet."""
    if gang.memory.admitted or gang.held:
        return []
    found: list[Gang] = []
    for key in gang.partners:
        partner = state.gangs.get(key)
        if partner is None or partner.stage in (Stage.FORMING, Stage.INVALID, Stage.DONE):
            text = f"waits for gang {key}, which it is admitted together with"
            return Refusal(Reason.PARTNER, text, state.gains)
        if partner.stage is Stage.QUEUED and _has_waiting(partner):
            found.append(partner)
    return found


def _plan_together(state: State, gangs: Sequence[Gang]) -> list[Plan] | Refusal:
    """Plans for all of these gangs side by side, or why there are none.

    One after the other in some rotations of their order, then without the members that none of
    them needs to start; that may miss a joint fit that only a simultaneous choice would find, never
    the other way round. One that can never start at all is what is told, whichever was tried
    first: else it hung on what is free just now.
    """
    outcome: list[Plan] | Refusal = Refusal(Reason.NO_ROOM, "no room", state.gains)
    shifts = range(min(len(gangs), _ROTATIONS))
    more = len(gangs) > 1 and any(planning.has_more_than_needed(gang) for gang in gangs)
    for least, shift in product((False, True) if more else (False,), shifts):
        rotated = [*gangs[shift:], *gangs[:shift]]
        outcome = plan_in_turn(state, rotated, least=least)
        if not isinstance(outcome, Refusal):
            by_key = {gang.key: found for gang, found in zip(rotated, outcome, strict=True)}
            return [by_key[gang.key] for gang in gangs]
        if outcome.reason is Reason.NEVER:
            break
    return outcome


def _is_still_short(state: State, gangs: Sequence[Gang]) -> bool:
    """Whether partners were refused for want of room, and less than they need in all is free now.

    Many partners cost as many plans, each time room comes free: an exclusive JobSet of 64 Jobs half
    a second. O(members).
    """
    refusals = [gang.memory.refusal for gang in gangs]
    if any(item is None or item.reason is not Reason.NO_ROOM for item in refusals):
        return False
    if any(rooming.takeable(state, gang) for gang in gangs):
        return False
    wanted = Counter[str]()
    for gang in gangs:
        wanted.update(planning.least_wanted(state, gang))
    frame = state.ledger.frame()
    free = {name: int(frame.free[:, at].sum()) for name, at in frame.column.items()}
    return any(amount > free.get(name, 0) for name, amount in wanted.items())


def plan_in_turn(
    state: State, gangs: Sequence[Gang], *, least: bool = False
) -> list[Plan] | Refusal:
    """Plans for these gangs one after the other, each in the room that those before it leave.

    ``least``: no more members of each than it needs.
    """
    plans: list[Plan] = []
    tentative: list[str] = []
    outcome: list[Plan] | Refusal = plans
    for gang in gangs:
        found = planning.attempt(state, gang, alone=len(gangs) == 1, least=least)
        if isinstance(found, Refusal):
            outcome = found
            break
        plans.append(found)
        if len(gangs) > 1:
            tentative += _claim(state, found)
    for key in tentative:
        state.ledger.drop(key)
    state.tentative.clear()
    return outcome


def _claim(state: State, found: Plan) -> list[str]:
    """Book a plan's room until the other plans are made, and have its members keep off others."""
    pairs = zip(found.pods, found.nodes, strict=False)
    state.tentative.update((pod.uid, node) for pod, node in pairs)
    keys = []
    for pod, node in zip((*found.pods, *found.ghosts), found.nodes, strict=True):
        key = indexing.TENTATIVE + pod.uid
        state.ledger.put(key, node, pod.requests, pod.constraints.ports)
        keys.append(key)
    return keys
