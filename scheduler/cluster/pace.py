"""How long to wait before trying again."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between tries and of silence. Tests make them short."""

    first_s: float = 0.1
    """First pause after a failure; doubles each time."""
    longest_s: float = 30.0
    watch_s: int = 300
    """How long the API server keeps a watch open; a fifth more at most, by chance."""
    idle_s: float = 90.0
    """Longest silence of a watch; bookmarks come about once a minute."""
    discover_s: float = 60.0
    """Between two looks for kinds that were not served before."""


class Backoff:
    """Doubling pauses, each cut by up to half by chance, so that clients do not march in step."""

    def __init__(self, pace: Pace, stopped: threading.Event) -> None:
        self._pace = pace
        self._stopped = stopped
        self._next = pace.first_s

    def reset(self) -> None:
        """Things work again."""
        self._next = self._pace.first_s

    def wait(self, at_least_s: float = 0.0) -> None:
        """Pause, or return early when stopped."""
        pause = self._next * random.uniform(0.5, 1.0)
        self._next = min(self._next * 2, self._pace.longest_s)
        self._stopped.wait(max(pause, min(at_least_s, self._pace.longest_s)))
