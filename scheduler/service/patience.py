"""How long answers to the scheduler may be held back, all in all."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.2
"""Of the time, in the long run; the scheduler does nothing else while it waits for an answer."""

MOST_S = 2.0
"""What is saved up at most: a gang of 500 pods is made and bound in about that time."""


class Patience:
    """A token bucket of seconds (Turner 1986). For one thread.

    A pod that is held back becomes unschedulable: its scheduler writes a condition and an Event,
    and comes back to it later. While the rest of its gang is being made that is all in vain, and
    slows down both the making and the start; waiting for an answer that is about to change spares
    it. But the scheduler asks for one pod at a time, so others wait along: hence the bounds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        share: float = SHARE,
        most_s: float = MOST_S,
    ) -> None:
        self.clock = clock
        """Seconds. Where they jump back, that time is not counted at all."""
        self._share = share
        self._most_s = most_s
        self._left_s = most_s
        self._at = clock()

    def take(self, seconds: float) -> bool:
        """Whether an answer may be held back so long now; if so, that is used up."""
        now = self.clock()
        passed = max(0.0, now - self._at)
        self._left_s = min(self._most_s, self._left_s + passed * self._share)
        self._at = now
        if self._left_s < seconds:
            return False
        self._left_s -= seconds
        return True

    def spend(self, seconds: float) -> None:
        """Use up what an answer was held back longer than it was taken for.

        What is owed is paid back before anything is taken again, so the share holds all the same.
        """
        self._left_s -= max(0.0, seconds)
