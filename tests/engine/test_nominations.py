"""What Muster has nominated and nobody else takes back."""

from __future__ import annotations

import pytest

from scheduler import decode
from scheduler.core import engine
from scheduler.core.messages import (
    ClearNomination,
    Effect,
    EffectDone,
    NodeSeen,
    Outcome,
    PodSeen,
    Synced,
    Tick,
)
from scheduler.model import Start
from scheduler.settings import Settings
from tests.builders import node, pod

SETTINGS = Settings(start=Start.NOMINATE, timeout_s=30, backoff_s=600, retry_max_s=8)


def clears(effects: list[Effect]) -> list[ClearNomination]:
    return [effect for effect in effects if isinstance(effect, ClearNomination)]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_nomination_is_taken_back_until_that_is_done(outcome: Outcome) -> None:
    """Cancelled is what a write ends with while it is not sure who leads."""
    state = engine.new_state(SETTINGS)
    engine.step(state, Synced(), 0.0)
    engine.step(state, NodeSeen(decode.node(node("n1", gpu=8))), 0.0)
    engine.step(state, PodSeen(decode.pod(pod("t/a-0", gpu=1, gang="a", min=1))), 0.0)
    (first,) = clears(engine.step(state, Tick(), 31.0).effects)

    engine.step(state, EffectDone(first.id, outcome), 31.0)
    again = clears(engine.step(state, Tick(), 40.0).effects)

    assert len(again) == (outcome not in (Outcome.OK, Outcome.GONE))
