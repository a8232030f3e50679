"""The timer thread calls at the due time, also when that time moves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from scheduler.service import ThreadTimer

PATIENCE_S = 10.0


class Calls:
    """Calls of a timer, to wait for."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._changed = threading.Condition()

    def __call__(self) -> None:
        with self._changed:
            self.times.append(time.monotonic())
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.times) >= count, PATIENCE_S)


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def timer(calls: Calls) -> Iterator[ThreadTimer]:
    timer = ThreadTimer(time.monotonic)
    timer.start(calls)
    yield timer
    timer.stop()


def test_it_calls_once_and_not_before_the_due_time(timer: ThreadTimer, calls: Calls) -> None:
    due = time.monotonic() + 0.05
    timer.set(due)
    calls.wait(1)
    assert calls.times[0] >= due


def test_an_earlier_time_wakes_it(timer: ThreadTimer, calls: Calls) -> None:
    timer.set(time.monotonic() + 3600)
    timer.set(time.monotonic() + 0.01)
    calls.wait(1)


def test_a_later_time_replaces_an_earlier_one(timer: ThreadTimer, calls: Calls) -> None:
    timer.set(time.monotonic() + 0.05)
    later = time.monotonic() + 0.2
    timer.set(later)
    calls.wait(1)
    assert calls.times[0] >= later


def test_no_time_means_no_call(timer: ThreadTimer, calls: Calls) -> None:
    timer.set(time.monotonic() + 0.02)
    timer.set(None)
    marker = time.monotonic() + 0.1
    timer.set(marker)
    calls.wait(1)
    assert calls.times[0] >= marker


def test_a_time_that_stays_in_the_past_is_no_hot_loop() -> None:
    timer = ThreadTimer(time.monotonic)
    calls = Calls()

    def again() -> None:
        calls()
        timer.set(0.0)

    timer.start(again)
    timer.set(0.0)
    calls.wait(5)
    timer.stop()
    assert calls.times[4] - calls.times[0] >= 4 * 0.004


def test_stop_ends_the_thread_also_from_inside_a_call() -> None:
    timer = ThreadTimer(time.monotonic)
    stopped = threading.Event()

    def stop() -> None:
        timer.stop()
        stopped.set()

    timer.start(stop)
    timer.set(0.0)
    assert stopped.wait(PATIENCE_S)
    timer.stop()
