"""Events come after what matters more, and what people have to know comes first."""

from __future__ import annotations

from threading import Thread

import pytest

from cluster.fake_apiserver import FakeApi
from scheduler.cluster import Transport, events
from scheduler.cluster.events import ROUTINE_AT_ONCE, ROUTINE_PER_S, EventWriter, Note
from scheduler.model import PodRef
from scheduler.service import Metrics

EVENTS = r"/apis/events.k8s.io/v1/namespaces/t/events"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def note(name: str, *, routine: bool = False) -> Note:
    ref = PodRef("t", name, f"uid-{name}")
    return Note(ref, "Scheduled" if routine else "GangWaiting", "Binding", "text", routine=routine)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def writer(transport: Transport, metrics: Metrics, clock: Clock) -> EventWriter:
    return EventWriter(transport, metrics, clock)


def dropped(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("muster_events_dropped_total") or 0.0


def names(writer: EventWriter, count: int) -> list[str]:
    return [found.ref.name for _ in range(count) if (found := writer.take()) is not None]


def test_what_people_have_to_know_overtakes_what_is_routine(writer: EventWriter) -> None:
    for at in range(3):
        writer.put(note(f"bound-{at}", routine=True))
    writer.put(note("waits"))
    assert names(writer, 4) == ["waits", "bound-0", "bound-1", "bound-2"]


def test_routine_is_paced_and_loses_nothing(writer: EventWriter, clock: Clock) -> None:
    total = ROUTINE_AT_ONCE + 5
    for at in range(total):
        writer.put(note(f"bound-{at}", routine=True))
    assert len(names(writer, ROUTINE_AT_ONCE)) == ROUTINE_AT_ONCE
    for at in range(ROUTINE_AT_ONCE, total):
        assert writer._pause() == pytest.approx(1 / ROUTINE_PER_S, rel=0.1)
        clock.now += 1 / ROUTINE_PER_S
        assert names(writer, 1) == [f"bound-{at}"]


def test_what_is_urgent_does_not_wait_for_the_pace(writer: EventWriter) -> None:
    for at in range(ROUTINE_AT_ONCE + 1):
        writer.put(note(f"bound-{at}", routine=True))
    names(writer, ROUTINE_AT_ONCE)
    got: list[str] = []
    thread = Thread(target=lambda: got.extend(names(writer, 1)))
    thread.start()
    writer.put(note("waits"))
    thread.join(10)
    assert got == ["waits"]


def test_stopping_ends_the_pace(writer: EventWriter, metrics: Metrics) -> None:
    total = 3 * ROUTINE_AT_ONCE
    for at in range(total):
        writer.put(note(f"bound-{at}", routine=True))
    writer.stop(drop=False)
    assert len(names(writer, total)) == total
    assert writer.take() is None
    writer.put(note("late"))
    assert dropped(metrics) == 1


def test_too_many_are_dropped_and_counted(
    writer: EventWriter, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LIMIT", 3)
    for at in range(5):
        writer.put(note(f"bound-{at}", routine=at % 2 == 0))
    assert dropped(metrics) == 2
    writer.stop(drop=True)
    assert dropped(metrics) == 5


def test_one_too_many_for_the_api_server_is_sent_again(
    writer: EventWriter, api: FakeApi, metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_PAUSE_S", 0.01)
    api.fail("POST", EVENTS, 429, times=2, headers={"Retry-After": "1"})
    writer.write(note("waits"))
    assert [event["regarding"]["name"] for event in api.events] == ["waits"]
    api.fail("POST", EVENTS, 429, times=3, headers={"Retry-After": "1"})
    writer.write(note("waits"))
    assert len(api.events) == 1
    assert dropped(metrics) == 1
