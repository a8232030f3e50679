"""What a 429 means: all writes pause, then half as many go on, and slowly more again."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from scheduler.cluster.throttle import LONGEST_PAUSE_S, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def enters(throttle: Throttle) -> bool:
    """Whether one more may go at once."""
    asked = iter((True, False))
    return throttle.enter(lambda: next(asked))


def test_as_many_go_as_there_are_workers(clock: Clock) -> None:
    throttle = Throttle(4, clock)
    assert [enters(throttle) for _ in range(5)] == [True] * 4 + [False]
    throttle.leave()
    assert enters(throttle)


def test_all_wait_as_long_as_it_is_asked_for(clock: Clock) -> None:
    throttle = Throttle(4, clock)
    assert enters(throttle)
    throttle.refused(7.0)
    clock.now += 6.9
    assert not enters(throttle)
    clock.now += 0.1
    assert enters(throttle)


def test_a_pause_has_a_limit(clock: Clock) -> None:
    throttle = Throttle(4, clock)
    assert enters(throttle)
    throttle.refused(86_400.0)
    clock.now += LONGEST_PAUSE_S
    assert enters(throttle)


def test_those_refused_together_halve_it_once(clock: Clock) -> None:
    throttle = Throttle(16, clock)
    assert all(enters(throttle) for _ in range(16))
    for _ in range(16):
        throttle.refused(1.0)
    assert throttle.allowed == 8


def test_it_never_falls_below_one_and_comes_back_by_one_a_round(clock: Clock) -> None:
    throttle = Throttle(4, clock)
    for _ in range(5):
        assert enters(throttle)
        throttle.refused(1.0)
        clock.now += 1.0
    assert throttle.allowed == 1
    seen = []
    for _ in range(12):
        assert enters(throttle)
        throttle.leave()
        seen.append(throttle.allowed)
    assert seen == sorted(seen)
    assert seen[0] == 2
    assert seen[-1] == 4
    assert [enters(throttle) for _ in range(5)] == [True] * 4 + [False]


def test_one_who_waits_goes_when_another_has_ended() -> None:
    throttle = Throttle(1)
    assert throttle.enter(lambda: True)
    entered = Event()
    thread = Thread(target=lambda: throttle.enter(lambda: True) and entered.set())
    thread.start()
    assert not entered.is_set()
    throttle.leave()
    assert entered.wait(10)
    thread.join()


def test_one_who_is_not_wanted_any_more_gives_up() -> None:
    throttle = Throttle(1)
    assert throttle.enter(lambda: True)
    unwanted, gave_up = Event(), Event()

    def wait() -> None:
        if not throttle.enter(lambda: not unwanted.is_set()):
            gave_up.set()

    thread = Thread(target=wait)
    thread.start()
    unwanted.set()
    assert gave_up.wait(10)
    thread.join()
