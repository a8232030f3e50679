"""Answers may be held back for a while, and for a fifth of the time in the long run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.patience import MOST_S, SHARE, Patience


class Clock:
    """A clock that stands still but for what is added."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_at_first_there_is_some() -> None:
    patience = Patience(Clock())
    taken = sum(patience.take(0.5) for _ in range(100))
    assert taken * 0.5 == MOST_S


def test_it_comes_back_with_time() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert patience.take(MOST_S)
    assert not patience.take(0.02)
    clock.now += 1.01 * 0.02 / SHARE
    assert patience.take(0.02)
    assert not patience.take(0.02)


def test_it_is_not_saved_up_for_ever() -> None:
    clock = Clock()
    patience = Patience(clock)
    clock.now += 1e6
    assert patience.take(MOST_S)
    assert not patience.take(0.02)


def test_a_clock_that_jumps_back_costs_nothing_that_was_saved() -> None:
    clock = Clock()
    patience = Patience(clock)
    clock.now -= 1e6
    assert patience.take(MOST_S)
    assert not patience.take(0.02)
    clock.now += 1.01 * 0.02 / SHARE
    assert patience.take(0.02)


def test_what_took_longer_is_paid_back_first() -> None:
    clock = Clock()
    patience = Patience(clock)
    assert patience.take(0.02)
    patience.spend(MOST_S)
    patience.spend(-5.0)
    clock.now += 0.5 * 0.02 / SHARE
    assert not patience.take(0.02)
    clock.now += 1.6 * 0.02 / SHARE
    assert patience.take(0.02)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 1)), max_size=60))
def test_never_more_than_its_share(story: list[tuple[float, float]]) -> None:
    clock = Clock()
    patience, taken = Patience(clock), 0.0
    for pause, wanted in story:
        clock.now += pause
        taken += wanted if patience.take(wanted) else 0.0
    assert taken <= MOST_S + SHARE * (clock.now - 50.0) + 1e-9
