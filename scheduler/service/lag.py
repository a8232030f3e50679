"""Measures how far the watch lags: from a Binding's confirmation until the watch shows it."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.messages import Bind, Effect, EffectDone, Event, Outcome, PodSeen
from scheduler.service.metrics import Metrics

_OPEN = 10_000
"""Bindings that are followed at once; the oldest are given up."""


class WatchLag:
    """Follows each Binding. Called under the service's lock only."""

    def __init__(self, metrics: Metrics) -> None:
        self._lag = metrics.watch_lag
        self._uid_of: dict[int, str] = {}
        self._confirmed: dict[str, float | None] = {}
        """Uid -> when its Binding was confirmed; None while it is under way."""

    def note(self, event: Event, effects: Sequence[Effect], now: float) -> None:
        """One step of the engine at ``now`` seconds."""
        for effect in effects:
            if isinstance(effect, Bind):
                self._uid_of[effect.id] = effect.ref.uid
                self._confirmed[effect.ref.uid] = None
        if isinstance(event, EffectDone):
            self._ended(event, now)
        elif isinstance(event, PodSeen) and event.pod.node and event.pod.uid in self._confirmed:
            confirmed = self._confirmed.pop(event.pod.uid)
            self._lag.observe(0.0 if confirmed is None else now - confirmed)

    def _ended(self, done: EffectDone, now: float) -> None:
        uid = self._uid_of.pop(done.id, None)
        if uid is None or uid not in self._confirmed:
            return
        del self._confirmed[uid]
        if done.outcome is Outcome.OK:
            self._confirmed[uid] = now
        while len(self._confirmed) > _OPEN:
            del self._confirmed[next(iter(self._confirmed))]
