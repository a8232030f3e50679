"""In which order gangs are planned."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from scheduler import decode
from scheduler.core import backfill, engine
from scheduler.core.gang import Gang, Life, Reason, Stage
from scheduler.core.messages import (
    EffectDone,
    Event,
    NodeSeen,
    Outcome,
    PodSeen,
    Record,
    Synced,
    Tick,
)
from scheduler.core.queue import order
from scheduler.model import GangKey, Options
from scheduler.settings import Settings
from tests import builders


def waiting(
    name: str, *, priority: int = 0, complete: int | None = 1, broken: bool = False
) -> Gang:
    gang = Gang(GangKey("t", name))
    gang.priorities[priority] = 1
    gang.memory.complete = complete
    stage = Stage.BROKEN if broken else Stage.QUEUED
    gang.life = Life(stage, Reason.NONE, "", 1, 1, Options())
    return gang


def test_priority_then_broken_then_completion_then_name() -> None:
    wanted = [
        waiting("urgent", priority=10, complete=9),
        waiting("broken", complete=8, broken=True),
        waiting("first", complete=1),
        waiting("a-twin", complete=2),
        waiting("b-twin", complete=2),
        waiting("incomplete", complete=None),
        waiting("humble", priority=-5, complete=0, broken=True),
    ]

    for mixed in permutations(wanted):
        assert [gang.key.name for gang in order(mixed)] == [gang.key.name for gang in wanted]


def test_a_gang_is_as_urgent_as_its_most_urgent_member() -> None:
    gang = waiting("A", priority=0)
    gang.priorities[7] = 1

    assert order([waiting("B", priority=5), gang])[0] is gang


def test_what_concerns_no_gang_that_waits_does_not_go_through_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a thousand gangs in it, each event of a running pod would cost a millisecond."""
    state = engine.new_state(Settings(backfill_wait_s=60))

    def tell(event: Event, now: float) -> None:
        for effect in engine.step(state, event, now).effects:
            if not isinstance(effect, Record):
                engine.step(state, EffectDone(effect.id, Outcome.OK), now)

    tell(NodeSeen(decode.node(builders.node("n1", gpu=8))), 0.0)
    tell(NodeSeen(decode.node(builders.node("n2", gpu=8))), 0.0)
    tell(Synced(), 0.0)
    tell(PodSeen(decode.pod(builders.pod("t/runs", gpu=8))), 0.0)
    for index in range(2):
        tell(PodSeen(decode.pod(builders.pod(f"t/w-{index}", gang="w", min=2, gpu=8))), 0.0)
    tell(Tick(), 61.0)
    assert state.kept is not None

    def looked(*_: object) -> None:
        raise AssertionError("the queue was gone through")

    monkeypatch.setattr(backfill, "update", looked)
    running = next(pod for pod in state.pods.values() if pod.name == "runs")
    tell(PodSeen(replace(running, labels={"changed": "yes"})), 62.0)
    tell(PodSeen(decode.pod(builders.pod("t/plain", scheduler="other"))), 62.0)
    tell(PodSeen(decode.pod(builders.pod("t/forms-0", gang="forms", min=3, gpu=1))), 62.0)
    tell(Tick(), 62.0)
