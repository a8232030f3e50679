"""The engine made safe for many threads: one lock, effects in the engine's order, ticks."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from scheduler.core.messages import Effect, Event, Reply, Synced, Tick
from scheduler.errors import MusterError
from scheduler.service.effects import EffectLog
from scheduler.service.history import History
from scheduler.service.lag import WatchLag
from scheduler.service.metrics import Metrics
from scheduler.service.ports import Actuator, Engine, Timer
from scheduler.service.recorder import Recorder
from scheduler.service.starts import OnStart, StartLog

RETRY_TICK_S = 1.0
"""Seconds until the next tick after the engine failed, since its own due time is then unknown."""

OnReply = Callable[[Event, Reply], None]

log = logging.getLogger(__name__)


class BusyError(MusterError):
    """The engine was not free in time."""


class Runner:
    """Serialises the steps of an engine and hands their effects to the actuator.

    ``on_reply`` sees every reply while the lock is held. No network call is made under the lock:
    effects are queued under it and submitted after it.
    """

    def __init__(
        self,
        engine: Engine,
        actuator: Actuator,
        clock: Callable[[], float],
        timer: Timer,
        metrics: Metrics,
        on_reply: OnReply,
        recorder: Recorder | None = None,
        on_start: OnStart | None = None,
    ) -> None:
        self.engine = engine
        self._actuator = actuator
        self._clock = clock
        self._timer = timer
        self._metrics = metrics
        self._on_reply = on_reply
        self._recorder = recorder
        self._lock = threading.Lock()
        self._dispatching = threading.Lock()
        self._outbox: deque[Effect] = deque()
        self._effects = EffectLog(metrics)
        self._starts = StartLog(metrics, on_start)
        self._lag = WatchLag(metrics)
        self._last = clock()
        self.history = History()
        self.steps = 0

    def start(self) -> None:
        """Start the actuator and the timer."""
        self._actuator.start(self._deliver)
        self._timer.start(lambda: self._deliver(Tick()))

    def stop(self, deadline_s: float) -> None:
        """Stop ticking, then let the actuator end within ``deadline_s`` seconds."""
        self._timer.stop()
        self._actuator.stop(deadline_s)

    @property
    def busy(self) -> bool:
        """Whether a call made now would have to wait."""
        return self._lock.locked()

    def post(self, event: Event) -> bool:
        """Take in an event that nobody waits for; whether the engine managed it.

        A failure is logged and counted, for it must not end the thread that brought the event.
        """
        try:
            self.ask(event, wait_s=-1)
        except Exception:
            log.exception("the engine failed on %s", type(event).__name__)
            return False
        return True

    def _deliver(self, event: Event) -> None:
        self.post(event)

    def ask(self, event: Event, wait_s: float) -> Reply | None:
        """Take in an event and give its reply. Raises BusyError after ``wait_s`` seconds, and what
        the engine raises; a negative wait is for ever."""
        try:
            with self.locked(wait_s) as engine:
                return self._step(engine, event)
        finally:
            self._dispatch()
            self._starts.tell()

    def restart(self) -> None:
        """Have the engine forget everything, and drop what it had asked for and nobody has taken.

        What was taken ends as it may: outcomes of effects that the engine does not know are nothing
        to it. A recording ends here: its replay could not follow.
        """
        with self.locked(-1) as engine:
            engine.restart()
            self._recorder = None
            self._outbox.clear()
            self._timer.set(None)
            self.steps += 1

    @contextmanager
    def locked(self, wait_s: float) -> Iterator[Engine]:
        """The engine, for this thread alone. Raises BusyError after ``wait_s`` seconds."""
        if not self._lock.acquire(timeout=wait_s):
            raise BusyError("the planner is busy")
        try:
            yield self.engine
        finally:
            self._lock.release()

    def _step(self, engine: Engine, event: Event) -> Reply | None:
        now = self._last = max(self._last, self._clock())
        kind = type(event).__name__
        began = time.perf_counter()
        try:
            step = engine.step(event, now)
        except Exception:
            self._metrics.step_failures.labels(kind).inc()
            self._timer.set(now + RETRY_TICK_S)
            raise
        self._metrics.steps.labels(kind).observe(time.perf_counter() - began)
        self._timer.set(step.next_due)
        self._outbox.extend(step.effects)
        self._effects.note(event, step.effects, now)
        self._watch(engine, event, step.effects, now)
        if self._recorder is not None:
            self._recorder.step(event, step.effects, now)
        if step.reply is not None:
            self._on_reply(event, step.reply)
        return step.reply

    def _watch(self, engine: Engine, event: Event, effects: Sequence[Effect], now: float) -> None:
        """Figures for people. A fault in them must not look like one of the engine."""
        self.steps += 1
        if isinstance(event, Synced):
            self.history.begin()
        try:
            self._starts.note(engine, event, effects, now)
            self._lag.note(event, effects, now)
            self.history.note(engine, now)
        except Exception:
            log.exception("figures after %s failed", type(event).__name__)

    def now(self) -> float:
        """The service's clock, which never goes back."""
        return max(self._last, self._clock())

    def _dispatch(self) -> None:
        # Whoever finds the outbox unattended empties it, so effects keep the engine's order and an
        # actuator that reports from inside submit() does not recurse.
        while self._outbox and self._dispatching.acquire(blocking=False):
            try:
                while self._outbox:
                    self._actuator.submit(self._drain())
            finally:
                self._dispatching.release()

    def _drain(self) -> list[Effect]:
        return [self._outbox.popleft() for _ in range(len(self._outbox))]
