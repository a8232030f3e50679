"""Virtual time: a queue of timed actions that runs as fast as they can be done, or paced."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], object]

EPOCH = 1_767_225_600
"""Seconds since the Unix epoch at virtual second 0 (2026-01-01T00:00:00Z)."""


@dataclass(order=True, slots=True)
class Timer:
    """One planned action; ordered by time, then by when it was planned."""

    when: float
    sequence: int
    action: Action = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Do not run the action. Harmless if it has run already."""
        self.cancelled = True


class EventLoop:
    """Runs planned actions in order of time on one thread; time jumps from one to the next.

    Two actions of the same instant run in the order in which they were planned, so a run depends
    on nothing but its input.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[Timer] = []
        self._sequence = itertools.count()
        self._inbox: deque[Action] = deque()
        self._arrived = threading.Condition()
        self._hooks: list[Action] = []

    def now(self) -> float:
        """Virtual seconds since the start. May be called from any thread."""
        return self._now

    def call_at(self, when: float, action: Action) -> Timer:
        """Plan ``action`` for the virtual second ``when``; a time gone by means now."""
        timer = Timer(max(when, self._now), next(self._sequence), action)
        heapq.heappush(self._timers, timer)
        return timer

    def call_after(self, delay: float, action: Action) -> Timer:
        """Plan ``action`` ``delay`` virtual seconds from now."""
        return self.call_at(self._now + delay, action)

    def call_threadsafe(self, action: Action) -> None:
        """Run ``action`` on the loop's thread before time moves on. For any thread."""
        with self._arrived:
            self._inbox.append(action)
            self._arrived.notify_all()

    def before_time_moves(self, hook: Action) -> None:
        """Call ``hook`` after every action, before the clock may move on."""
        self._hooks.append(hook)

    def wait_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Hold virtual time until something outside the loop's thread makes ``condition`` true.

        Runs what ``call_threadsafe`` brings meanwhile. ``deadline_s`` is wall seconds. Returns
        whether the condition became true.
        """
        end = time.monotonic() + deadline_s
        self._drain()
        while not condition():
            with self._arrived:
                if not self._arrived.wait_for(lambda: bool(self._inbox), end - time.monotonic()):
                    return condition()
            self._drain()
        return True

    def next_time(self) -> float | None:
        """When the next action is due; None when nothing is planned."""
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0].when if self._timers else None

    def run_instant(self) -> bool:
        """Go to the next instant and run all its actions, new ones included.

        Returns False when nothing is planned.
        """
        self._settle()
        instant = self.next_time()
        if instant is None:
            return False
        self._now = instant
        while self.next_time() == instant:
            heapq.heappop(self._timers).action()
            self._settle()
        return True

    def run_until(self, deadline: float) -> None:
        """Run everything that is due up to and at ``deadline``; the clock ends there."""
        self._settle()
        while (when := self.next_time()) is not None and when <= deadline:
            self.run_instant()
        self._now = max(self._now, deadline)

    def _settle(self) -> None:
        self._drain()
        for hook in self._hooks:
            hook()

    def _drain(self) -> None:
        while self._inbox:
            self._inbox.popleft()()


class Pacer:
    """Keeps virtual time from running away from the wall clock, so that people can watch."""

    def __init__(self, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``speed`` is virtual seconds per wall second."""
        self._speed = speed
        self._clock = clock
        self._start = clock()

    def ahead(self, virtual: float) -> float:
        """Wall seconds to wait before virtual second ``virtual``; negative if it is late."""
        return virtual / self._speed - (self._clock() - self._start)
