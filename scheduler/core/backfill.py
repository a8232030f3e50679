"""Keeping room for a gang that has waited long, so that small ones cannot starve it.

Later gangs may pass one that does not fit. Once the first in the queue has waited
``backfill_wait_s``, nodes are kept for it where it will fit first; gangs behind it use them only
if they state a ``max-runtime`` that ends in time. Only one gang has nodes kept at a time: each
more would idle more of the cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.effort import shared_domains
from scheduler.core.gang import Gang, Reason, Stage
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.planning import required_level, waiting_pods
from scheduler.core.queue import place_of
from scheduler.core.rooming import open_room, usable_rows
from scheduler.core.state import Kept, State, Turn
from scheduler.model import GangKey

Floats = npt.NDArray[np.float64]


def update(turn: Turn) -> None:
    """Choose anew for whom nodes are kept, if the one who has them is served or another is due."""
    state = turn.state
    head = _head(state)
    if head is None:
        _release(turn)
    elif state.kept is None or state.kept.gang != head.key or not _still_good(state, state.kept):
        _release(turn)
        state.kept = _choose(state, head)


def give_up(turn: Turn) -> None:
    """Open the kept nodes if their gang turned out not to be the one to keep any for."""
    kept = turn.state.kept
    if kept is not None and ((head := _head(turn.state)) is None or head.key != kept.gang):
        _release(turn)


def due_at(state: State, gang: Gang) -> list[float]:
    """When the gang's wait becomes long enough, if it has not yet."""
    refusal = gang.memory.refusal
    if gang.stage is not Stage.QUEUED or refusal is None or refusal.reason is not Reason.NO_ROOM:
        return []
    due = gang.memory.waiting_since + state.settings.backfill_wait_s
    return [due] if due > state.now else []


def _head(state: State) -> Gang | None:
    waiting = (state.gangs[key] for key in state.wanting)
    return min((gang for gang in waiting if _is_due(state, gang)), key=place_of, default=None)


def _is_due(state: State, gang: Gang) -> bool:
    refusal = gang.memory.refusal
    if gang.stage is not Stage.QUEUED or (refusal and refusal.reason is not Reason.NO_ROOM):
        return False
    return state.now - gang.memory.waiting_since >= state.settings.backfill_wait_s


def _release(turn: Turn) -> None:
    if turn.state.kept is not None:
        turn.state.kept = None
        turn.state.gains += 1


def _still_good(state: State, kept: Kept) -> bool:
    nodes = [state.node(name) for name in kept.nodes]
    return all(node is not None and node.ready and not node.unschedulable for node in nodes)


# ── where it will fit first ──


@dataclass(frozen=True, slots=True)
class _Prospect:
    """Nodes that would do, when they will be free, and how many accelerators must be freed."""

    free_at: float
    busy: int
    rows: tuple[int, ...]


def _choose(state: State, gang: Gang) -> Kept | None:
    """The nodes of the domain that will have room for all of the gang first.

    By the end of what runs there, as far as that is stated, then by the fewest accelerators that
    must still come free. O(nodes log nodes).
    """
    pods = waiting_pods(state, gang)
    if not pods:
        return None
    largest = max(pods, key=state.accelerators)
    kind = kind_of(largest)
    frame = state.ledger.frame()
    seats, busy = _seats(state, frame, kind)
    pairs = zip(frame.names, busy.tolist(), strict=True)
    ends = np.array([_free_at(state, name) if used else 0.0 for name, used in pairs])
    level = required_level(state, gang)
    prospects = [
        found
        for rows in _areas(shared_domains(state, gang, level), len(frame.names))
        if (found := _first_rows(rows, seats, busy, ends, len(pods))) is not None
    ]
    if not prospects:
        return None
    best = min(prospects, key=lambda item: (item.free_at, item.busy, item.rows))
    until = None if math.isinf(best.free_at) else best.free_at
    return Kept(gang.key, frozenset(frame.names[row] for row in best.rows), until)


def _seats(state: State, frame: Frame, kind: Kind) -> tuple[Ints, Ints]:
    """Per row: members that the empty node would hold, and accelerators in use there."""
    at = frame.columns(kind.resources)
    if at is None:
        nothing = np.zeros(len(frame.names), dtype=np.int64)
        return nothing, nothing
    columns, amounts = at
    usable = usable_rows(state, kind, open_room(state))
    fits = (frame.allocatable[:, columns] // amounts).min(axis=1)
    seats = np.where(usable, np.minimum(fits, 1) if kind.one_a_node else fits, 0)
    total = frame.total(frame.allocatable, state.is_accelerator)
    return seats, total - frame.total(frame.free, state.is_accelerator)


def _free_at(state: State, node: str) -> float:
    """When all that runs on the node will have ended; infinity if any does not say."""
    ends = [_ends_at(state, state.gang_of.get(uid)) for uid in state.ledger.claims(node)]
    return max(ends, default=0.0)


def _ends_at(state: State, key: GangKey | None) -> float:
    gang = state.gangs.get(key) if key is not None else None
    runtime = gang.life.options.max_runtime if gang is not None and gang.life else None
    started = gang.memory.started_at if gang is not None else None
    return math.inf if runtime is None or started is None else started + runtime


def _areas(shared: list[Ints], rows: int) -> list[Bools]:
    if not shared:
        return [np.ones(rows, dtype=np.bool_)]
    ids = shared[-1]
    return [np.asarray(ids == domain) for domain in range(int(ids.max(initial=-1)) + 1)]


def _first_rows(area: Bools, seats: Ints, busy: Ints, ends: Floats, count: int) -> _Prospect | None:
    """The rows of an area that are free soonest and hold all members together."""
    rows = np.flatnonzero(area & (seats > 0))
    rows = rows[np.lexsort((rows, busy[rows], ends[rows]))]
    enough = np.flatnonzero(np.cumsum(seats[rows]) >= count)
    if not enough.size:
        return None
    chosen = rows[: int(enough[0]) + 1]
    return _Prospect(float(ends[chosen].max()), int(busy[chosen].sum()), tuple(chosen.tolist()))
