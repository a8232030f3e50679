"""The agent's life: look, publish what changed, wait."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable

from scheduler.agent.publishing import Publisher
from scheduler.agent.watching import Look, Remark, Watcher
from scheduler.errors import ClusterError

LONGEST_S = 600.0
"""Longest pause after failures."""
JITTER = 0.1
"""Share of the interval by which pauses differ, so that nodes do not come all at once."""

log = logging.getLogger(__name__)


class Agent:
    """One node's agent. `clock` and `draw` (0..1) are there to be replaced in tests."""

    def __init__(
        self,
        watcher: Watcher,
        publisher: Publisher | None,
        interval_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._watcher = watcher
        self._publisher = publisher
        self._interval_s = interval_s
        self._clock = clock
        self._draw = draw
        self._said: frozenset[str] = frozenset()
        self._failures = 0

    def run(self, stopped: threading.Event) -> None:
        """Go on until stopped."""
        while not stopped.is_set():
            self.once()
            stopped.wait(self.pause())

    def once(self) -> Look:
        """Look and publish; failures are logged and counted, and what is not new is not said."""
        now = self._clock()
        look = self._watcher.look(now)
        trouble = self._publish(look, now)
        self._say([*look.remarks, *trouble])
        self._failures = self._failures + 1 if trouble else 0
        return Look(look.wanted, look.remarks, look.failed or bool(trouble))

    def pause(self) -> float:
        """Seconds until the next look: the interval, or after failures ever more, doubling."""
        if not self._failures:
            return self._interval_s * (1 + JITTER * (2 * self._draw() - 1))
        longest = max(LONGEST_S, self._interval_s)
        return (
            min(self._interval_s * 2.0 ** min(self._failures, 20), longest) * (1 + self._draw()) / 2
        )

    def _publish(self, look: Look, now: float) -> list[Remark]:
        if self._publisher is None:
            return []
        try:
            changed = self._publisher.publish(look.wanted, now)
        except ClusterError as error:
            return [Remark(str(error))]
        if changed:
            log.info("published %s", ", ".join(changed))
        return []

    def _say(self, remarks: Iterable[Remark]) -> None:
        remarks = list(remarks)
        for text, warning in remarks:
            if text not in self._said:
                log.log(logging.WARNING if warning else logging.INFO, "%s", text)
        self._said = frozenset(remark.text for remark in remarks)
