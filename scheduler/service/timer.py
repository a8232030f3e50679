"""The one thread that ticks the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

SHORTEST_S = 0.005
"""Least seconds between two ticks, so that a due time in the past cannot make a hot loop."""


class ThreadTimer:
    """Waits for the due time on a condition variable and calls back in its own thread.

    ``clock`` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._due: float | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self, fire: Callable[[], None]) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(fire,), name="muster-timer", daemon=True
        )
        self._thread.start()

    def set(self, due: float | None) -> None:
        """Replace the due time; wakes the thread only if it would otherwise come too late."""
        with self._changed:
            sooner = due is not None and (self._due is None or due < self._due)
            self._due = due
            if sooner:
                self._changed.notify()

    def stop(self) -> None:
        """Stop the thread and wait for it, unless called from it."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self, fire: Callable[[], None]) -> None:
        while self._wait_until_due():
            fire()
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, SHORTEST_S)

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._stopped:
                left = None if self._due is None else self._due - self._clock()
                if left is not None and left <= 0:
                    self._due = None
                    return True
                self._changed.wait(left)
            return False
