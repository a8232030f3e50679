"""Outcomes reach the engine once, in order, and the bad ones at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread

import pytest

from scheduler.cluster.reports import Reports
from scheduler.cluster.writes import Result
from scheduler.core.messages import Bind, Effect, Outcome, Wake
from scheduler.model import GangKey, Pod, PodRef

GANG = GangKey("t", "g")
NEVER_S = 3600.0
OK, LOST = Result(Outcome.OK), Result(Outcome.ERROR, "connection lost")

Make = Callable[..., Reports]


def member(number: int, gang: GangKey = GANG) -> Bind:
    return Bind(number, PodRef("t", f"p{number}", f"uid-{number}"), "n1", {}, gang, "")


class Desk:
    """What was told, and whether a large gang is being bound."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.crowded = True
        self.heard = Event()
        self.lock = Lock()

    def tell(self, effect: Effect, _: Result) -> None:
        with self.lock:
            self.told.append(effect.id)  # type: ignore[union-attr]
        self.heard.set()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def reports(desk: Desk) -> Iterator[Make]:
    made: list[Reports] = []

    def make(held_s: float = NEVER_S) -> Reports:
        made.append(Reports(desk.tell, lambda: desk.crowded, held_s))
        made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_good_news_waits_while_a_large_gang_is_bound(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(member(1), OK)
    found.put(member(2), OK)
    assert desk.told == []
    desk.crowded = False
    found.put(member(3), OK)
    assert desk.told == [1, 2, 3]


def test_bad_news_is_told_at_once_and_after_what_came_before_it(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(member(1), OK)
    found.put(member(2), LOST)
    assert desk.told == [1, 2]


ALONE = GangKey("t", "p1", pod=True)
READ = Result(Outcome.OK, pod=Pod("t", "p1", "uid-1"))


@pytest.mark.parametrize(
    ("effect", "result"),
    [
        (member(1, ALONE), OK),
        (member(1), READ),
        (Wake(1, PodRef("t", "p1", "uid-1")), OK),
    ],
    ids=["of a single pod", "with the pod as it was read", "of no Binding"],
)
def test_only_what_confirms_a_gang_s_plan_waits(
    desk: Desk, reports: Make, effect: Effect, result: Result
) -> None:
    reports().put(effect, result)
    assert desk.told == [1]


def test_what_is_put_off_is_told_by_another_thread(desk: Desk, reports: Make) -> None:
    """Who gives it may hold the very lock that telling takes."""
    found = reports(held_s=0.01)
    with desk.lock:
        found.put_off(member(1), LOST)
    assert desk.heard.wait(10)


def test_without_a_crowd_all_is_told_at_once(desk: Desk, reports: Make) -> None:
    desk.crowded = False
    reports().put(member(1), OK)
    assert desk.told == [1]


def test_nothing_waits_for_ever_behind_a_write_that_hangs(desk: Desk, reports: Make) -> None:
    found = reports(held_s=0.01)
    for number in (1, 2):
        desk.heard.clear()
        found.put(member(number), OK)
        assert desk.heard.wait(10)
    assert desk.told == [1, 2]


def test_what_waits_at_the_end_is_told(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(member(1), OK)
    found.stop()
    found.put(member(2), OK)
    assert desk.told == [1, 2]


def test_what_is_put_while_telling_is_told_after_it(desk: Desk) -> None:
    """The engine may ask for more than can be queued, which ends at once."""
    told: list[int] = []

    def tell(effect: Effect, _: Result) -> None:
        if effect.id == 1:  # type: ignore[union-attr]
            found.put(member(2), LOST)
        told.append(effect.id)  # type: ignore[union-attr]

    found = Reports(tell, lambda: False)
    found.put(member(1), OK)
    assert told == [1, 2]


def test_many_threads_lose_and_double_nothing(desk: Desk, reports: Make) -> None:
    found = reports(held_s=0.001)

    def work(first: int) -> None:
        for number in range(first, first + 500):
            found.put(member(number), LOST if number % 50 == 0 else OK)

    threads = [Thread(target=work, args=(first,)) for first in range(0, 8000, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.stop()
    assert sorted(desk.told) == list(range(8000))
    for first in range(0, 8000, 500):
        mine = [number for number in desk.told if first <= number < first + 500]
        assert mine == sorted(mine)
