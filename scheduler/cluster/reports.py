"""Outcomes on their way to the engine: the good ones wait while a large gang is being bound."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from scheduler.cluster.writes import Result
from scheduler.core.messages import Bind, Effect, Outcome

HELD_S = 1.0
"""Longest wait of an outcome. A burst of 500 is over by then, even on two CPUs for everything."""


class Reports:
    """Passes outcomes on in the order in which they came, each of them once.

    What the engine does with an outcome costs as much CPU as the request itself, and a machine
    that is full of API server is where a gang's start is slow. So what only confirms the plan
    waits while ``crowded`` says that many writes are under way; a failure is told at once, after
    all that came before it. ``tell`` is never called by two threads at once.
    """

    def __init__(
        self,
        tell: Callable[[Effect, Result], None],
        crowded: Callable[[], bool],
        held_s: float = HELD_S,
    ) -> None:
        self._tell = tell
        self._crowded = crowded
        self._held_s = held_s
        self._kept: deque[tuple[Effect, Result]] = deque()
        self._telling = threading.Lock()
        self._held = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="muster-reports", daemon=True)

    def start(self) -> None:
        """Begin to see to it that nothing waits longer than ``held_s`` seconds."""
        self._thread.start()

    def stop(self) -> None:
        """Tell what waits; whatever is put from now on is told at once."""
        self._stopped.set()
        self._held.set()
        self.flush()

    def put(self, effect: Effect, result: Result) -> None:
        """Pass an outcome on, now or soon."""
        self._kept.append((effect, result))
        if _only_confirms(effect, result) and self._crowded() and not self._stopped.is_set():
            self._held.set()
        else:
            self.flush()

    def put_off(self, effect: Effect, result: Result) -> None:
        """Pass an outcome on from another thread: who gives it holds what telling needs."""
        self._kept.append((effect, result))
        self._held.set()

    def flush(self) -> None:
        """Tell all that waits, unless another thread is at it: it sees what was added, too."""
        while self._kept and self._telling.acquire(blocking=False):
            try:
                while self._kept:
                    self._tell(*self._kept.popleft())
            finally:
                self._telling.release()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self._held.wait()
            self._held.clear()
            self._stopped.wait(self._held_s)
            self.flush()


def _only_confirms(effect: Effect, result: Result) -> bool:
    """Whether a gang's member is bound as planned, and nothing more was learnt: a pod that was read
    grows old, and for a single pod somebody may wait."""
    is_members = isinstance(effect, Bind) and not effect.gang.pod
    return is_members and result.outcome is Outcome.OK and result.pod is None
