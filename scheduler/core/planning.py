"""Placing a whole gang in one decision: what is asked of placement, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from scheduler.core import bottleneck, cliques, ranking
from scheduler.core.capacity import Bools
from scheduler.core.cutting import states_segments
from scheduler.core.effort import wants_cliques
from scheduler.core.gang import HELD, Gang, Reason, Refusal, Status
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.repulsion import shut_rows
from scheduler.core.rooming import Room, in_the_way, is_behind, room_of, takeable
from scheduler.core.seating import Effort, Plan, gang_size, seat
from scheduler.core.shortfall import Shortage, explain, no_cliques, unknown_level
from scheduler.core.state import State
from scheduler.model import Pod

_ASKS_KEPT = 4096
"""Different asks that are remembered; forgetting them costs one more attempt each."""


def attempt(state: State, gang: Gang, *, alone: bool = True, least: bool = False) -> Plan | Refusal:
    """Place what the gang wants placed now, or say why not.

    A fresh gang: all members, else the mandatory part whole. An admitted one: all that wait, else
    the mandatory part, else one. What is refused to a gang that is not ``alone``, because its
    partners take room, is not remembered for others. ``least``: only the mandatory part.
    """
    asked = question(state, gang) if alone else None
    known = state.refused.get(asked)
    if known is not None and known.gains == state.gains:
        return known
    pods = waiting_pods(state, gang)
    if least:
        pods = _mandatory(gang, pods, missing(gang)) or pods
    outcome = _best(state, gang, pods)
    if isinstance(outcome, Plan):
        return outcome
    reason = Reason.NEVER if outcome.never else Reason.NO_ROOM
    if asked is None:
        return Refusal(reason, outcome.text, state.gains)
    found = bottleneck.of(state, gang, outcome.pods, required_level(state, gang))
    refusal = Refusal(reason, outcome.text, state.gains, found)
    state.refused[asked] = refusal
    return refusal


def shortage(state: State, gang: Gang) -> Shortage | None:
    """Why the gang cannot be placed now, in full, for ``why``; None if it can."""
    outcome = in_full(state, gang) if waiting_pods(state, gang) else None
    return outcome if isinstance(outcome, Shortage) else None


def in_full(state: State, gang: Gang) -> Plan | Shortage:
    """The plan for the gang as it would start now, or all that is known of why there is none."""
    return _best(state, gang, waiting_pods(state, gang))


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


def missing(gang: Gang) -> int:
    """Members that must still be bound or reserved to make up min."""
    return gang.lacking(*HELD, with_reserved=True)


def has_more_than_needed(gang: Gang) -> bool:
    """Whether members wait that it need not have to start."""
    return gang.count(Status.WAITING) - len(gang.reserved) > missing(gang)


def least_wanted(state: State, gang: Gang) -> dict[str, int]:
    """Accelerators that the gang takes at least when it starts, by resource. O(members)."""
    asked: dict[str, list[int]] = {}
    waiting = [uid for uid in gang.by_status[Status.WAITING] if uid not in gang.reserved]
    for uid in waiting:
        for name, amount in state.pods[uid].requests.items():
            if amount and state.is_accelerator(name):
                asked.setdefault(name, []).append(amount)
    # Those beyond the minimum may be any: of each resource, those that ask for most of it.
    more = max(0, len(waiting) - missing(gang))
    return {name: sum(sorted(found)[: max(0, len(found) - more)]) for name, found in asked.items()}


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


def question(state: State, gang: Gang) -> Hashable | None:
    """What has the same answer for all gangs that ask it; None for one that is like no other."""
    if gang.held or gang.memory.lost or gang.reserved:
        gang.ask = None
        return None
    if gang.ask is None:
        gang.ask = _number(state, gang)
    shut = shut_rows(state, gang, state.ledger.frame())
    closed = shut.tobytes() if shut is not None and shut.any() else b""
    return gang.ask, is_behind(state, gang), closed


def _number(state: State, gang: Gang) -> int:
    """The number of what a fresh gang asks for; gangs with the same one fail together."""
    counted: dict[tuple[Kind, bool], int] = {}
    pods = waiting_pods(state, gang)
    for pod in pods:
        kind = kind_of(pod), states_segments(pod)
        counted[kind] = counted.get(kind, 0) + 1
    if len(state.asks) >= _ASKS_KEPT:
        state.asks.clear()
        state.refused.clear()
    # Of those that keep off others by labels no bottleneck is known, see `bottleneck.of`.
    own = any(pod.anti_affinity for pod in pods)
    asked: Hashable = (_shape(gang), gang.priority, tuple(counted.items()), own)
    return state.asks.setdefault(asked, state.next_ask())


def _shape(gang: Gang) -> Hashable:
    """All of a gang's options that its placement depends on."""
    if gang.life is None:
        return None
    stated = gang.life.options
    segments = stated.segment_size, stated.segment_level, stated.segment_within
    wishes = stated.communication, stated.nvlink, stated.gpu_required, stated.gpu_preferred
    level = stated.required, gang.memory.relaxed, stated.preferred, stated.relax_after is None
    return (
        gang.life.min,
        gang.life.least,
        stated.role_min,
        level,
        segments,
        wishes,
        stated.max_runtime,
    )


# ── one attempt ──


def _place(state: State, gang: Gang, pods: Sequence[Pod]) -> Plan | Shortage:
    state.plans += 1
    options = gang.life.options if gang.life else None
    for named in options.hard_levels if options else ():
        if named and state.topology().resolve(named) is None and named not in cliques.NAMES:
            return unknown_level(state, named)
    if options and wants_cliques(options) and state.cliques() is None:
        return no_cliques()
    level = required_level(state, gang)
    everyone = [*pods, *_ghosts(gang, pods)]
    outcome = seat(Effort(state, gang, level, room_of(state, gang, ())), everyone)
    if isinstance(outcome, Plan):
        return _without_ghosts(outcome, pods)
    lower = takeable(state, gang)
    if lower:
        taken = seat(Effort(state, gang, level, room_of(state, gang, lower)), everyone)
        if isinstance(taken, Plan):
            lower_gangs = in_the_way(state, lower, taken.nodes)
            return replace(_without_ghosts(taken, pods), taken=lower_gangs)
    return explain(state, gang, tuple(everyone), level, outcome)


def place_on_empty(state: State, gang: Gang, pods: Sequence[Pod], rows: Bools) -> Plan | None:
    """Where the gang would go if nothing ran on these rows, and it might use no others."""
    room = room_of(state, gang, ())
    emptied = np.where(rows[:, None], room.frame.allocatable, 0)
    level = required_level(state, gang)
    effort = Effort(state, gang, level, Room(room.frame, emptied, room.open & rows))
    outcome = seat(effort, [*pods, *_ghosts(gang, pods)])
    return outcome if isinstance(outcome, Plan) else None


def _ghosts(gang: Gang, pods: Sequence[Pod]) -> list[Pod]:
    """Stand-ins for members that are not placed now: alike to the largest that is.

    They do not exist yet, or are not among the mandatory ones; the gang needs room for them all
    the same before its first phase may start.
    """
    life = gang.life
    later = life.min - gang.held - len(gang.reserved) - len(pods) if life else 0
    if gang.memory.admitted or life is None or life.least == life.min or later <= 0:
        return []
    largest = max(pods, key=lambda pod: sorted(pod.requests.items()))
    return [
        replace(largest, name=f"{largest.name}~{number}", uid=f"{largest.uid}~{number}", index=None)
        for number in range(later)
    ]


def _without_ghosts(plan: Plan, pods: Sequence[Pod]) -> Plan:
    """The plan with members that exist first, and those that do not apart."""
    real = {pod.uid for pod in pods}
    pairs = list(zip(plan.pods, plan.nodes, strict=True))
    there = [pair for pair in pairs if pair[0].uid in real]
    later = [pair for pair in pairs if pair[0].uid not in real]
    nodes = tuple(node for _, node in there + later)
    return Plan(tuple(pod for pod, _ in there), nodes, tuple(pod for pod, _ in later))


def required_level(state: State, gang: Gang) -> int | None:
    """The level that all members must share now, after as many relaxations as the wait allows."""
    stated = gang.life.options.required if gang.life else ""
    level = state.topology().resolve(stated) if stated else None
    if level is None or gang.memory.relaxed > level:
        return None
    return level - gang.memory.relaxed
