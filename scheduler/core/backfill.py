"""Keeping room for a gang that has waited long, so that small ones cannot starve it.

Later gangs may pass one that does not fit. Once the first in the queue has waited
``backfill_wait_s``, nodes are kept for it where it will fit first; gangs behind it use them only
if they state a ``max-runtime`` that ends in time. Only one gang has nodes kept at a time: each
more would idle more of the cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.core import planning
from scheduler.core.booking import given_up
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.effort import shared_domains
from scheduler.core.gang import Gang, Reason, Stage, Status
from scheduler.core.kinds import kind_of
from scheduler.core.planning import required_level, waiting_pods
from scheduler.core.rooming import fits_of, open_room
from scheduler.core.state import Kept, State, Turn
from scheduler.model import Pod

Floats = npt.NDArray[np.float64]

_SHORTEST_S = 60.0
"""Seconds of the first try and pause together, if ``backfill_wait_s`` is less."""
_LATE_S = 60.0
"""Seconds that what runs on kept nodes may take longer than it has said."""
_TRIALS = 4
"""Places that are tried out for the one gang; each costs up to two plans."""


def update(turn: Turn) -> None:
    """Keep nodes for the first in the queue whose time it is and for whom any can be kept.

    Those whose time it is in vain are passed over: what they are refused for may change with the
    nodes that are kept, and who has them must not. O(gangs up to the one for which they are kept).
    """
    state = turn.state
    if state.kept is not None and not _is_wanted(state, state.kept):
        _release(turn)
    in_vain: set[Hashable] = set()
    pauses = False
    for gang in map(state.gangs.__getitem__, state.wanting):
        if not _waits(state, gang):
            continue
        time = _time_of(state, gang)
        may = time.now and not (pauses and time.ends)
        if state.kept is not None and state.kept.gang == gang.key:
            if may or state.now < _promised_until(state, gang):
                return
            _release(turn)
        found = _choose(state, gang, in_vain) if may else None
        if found is not None:
            _release(turn)
            state.kept = found
            gang.memory.tried_at = time.begin
            return
        pauses = pauses or (not time.now and gang.memory.tried_at == time.begin)


def give_up(turn: Turn) -> None:
    """Open the kept nodes, or keep others, if their gang turned out not to be the first."""
    if turn.state.kept is not None:
        update(turn)


def leave(turn: Turn, gang: Gang) -> None:
    """The gang does not queue any more: its nodes are open, or another one may have a try."""
    if turn.state.kept is not None and turn.state.kept.gang == gang.key:
        _release(turn)
    elif gang.memory.tried_at is not None:
        turn.state.gains += 1
    gang.memory.tried_at = None


def look_ahead(state: State, gang: Gang) -> None:
    """The gang was judged anew: when will it have ended, and may nodes be kept for it now?"""
    runtime = gang.life.options.max_runtime if gang.life else None
    started = gang.memory.started_at
    ends_at = math.inf if runtime is None or started is None else started + runtime
    if gang.ends_at != ends_at:
        gang.ends_at = ends_at
        state.outlook += 1
    gang.kept_in_vain = None


def due_at(state: State, gang: Gang) -> list[float]:
    """When it changes next whether nodes are kept for the gang, as far as time decides."""
    refusal = gang.memory.refusal
    if gang.key not in state.wanting or gang.stage is not Stage.QUEUED:
        return []
    if refusal is None or refusal.reason is not Reason.NO_ROOM:
        return []
    first = gang.memory.waiting_since + state.settings.backfill_wait_s
    if state.now < first:
        return [first]
    times = (_time_of(state, gang).until, _promised_until(state, gang))
    later = [at for at in times if state.now < at < math.inf]
    return [min(later)] if later else []


def _waits(state: State, gang: Gang) -> bool:
    """Whether the gang has waited ``backfill_wait_s`` for room."""
    refusal = gang.memory.refusal
    if gang.stage is not Stage.QUEUED or (refusal and refusal.reason is not Reason.NO_ROOM):
        return False
    return state.now >= gang.memory.waiting_since + state.settings.backfill_wait_s


# ── when, and for how long ──


class _Time(NamedTuple):
    """Whether nodes may be kept for a gang now."""

    now: bool
    begin: float
    """When its present try began, or the one before the present pause."""
    until: float
    """When try or pause ends; infinity: never."""

    @property
    def ends(self) -> bool:
        """Whether the gang is so large that it has tries and pauses."""
        return self.until < math.inf


def _time_of(state: State, gang: Gang) -> _Time:
    """Whether nodes may be kept for a gang that has waited ``backfill_wait_s``.

    For a small one they are from then on. A larger one has a try, of a length that its share
    allows, then a pause, then each twice as long: what is idled in vain stays a part of what was
    waited, and the tries become as long as it takes. While one that was tried pauses, no other
    large one that queues behind it has a try.
    """
    begin = gang.memory.waiting_since + state.settings.backfill_wait_s
    allowed = state.settings.backfill_share / _share_of(state, gang)
    if allowed >= 1:
        return _Time(True, begin, math.inf)
    period = max(state.settings.backfill_wait_s, _SHORTEST_S)
    while begin + period <= state.now:
        begin, period = begin + period, 2 * period
    pause = begin + allowed * period
    return _Time(True, begin, pause) if state.now < pause else _Time(False, begin, begin + period)


def _promised_until(state: State, gang: Gang) -> float:
    """Until when the kept nodes are waited for in any case; minus infinity if they are not.

    All that runs there says when it ends, and others use the time: little stands idle.
    """
    kept = state.kept
    if kept is None or kept.gang != gang.key or kept.until is None:
        return -math.inf
    return kept.until + _LATE_S


def _share_of(state: State, gang: Gang) -> float:
    """The gang's share of the cluster, as it was when first asked for.

    A node that goes while others empty for the gang must not end its try.
    """
    memory = gang.memory
    asked = memory.waiting_since, gang.count(Status.WAITING)
    if memory.share is None or memory.share[0] != asked:
        memory.share = asked, _share(state, gang)
    return memory.share[1]


def _share(state: State, gang: Gang) -> float:
    """The share of the seats for such members on all nodes that may take them, whatever runs.

    Of all that are not bound: those that were given seats within the step count as waiting still.
    """
    pods = [state.pods[uid] for uid in gang.by_status[Status.WAITING]]
    seats, _ = _seats(state, state.ledger.frame(), pods)
    return min(1.0, len(pods) / max(1, int(seats.sum())))


def _release(turn: Turn) -> None:
    if turn.state.kept is not None:
        turn.state.kept = None
        turn.state.gains += 1


def _is_wanted(state: State, kept: Kept) -> bool:
    """Whether the gang still waits for its nodes, and they are good."""
    if kept.gang not in state.wanting or not _waits(state, state.gangs[kept.gang]):
        return False
    nodes = (state.node(name) for name in kept.nodes)
    return all(node is not None and node.ready and not node.unschedulable for node in nodes)


# ── where it will fit first ──


@dataclass(frozen=True, slots=True, order=True)
class _Prospect:
    """Nodes that may do, when they will be free, and how many accelerators must be freed."""

    free_at: float
    busy: int
    rows: tuple[int, ...]
    area: Bools = field(compare=False)
    """The nodes among which these were chosen."""


def _choose(state: State, gang: Gang, in_vain: set[Hashable]) -> Kept | None:
    """The nodes of the domain that will have room for all of the gang first.

    By the end of what runs there, as far as that is stated, then by the fewest accelerators that
    must still come free. None where it would not fit on the empty nodes either, as one of
    ``in_vain`` asked for the same, or as the gang itself when the world was the same.
    O(nodes log nodes), and a few plans.
    """
    world = _world(state)
    if gang.kept_in_vain == world:
        return None
    pods = waiting_pods(state, gang)
    if not pods or not _together_fit(state, gang):
        return None
    asked = planning.question(state, gang)
    found = None if asked is not None and asked in in_vain else _first(state, gang, pods)
    if found is None:
        in_vain.add(asked)
        gang.kept_in_vain = world
    return found


def _world(state: State) -> Hashable:
    """All but the gang itself that decides whether any nodes can be kept for it.

    Those that are kept for others do not: nobody behind these is looked at.
    """
    return state.ledger.changes, state.gains, state.outlook, tuple(given_up(state))


def _first(state: State, gang: Gang, pods: Sequence[Pod]) -> Kept | None:
    frame = state.ledger.frame()
    seats, busy = _seats(state, frame, pods)
    level = required_level(state, gang)
    areas = _areas(shared_domains(state, gang, level), len(frame.names))
    areas = [rows for rows in areas if int(seats[rows].sum()) >= len(pods)]
    if not areas:
        return None
    pairs = zip(frame.names, busy.tolist(), strict=True)
    ends = np.array([_free_at(state, name) if used else 0.0 for name, used in pairs])
    prospects = [_first_rows(rows, seats, busy, ends, len(pods)) for rows in areas]
    for found in sorted(prospects)[:_TRIALS]:
        if rows := _would_do(state, gang, pods, found, seats > 0):
            until = None if math.isinf(found.free_at) else found.free_at
            return Kept(gang.key, frozenset(frame.names[row] for row in rows), until)
    return None


def _together_fit(state: State, gang: Gang) -> bool:
    """Whether the gang and its partners ask for no more than all nodes have, whatever runs."""
    frame = state.ledger.frame()
    partners = (state.gangs[key] for key in gang.partners if key in state.gangs)
    wanted = Counter[str]()
    for member in (gang, *partners):
        for pod in waiting_pods(state, member):
            wanted.update(pod.requests)
    return all(
        name in frame.column and amount <= int(frame.allocatable[:, frame.column[name]].sum())
        for name, amount in wanted.items()
        if amount and state.is_accelerator(name)
    )


def _would_do(
    state: State, gang: Gang, pods: Sequence[Pod], found: _Prospect, usable: Bools
) -> Sequence[int]:
    """Rows of the prospect's area that hold the gang once they are empty; none if nothing would.

    Amounts are not all: segments, NVLink domains and anti-affinity may ask for other nodes than
    those that are free soonest, or for nodes that do not exist.
    """
    soonest = np.zeros_like(usable)
    soonest[list(found.rows)] = True
    if planning.place_on_empty(state, gang, pods, soonest):
        return found.rows
    plan = planning.place_on_empty(state, gang, pods, usable & found.area)
    row = state.ledger.frame().row
    return [row[node] for node in plan.nodes] if plan else ()


def _seats(state: State, frame: Frame, pods: Sequence[Pod]) -> tuple[Ints, Ints]:
    """Per row: members that the empty node would hold, and accelerators in use there.

    All members count as the one that asks for most accelerators.
    """
    kind = kind_of(max(pods, key=state.accelerators))
    seats = fits_of(state, kind, replace(open_room(state), free=frame.allocatable))
    total = frame.total(frame.allocatable, state.is_accelerator)
    return seats, total - frame.total(frame.free, state.is_accelerator)


def _free_at(state: State, node: str) -> float:
    """When all that runs on the node will have ended; infinity if any does not say."""
    gangs = [state.gang_with(uid) for uid in state.ledger.claims(node)]
    return max((math.inf if gang is None else gang.ends_at for gang in gangs), default=0.0)


def _areas(shared: list[Ints], rows: int) -> list[Bools]:
    if not shared:
        return [np.ones(rows, dtype=np.bool_)]
    ids = shared[-1]
    return [np.asarray(ids == domain) for domain in range(int(ids.max(initial=-1)) + 1)]


def _first_rows(area: Bools, seats: Ints, busy: Ints, ends: Floats, count: int) -> _Prospect:
    """The rows of an area that are free soonest and hold all members together; it has as many."""
    rows = np.flatnonzero(area & (seats > 0))
    rows = rows[np.lexsort((rows, busy[rows], ends[rows]))]
    enough = np.flatnonzero(np.cumsum(seats[rows]) >= count)
    chosen = rows[: int(enough[0]) + 1]
    ended, freed = float(ends[chosen].max()), int(busy[chosen].sum())
    return _Prospect(ended, freed, tuple(chosen.tolist()), area)
