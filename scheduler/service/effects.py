"""Counts effects and their outcomes, whichever actuator carries them out."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.messages import Bind, Cancel, Effect, EffectDone, Event, Record
from scheduler.core.starting import REJECTED
from scheduler.service.metrics import Metrics


class EffectLog:
    """Remembers open effects until their outcome. Called under the service's lock only."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._open: dict[int, tuple[type[Effect], float]] = {}

    def note(self, event: Event, effects: Sequence[Effect], now: float) -> None:
        """One step of the engine at ``now`` seconds."""
        for effect in effects:
            self._began(effect, now)
        if isinstance(event, EffectDone):
            self._ended(event, now)

    def _began(self, effect: Effect, now: float) -> None:
        if isinstance(effect, Record):
            self._metrics.records.labels(effect.reason).inc()
            if effect.reason == REJECTED:
                self._metrics.rejections.inc()
        elif not isinstance(effect, Cancel):
            self._open[effect.id] = (type(effect), now)

    def _ended(self, done: EffectDone, now: float) -> None:
        kind, began = self._open.pop(done.id, (None, now))
        if kind is None:
            return
        self._metrics.effects.labels(kind.__name__, done.outcome.value).inc()
        if kind is Bind:
            self._metrics.bind_seconds.observe(now - began)
