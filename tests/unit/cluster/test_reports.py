"""Outcomes reach the engine once, in order, and the bad ones at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

from scheduler.cluster.reports import Reports
from scheduler.cluster.writes import Result
from scheduler.core.messages import Effect, Outcome, Wake
from scheduler.model import PodRef

NEVER_S = 3600.0
OK, LOST = Result(Outcome.OK), Result(Outcome.ERROR, "connection lost")

Make = Callable[..., Reports]


class Desk:
    """What was told, and whether a large gang is being bound."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.crowded = True
        self.heard = Event()

    def tell(self, effect: Effect, _: Result) -> None:
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


def wake(number: int) -> Wake:
    return Wake(number, PodRef("t", f"p{number}", f"uid-{number}"))


def test_good_news_waits_while_a_large_gang_is_bound(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(wake(1), OK)
    found.put(wake(2), OK)
    assert desk.told == []
    desk.crowded = False
    found.put(wake(3), OK)
    assert desk.told == [1, 2, 3]


def test_bad_news_is_told_at_once_and_after_what_came_before_it(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(wake(1), OK)
    found.put(wake(2), LOST)
    assert desk.told == [1, 2]


def test_without_a_crowd_all_is_told_at_once(desk: Desk, reports: Make) -> None:
    desk.crowded = False
    reports().put(wake(1), OK)
    assert desk.told == [1]


def test_nothing_waits_for_ever_behind_a_write_that_hangs(desk: Desk, reports: Make) -> None:
    found = reports(held_s=0.01)
    for number in (1, 2):
        desk.heard.clear()
        found.put(wake(number), OK)
        assert desk.heard.wait(10)
    assert desk.told == [1, 2]


def test_what_waits_at_the_end_is_told(desk: Desk, reports: Make) -> None:
    found = reports()
    found.put(wake(1), OK)
    found.stop()
    found.put(wake(2), OK)
    assert desk.told == [1, 2]


def test_what_is_put_while_telling_is_told_after_it(desk: Desk) -> None:
    """The engine may ask for more than can be queued, which ends at once."""
    told: list[int] = []

    def tell(effect: Effect, _: Result) -> None:
        if effect.id == 1:  # type: ignore[union-attr]
            found.put(wake(2), LOST)
        told.append(effect.id)  # type: ignore[union-attr]

    found = Reports(tell, lambda: False)
    found.put(wake(1), OK)
    assert told == [1, 2]


def test_many_threads_lose_and_double_nothing(desk: Desk, reports: Make) -> None:
    found = reports(held_s=0.001)

    def work(first: int) -> None:
        for number in range(first, first + 500):
            found.put(wake(number), LOST if number % 50 == 0 else OK)

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
