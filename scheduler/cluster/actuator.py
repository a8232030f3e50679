"""Carries the engine's effects out against a real API server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from scheduler.cluster import events
from scheduler.cluster.backlog import Backlog
from scheduler.cluster.events import POLITE_S, EventWriter
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.owner_events import OwnerNotes
from scheduler.cluster.reports import Reports
from scheduler.cluster.resources import Meta
from scheduler.cluster.throttle import MOST
from scheduler.cluster.transport import Transport
from scheduler.cluster.writes import Result, Writer
from scheduler.core.messages import (
    Bind,
    Cancel,
    Effect,
    EffectDone,
    Evict,
    Nominate,
    Outcome,
    PodGone,
    Record,
)
from scheduler.model import GroupKey, Pod, PodRef
from scheduler.service import Metrics, Post

LIMIT = 100_000
"""Effects that may wait; a gang has one for each member."""

log = logging.getLogger(__name__)


class ClusterActuator:
    """Worker threads that send effects in the order of their submission.

    Every effect but Record and Cancel ends in exactly one EffectDone, after the PodSeen or PodGone
    that its request brought to light; in the start of a large gang, good news may be late.
    ``pods`` is the mirror that the watch feeds; ``may_send`` is asked just before every request,
    and ``pod_group`` gives the uid of a PodGroup.
    """

    def __init__(
        self,
        transport: Transport,
        pods: Mirror[Pod],
        metrics: Metrics,
        *,
        workers: int = MOST,
        limit: int = LIMIT,
        may_send: Callable[[], bool] = lambda: True,
        pod_group: Callable[[GroupKey], str] = lambda _: "",
    ) -> None:
        self._pods = pods
        self._backlog = Backlog(limit, workers)
        self._stopped = threading.Event()
        self._may_send = may_send
        self._writer = Writer(transport, self._is_cancelled, self._stopped)
        self._events = EventWriter(transport, metrics)
        self._owners = OwnerNotes(pods, pod_group=pod_group)
        self._post: Post = _not_started
        self._reports = Reports(self._report, self._backlog.crowded)
        self._threads = [
            threading.Thread(target=self._work, name=f"muster-effects-{at}", daemon=True)
            for at in range(workers)
        ]
        self._scribe = threading.Thread(
            target=self._write_events, name="muster-events", daemon=True
        )

    def start(self, post: Post) -> None:
        """Start the workers; outcomes and what they learn go to ``post``."""
        self._post = post
        self._reports.start()
        for thread in (*self._threads, self._scribe):
            thread.start()

    def crowded(self) -> bool:
        """Whether so much is to be written that what is only seen may wait."""
        return self._backlog.crowded()

    def submit(self, effects: Sequence[Effect]) -> None:
        """Queue effects. After ``stop`` they are dropped: nobody waits for their outcome."""
        for effect in effects:
            if isinstance(effect, Record):
                log.info("%s: %s", effect.reason, effect.message, extra={"gang": str(effect.gang)})
                for note in (*events.of_record(effect), *self._owners.of_record(effect)):
                    self._events.put(note)
            elif not self._backlog.put(effect) and not self._backlog.closed:
                self._refuse(effect)

    def stop(self, deadline_s: float) -> None:
        """Send nothing more, let what is under way end, then write the last Events, all within
        ``deadline_s`` seconds."""
        deadline = time.monotonic() + deadline_s
        left = self._backlog.close()
        self._stopped.set()
        for effect in left:
            self._end(effect, Result(Outcome.CANCELLED))
        for thread in self._threads:
            _join(thread, deadline)
        self._reports.stop()
        self._events.stop(drop=False)
        _join(self._scribe, deadline)
        self._events.stop(drop=True)

    # ── inner ──

    def _is_cancelled(self, number: int) -> bool:
        return not self._may_send() or self._backlog.is_cancelled(number)

    def _work(self) -> None:
        while (effect := self._backlog.take()) is not None:
            self._end(effect, self._carry_out(effect))

    def _carry_out(self, effect: Effect) -> Result:
        try:
            return self._writer.carry_out(effect)
        except Exception as error:
            log.exception("effect %s failed", effect, extra=_about(effect))
            return Result(Outcome.ERROR, f"internal error: {error!r}")

    def _refuse(self, effect: Effect) -> None:
        self._reports.put_off(effect, Result(Outcome.ERROR, "too many effects are waiting"))

    def _end(self, effect: Effect, result: Result) -> None:
        if isinstance(effect, Cancel):
            return
        self._backlog.done(effect)
        self._reports.put(effect, result)

    def _report(self, effect: Effect, result: Result) -> None:
        ref: PodRef = effect.ref  # type: ignore[union-attr]
        if result.pod is not None:
            meta = Meta(ref.namespace, ref.name, ref.uid)
            self._pods.observe(meta, result.pod, self._post)
        if result.outcome is Outcome.GONE:
            self._post(PodGone(ref.uid))
        self._post(EffectDone(effect.id, result.outcome, result.detail))
        self._tell(effect, result)

    def _tell(self, effect: Effect, result: Result) -> None:
        if result.outcome is Outcome.OK:
            if isinstance(effect, Bind):
                self._events.put(events.of_binding(effect))
        elif result.outcome is not Outcome.CANCELLED:
            log.info(
                *("%s: %s %s", _name(effect), result.outcome, result.detail), extra=_about(effect)
            )

    def _write_events(self) -> None:
        while (note := self._events.take()) is not None:
            self._backlog.wait_idle(POLITE_S)
            self._events.write(note)


def _about(effect: Effect) -> dict[str, str]:
    """The keys of a log line about it."""
    return {"pod": str(getattr(effect, "ref", "")), "gang": str(getattr(effect, "gang", ""))}


def _name(effect: Effect) -> str:
    ref = getattr(effect, "ref", "")
    node = f" to {effect.node}" if isinstance(effect, Bind | Nominate) else ""
    because = f" because {effect.reason}" if isinstance(effect, Evict) else ""
    return f"{type(effect).__name__} {ref}{node}{because}"


def _join(thread: threading.Thread, deadline: float) -> None:
    if thread.is_alive():
        thread.join(max(0.0, deadline - time.monotonic()))


def _not_started(event: object) -> None:
    raise RuntimeError(f"the actuator was not started, so nobody hears of {event}")
