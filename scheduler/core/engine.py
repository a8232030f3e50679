"""The engine: one pure state machine. ``step`` is the only way in and out."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core import answers, charting, life, outcomes, roster, timers
from scheduler.core.messages import (
    BindCall,
    ChartGone,
    ChartSeen,
    Effect,
    EffectDone,
    Event,
    Filter,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Preempt,
    Prioritize,
    Reply,
    Synced,
    Tick,
)
from scheduler.core.state import State, Turn
from scheduler.settings import Settings

__all__ = ["State", "Step", "knows", "new_state", "step"]


@dataclass(frozen=True, slots=True)
class Step:
    """What one event led to."""

    reply: Reply | None
    """The answer to a call. A BindReply may also come with an EffectDone; its uid says whose."""
    effects: tuple[Effect, ...]
    """To be carried out in this order; each but Record and Cancel ends in one EffectDone."""
    next_due: float | None
    """When the next Tick is wanted, in the same seconds as ``now``; None = not at all."""


def new_state(settings: Settings) -> State:
    """An engine that has seen nothing yet."""
    return State(settings)


def knows(state: State, uid: str) -> bool:
    """Whether a pod was seen, so that a call about it need not carry it."""
    return uid in state.pods


def step(state: State, event: Event, now: float) -> Step:
    """Take one event at ``now`` (seconds on any clock that never goes back).

    Changes ``state`` and nothing else. The same events at the same times give the same steps.
    """
    state.now = now
    turn = Turn(state, now)
    if not _world(turn, event):
        _call(turn, event)
    life.settle(turn)
    return Step(turn.reply, tuple(turn.effects), state.next_due())


def _world(turn: Turn, event: Event) -> bool:
    """Take what the watch shows; False if the event is none of that."""
    match event:
        case NodeSeen():
            roster.node_seen(turn, event.node)
        case NodeGone():
            roster.node_gone(turn, event.name)
        case PodSeen():
            roster.pod_seen(turn, event.pod)
        case PodGone():
            roster.pod_gone(turn, event.uid)
        case GroupSeen():
            roster.group_seen(turn, event.group)
        case GroupGone():
            roster.group_gone(turn, event.key)
        case ChartSeen():
            charting.chart_seen(turn, event.chart)
        case ChartGone():
            charting.chart_gone(turn, event.key)
        case _:
            return False
    return True


def _call(turn: Turn, event: Event) -> None:
    """Answer the scheduler, or take an outcome or the time."""
    turn.looks_up = isinstance(event, Filter | Prioritize | Preempt)
    match event:
        case Filter():
            turn.reply = answers.on_filter(turn, event)
        case Prioritize():
            turn.reply = answers.on_prioritize(turn, event)
        case BindCall():
            turn.reply = answers.on_bind(turn, event)
        case Preempt():
            turn.reply = answers.on_preempt(turn, event)
        case EffectDone():
            outcomes.effect_done(turn, event)
        case Tick():
            timers.tick(turn)
        case Synced():
            life.synced(turn)
