"""How many writes may be under way: fewer when the API server says that they are too many."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MOST = 16
"""Writes under way at once; the measured optimum for bursts, and gentle on the API server."""

PAUSE_S = 1.0
"""Pause where none is asked for."""

LONGEST_PAUSE_S = 30.0

_LOOK_S = 0.1
"""How often one who waits looks whether it is still wanted."""


class Throttle:
    """Additive increase, multiplicative decrease, as TCP does it, and pauses as they are asked for.

    A 429 comes where the flow of this account has filled its queue (API Priority and Fairness), so
    it concerns all writes alike: each of them waits, and half as many go on afterwards. Every round
    of answers that are no 429 lets one more go.
    """

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(most)
        self._clock = clock
        self._allowed = float(most)
        self._under_way = 0
        self._not_before = 0.0
        self._changed = threading.Condition()

    @property
    def allowed(self) -> int:
        """How many may be under way now."""
        return int(self._allowed)

    def enter(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait for one's turn; False if ``is_wanted`` became false before it."""
        with self._changed:
            while is_wanted():
                pause = self._pause()
                if pause <= 0:
                    self._under_way += 1
                    return True
                self._changed.wait(min(pause, _LOOK_S))
        return False

    def leave(self) -> None:
        """An answer came that is no 429, or none at all."""
        with self._changed:
            self._under_way -= 1
            if self._allowed < self._most:
                self._allowed = min(self._most, self._allowed + 1 / self._allowed)
                self._changed.notify()

    def refused(self, retry_after_s: float | None) -> None:
        """The answer was a 429, with the pause that it asked for in seconds."""
        with self._changed:
            now = self._clock()
            if now >= self._not_before:
                # Those that were sent together are refused together: they count once.
                self._allowed = max(1.0, self._under_way / 2)
            self._under_way -= 1
            asked = PAUSE_S if retry_after_s is None else retry_after_s
            self._not_before = max(self._not_before, now + min(asked, LONGEST_PAUSE_S))

    def _pause(self) -> float:
        """Seconds until one more may go; any number above 0 where that is not known."""
        if self._under_way >= self.allowed:
            return _LOOK_S
        return self._not_before - self._clock() if self._not_before else 0.0
