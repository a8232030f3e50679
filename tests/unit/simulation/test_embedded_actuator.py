"""Effects reach the embedded API server in order, and every outcome comes back."""

from __future__ import annotations

import pytest
from simulation_objects import live, pod, uid

from scheduler.core.messages import (
    Bind,
    Cancel,
    ClearNomination,
    Effect,
    EffectDone,
    Evict,
    Nominate,
    Outcome,
    Record,
    Wake,
)
from scheduler.model import GangKey, PodRef
from scheduler.simulation.actuator import EmbeddedActuator, WriteTimes
from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.clock import EventLoop

GANG = GangKey("t", "g")


class Desk:
    """An actuator with one connection; a write takes a second."""

    def __init__(self, connections: int = 1) -> None:
        self.loop = EventLoop()
        self.api = ApiServer(self.loop)
        self.actuator = EmbeddedActuator(self.api, self.loop, WriteTimes(connections, 1.0))
        self.done: list[tuple[int, Outcome]] = []
        self.actuator.start(self._note)
        self.api.create(pod("a"))
        self.api.create(pod("b"))

    def _note(self, event: object) -> None:
        assert isinstance(event, EffectDone)
        self.done.append((event.id, event.outcome))

    def ref(self, name: str = "a") -> PodRef:
        return PodRef("t", name, uid(self.api, name))

    def bind(self, number: int, name: str = "a", node: str = "n1") -> Bind:
        return Bind(number, self.ref(name), node, {"hint": "{}"}, GANG, f"onto {node}")

    def carry_out(self, *effects: Effect) -> list[tuple[int, Outcome]]:
        self.actuator.submit(effects)
        self.loop.run_until(self.loop.now() + 60)
        return sorted(self.done)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_binding_is_written_with_its_hint_and_told_in_an_event(desk: Desk) -> None:
    assert desk.carry_out(desk.bind(1)) == [(1, Outcome.OK)]
    assert live(desk.api)["spec"]["nodeName"] == "n1"
    assert live(desk.api)["metadata"]["annotations"] == {"hint": "{}"}
    events = list(desk.api.store.of_kind("Event"))
    assert [(event["reason"], event["message"]) for event in events] == [("Scheduled", "onto n1")]


def test_a_pod_bound_there_already_is_a_success_and_elsewhere_a_conflict(desk: Desk) -> None:
    for name in "ab":
        desk.api.bind("t", name, uid(desk.api, name), "n1", {})
    outcomes = desk.carry_out(desk.bind(1, "a", "n1"), desk.bind(2, "b", "n2"))
    assert outcomes == [(1, Outcome.OK), (2, Outcome.CONFLICT)]


def test_a_missing_another_or_a_gated_pod_is_gone(desk: Desk) -> None:
    missing = desk.bind(1, "a")
    another = Bind(2, PodRef("t", "b", "earlier"), "n1", {}, GANG, "")
    desk.api.delete(pod_key("t", "a"))
    desk.api.create(pod("c", schedulingGates=[{"name": "g"}]))
    outcomes = desk.carry_out(missing, another, desk.bind(3, "c"))
    assert outcomes == [(1, Outcome.GONE), (2, Outcome.GONE), (3, Outcome.GONE)]


def test_what_is_cancelled_before_it_is_sent_is_not_sent(desk: Desk) -> None:
    desk.actuator.submit([desk.bind(1, "a"), desk.bind(2, "b")])
    desk.loop.run_until(0.5)
    outcomes = desk.carry_out(Cancel(3, 1), Cancel(4, 2))
    assert outcomes == [(1, Outcome.OK), (2, Outcome.CANCELLED)]
    assert "nodeName" not in live(desk.api, "b")["spec"]


def test_a_late_cancel_says_nothing(desk: Desk) -> None:
    desk.carry_out(desk.bind(1))
    assert desk.carry_out(Cancel(2, 1)) == [(1, Outcome.OK)]


@pytest.mark.parametrize(("connections", "ends"), [(1, 2.0), (2, 1.0)])
def test_writes_wait_for_a_connection(connections: int, ends: float) -> None:
    desk = Desk(connections)
    ended: list[float] = []
    desk.actuator.start(lambda _: ended.append(desk.loop.now()))
    desk.carry_out(desk.bind(1, "a"), desk.bind(2, "b"))
    assert ended[-1] == ends


def test_a_binding_is_known_to_be_on_its_way(desk: Desk) -> None:
    desk.actuator.submit([desk.bind(1)])
    desk.loop.run_until(0.5)
    assert desk.actuator.binds(uid(desk.api))
    desk.loop.run_until(2)
    assert not desk.actuator.binds(uid(desk.api))


def test_nominations_come_and_go(desk: Desk) -> None:
    desk.carry_out(Nominate(1, desk.ref(), "n1"))
    assert live(desk.api)["status"]["nominatedNodeName"] == "n1"
    desk.carry_out(ClearNomination(2, desk.ref()))
    assert "nominatedNodeName" not in live(desk.api)["status"]
    outcomes = desk.carry_out(Nominate(3, PodRef("t", "a", "other"), "n1"))
    assert outcomes[-1] == (3, Outcome.GONE)


def test_a_wake_changes_the_pod_each_time(desk: Desk) -> None:
    versions = [live(desk.api)["metadata"]["resourceVersion"]]
    for number in (1, 2):
        desk.carry_out(Wake(number, desk.ref()))
        versions.append(live(desk.api)["metadata"]["resourceVersion"])
    assert len(set(versions)) == 3


def test_an_eviction_deletes_and_says_why(desk: Desk) -> None:
    desk.api.bind("t", "a", uid(desk.api), "n1", {})
    assert desk.carry_out(Evict(1, desk.ref(), "its node is lost")) == [(1, Outcome.OK)]
    assert live(desk.api)["metadata"]["deletionTimestamp"]
    assert live(desk.api)["status"]["conditions"][-1]["message"] == "its node is lost"


def test_a_record_is_an_event_on_each_pod_and_has_no_outcome(desk: Desk) -> None:
    refs = (desk.ref("a"), desk.ref("b"))
    assert desk.carry_out(Record(1, GANG, refs, "GangStarted", "whole", warning=True)) == []
    events = list(desk.api.store.of_kind("Event"))
    assert [event["involvedObject"]["name"] for event in events] == ["a", "b"]
    assert {event["type"] for event in events} == {"Warning"}


def test_stopping_cancels_what_was_not_sent(desk: Desk) -> None:
    desk.actuator.submit([desk.bind(1, "a"), desk.bind(2, "b")])
    desk.loop.run_until(0.5)
    desk.actuator.stop(1)
    desk.loop.run_until(60)
    assert sorted(desk.done) == [(1, Outcome.OK), (2, Outcome.CANCELLED)]
