"""Who has no token keeps nobody waiting who has one, nor the probes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest
from guarded_site import Guarded, Reviewer
from people_site import PATIENCE_S, Site

from scheduler.service import access
from scheduler.service.access import Person

THREADS = 40
"""Of the pool that answers views."""

CROWD = THREADS + 10


class SlowReviewer(Reviewer):
    """Thinks about a token that is nobody's until it is told to answer."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked = threading.Semaphore(0)

    def who(self, token: str) -> Person | None:
        found = super().who(token)
        if found is None:
            self.asked.release()
            assert self.answer.wait(PATIENCE_S)
        return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def slow() -> SlowReviewer:
    return SlowReviewer()


@pytest.fixture
def guarded(here: Site, slow: SlowReviewer) -> Iterator[Guarded]:
    made = Guarded(here, slow)
    yield made
    made.close()


@contextmanager
def crowd(guarded: Guarded, slow: SlowReviewer, reviews: int) -> Iterator[list[int]]:
    """Many with tokens that are made up, from when so many reviews are under way; their answers."""
    answers: list[int] = []
    limits = httpx.Limits(max_connections=CROWD)

    def ask(number: int) -> None:
        answer = client.get("/v1/gangs", headers={"Authorization": f"Bearer junk-{number}"})
        answers.append(answer.status_code)
        assert answer.status_code == 401 or answer.headers["retry-after"] == "1"

    with (
        httpx.Client(base_url=guarded.url, timeout=PATIENCE_S, limits=limits) as client,
        ThreadPoolExecutor(CROWD) as pool,
    ):
        try:
            asking = [pool.submit(ask, number) for number in range(CROWD)]
            for _ in range(reviews):
                assert slow.asked.acquire(timeout=PATIENCE_S)
            yield answers
        finally:
            slow.answer.set()
        for each in asking:
            each.result(PATIENCE_S)


def test_probes_are_answered_though_every_thread_waits(
    guarded: Guarded, slow: SlowReviewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (guarded.access._strangers, guarded.access._known):
        monkeypatch.setattr(line, "_places", threading.BoundedSemaphore(CROWD))
        monkeypatch.setattr(line, "_turns", threading.BoundedSemaphore(CROWD))
    with crowd(guarded, slow, THREADS) as answers:
        for path in ("/healthz", "/readyz"):
            assert guarded.ask(path).status_code == 200
        assert answers == []


def test_a_crowd_with_made_up_tokens_is_sent_away_and_keeps_nobody_waiting(
    guarded: Guarded, slow: SlowReviewer
) -> None:
    assert guarded.ask("/v1/gangs", "ann").status_code == 200
    with crowd(guarded, slow, access.AT_ONCE) as answers:
        assert guarded.ask("/v1/gangs", "ann").status_code == 200
        assert guarded.ask("/v1/status", "ann").status_code == 200
        until(lambda: len(answers) >= CROWD - access.AT_ONCE - access.IN_LINE)
        assert set(answers) == {503}
    assert 401 in answers
