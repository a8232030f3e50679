"""Effects reach the cluster only from the replica that leads."""

from __future__ import annotations

import pytest

from scheduler.core.messages import Cancel, EffectDone, Event, Outcome, Record
from scheduler.model import GangKey
from scheduler.service import Fence
from service.scripted import RecordingActuator, bind_effect

NOTE = Record(7, GangKey("t", "a"), (), "GangWaiting", "no room")


class Fenced:
    """A fence, what is behind it, and what it reports."""

    def __init__(self) -> None:
        self.leads = True
        self.actuator = RecordingActuator()
        self.heard: list[Event] = []
        self.fence = Fence(self.actuator, lambda: self.leads)
        self.fence.start(self.heard.append)


@pytest.fixture
def fenced() -> Fenced:
    return Fenced()


def test_a_leaders_effects_pass_and_their_outcomes_come_back(fenced: Fenced) -> None:
    fenced.fence.submit([bind_effect(1, "a-0", "n1"), NOTE])
    fenced.actuator.post(EffectDone(1, Outcome.OK))

    assert fenced.actuator.submitted == [bind_effect(1, "a-0", "n1"), NOTE]
    assert fenced.heard == [EffectDone(1, Outcome.OK)]


def test_what_a_standby_decides_is_cancelled_and_nobody_is_told_of_it(fenced: Fenced) -> None:
    fenced.leads = False
    fenced.fence.submit([bind_effect(1, "a-0", "n1"), NOTE])

    assert fenced.actuator.submitted == []
    ends = [(done.id, done.outcome) for done in fenced.heard if isinstance(done, EffectDone)]
    assert ends == [(1, Outcome.CANCELLED)]


def test_what_was_passed_on_is_withdrawn_but_not_what_has_ended(fenced: Fenced) -> None:
    fenced.fence.submit([bind_effect(1, "a-0", "n1"), bind_effect(2, "a-1", "n1"), NOTE])
    fenced.actuator.post(EffectDone(1, Outcome.OK))
    fenced.leads = False
    fenced.fence.withdraw()

    assert fenced.actuator.submitted[3:] == [Cancel(0, 2)]
    assert not fenced.fence.wait_idle(0.0)
    fenced.actuator.post(EffectDone(2, Outcome.CANCELLED))
    assert fenced.fence.wait_idle(0.0)


def test_an_actuator_may_report_while_it_is_given_the_effect(fenced: Fenced) -> None:
    fenced.actuator.react = lambda effect: fenced.actuator.post(EffectDone(effect.id, Outcome.OK))
    fenced.fence.submit([bind_effect(1, "a-0", "n1")])

    assert fenced.heard == [EffectDone(1, Outcome.OK)]
    assert fenced.fence.wait_idle(0.0)
