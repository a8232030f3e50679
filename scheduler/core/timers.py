"""What time alone does: what is due at a Tick, and when the next one is wanted."""

from __future__ import annotations

from scheduler.core import backfill, booking, health, starting
from scheduler.core.gang import Gang, Reason, Seat, Stage
from scheduler.core.state import State, Turn
from scheduler.model import GangKey

_WORLD = GangKey("", "")
"""No gang: the timer of what belongs to none."""


def tick(turn: Turn) -> None:
    """Carry out what is due."""
    booking.end_doubts(turn)
    booking.clear_stale(turn)
    health.forgive(turn)
    _evict_lost(turn)
    for key in turn.state.pop_due(turn.now):
        gang = turn.state.gangs.get(key)
        if gang is not None:
            _tick_gang(turn, gang)


def _tick_gang(turn: Turn, gang: Gang) -> None:
    turn.touch(gang.key)
    if gang.reserved and gang.deadline <= turn.now:
        starting.expire(turn, gang)
    starting.retry_due(turn, gang)
    memory = gang.memory
    if memory.refusal and memory.refusal.reason is Reason.BACKOFF:
        memory.refusal = None if memory.backoff_until <= turn.now else memory.refusal
    memory.lost = _still_kept(turn, memory.lost)
    memory.ahead = _still_kept(turn, memory.ahead)


def _still_kept(turn: Turn, seats: list[Seat]) -> list[Seat]:
    for seat in seats:
        if seat.until <= turn.now:
            turn.state.gain_on(seat.node)
    return [seat for seat in seats if seat.until > turn.now]


def _evict_lost(turn: Turn) -> None:
    state = turn.state
    for name in [name for name, due in state.lost_nodes.items() if due <= turn.now]:
        del state.lost_nodes[name]
        for uid in sorted(state.ledger.claims(name)):
            pod = state.pods.get(uid)
            if pod is not None and pod.node == name and state.gang_of.get(uid) and not pod.deleting:
                starting.evict(turn, pod, f"node {name} is gone")


# ── the next Tick ──


def set_due(state: State, gang: Gang) -> None:
    """Want a Tick when anything of a gang is due next."""
    memory = gang.memory
    # Seats stand in the order in which they end.
    times = [seats[0].until for seats in (memory.lost, memory.ahead) if seats]
    if gang.retries:
        times.append(min(gang.retries.values()))
    if gang.reserved:
        times.append(gang.deadline)
    if memory.backoff_until > state.now:
        times.append(memory.backoff_until)
    times += backfill.due_at(state, gang)
    times += _next_relaxation(gang, len(state.topology().levels))
    state.schedule(gang.key, min(times, default=None))


def _next_relaxation(gang: Gang, levels: int) -> list[float]:
    after = gang.life.options.relax_after if gang.life else None
    if not after or gang.stage not in (Stage.QUEUED, Stage.BROKEN) or gang.memory.relaxed > levels:
        return []
    return [gang.memory.waiting_since + (gang.memory.relaxed + 1) * after]


def set_due_of_world(state: State) -> None:
    """Want a Tick for what belongs to no gang."""
    if not (
        state.doubts
        or state.lost_nodes
        or state.strikes
        or state.gated
        or state.stale
        or state.ending
    ):
        state.schedule(_WORLD, None)
        return
    times = [doubt.until for nodes in state.doubts.values() for doubt in nodes.values()]
    times += state.lost_nodes.values()
    times += state.gated.values()
    times += state.stale.values()
    times += [state.ending_until] if state.ending else []
    times += [until for strikes in state.strikes.values() for until in strikes]
    state.schedule(_WORLD, min(times, default=None))
