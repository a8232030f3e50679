"""Effects that wait for a worker, in the order in which they were given."""

from __future__ import annotations

import threading
from collections import deque

from scheduler.core.messages import Cancel, Effect


class Backlog:
    """A bounded first-in-first-out queue whose entries can be cancelled until they are sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Effect] = deque()
        self._open: set[int] = set()
        self._cancelled: set[int] = set()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, effect: Effect) -> bool:
        """Queue an effect, or cancel one; False if there is no more room."""
        with self._changed:
            if isinstance(effect, Cancel):
                self._cancelled |= self._open & {effect.target}
                return True
            if self._closed or len(self._waiting) >= self._limit:
                return False
            self._waiting.append(effect)
            self._open.add(effect.id)
            self._changed.notify()
            return True

    def take(self) -> Effect | None:
        """The next effect; waits for one. None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return None if self._closed else self._waiting.popleft()

    def is_cancelled(self, number: int) -> bool:
        """Whether an effect that was taken should not be sent any more."""
        with self._changed:
            return self._closed or number in self._cancelled

    def done(self, effect: Effect) -> None:
        """An effect that was taken has ended."""
        with self._changed:
            self._open.discard(effect.id)
            self._cancelled.discard(effect.id)
            if not self._open:
                self._changed.notify_all()

    def wait_idle(self, timeout_s: float) -> None:
        """Wait until nothing is queued or under way, at most ``timeout_s`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self._open, timeout_s)

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._closed

    def close(self) -> list[Effect]:
        """Take nothing more in, and give back what nobody took."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return left
