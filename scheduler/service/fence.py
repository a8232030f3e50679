"""Lets effects through only while this replica leads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from scheduler.core.messages import Cancel, Effect, EffectDone, Event, Outcome, Record
from scheduler.service.ports import Actuator, Post

NOT_LEADING = "this replica of Muster does not lead"


class Fence:
    """An actuator in front of another one; ``leads`` is asked at every submission.

    What is submitted while this replica stands by ends at once as cancelled. An actuator that sends
    later than it was told to asks again by itself, just before it sends.
    """

    def __init__(self, actuator: Actuator, leads: Callable[[], bool]) -> None:
        self._actuator = actuator
        self._leads = leads
        self._post: Post = _nobody
        self._open: set[int] = set()
        self._changed = threading.Condition()

    def start(self, post: Post) -> None:
        """Start the actuator behind it."""
        self._post = post
        self._actuator.start(self._passed_back)

    def submit(self, effects: Sequence[Effect]) -> None:
        """Pass effects on, or end them as cancelled."""
        outcomes = {effect.id for effect in effects if not isinstance(effect, Record | Cancel)}
        if self._leads():
            with self._changed:
                self._open |= outcomes
            self._actuator.submit(effects)
            return
        self._actuator.submit([effect for effect in effects if isinstance(effect, Cancel)])
        for number in sorted(outcomes):
            self._post(EffectDone(number, Outcome.CANCELLED, NOT_LEADING))

    def stop(self, deadline_s: float) -> None:
        """Stop the actuator behind it."""
        self._actuator.stop(deadline_s)

    def withdraw(self) -> None:
        """Cancel what was passed on and not sent yet; what is under way ends as it may."""
        with self._changed:
            targets = sorted(self._open)
        self._actuator.submit([Cancel(0, target) for target in targets])

    def wait_idle(self, timeout_s: float) -> bool:
        """Whether nothing is under way any more within ``timeout_s`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout_s)

    def _passed_back(self, event: Event) -> None:
        self._post(event)
        if isinstance(event, EffectDone):
            with self._changed:
                self._open.discard(event.id)
                if not self._open:
                    self._changed.notify_all()


def _nobody(event: Event) -> None:
    raise RuntimeError(f"the fence was not started, so nobody hears of {event}")
