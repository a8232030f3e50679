"""Measures how long gangs waited, and how long their starts took."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from scheduler.core.messages import Bind, Effect, EffectDone, Event
from scheduler.model import GangKey
from scheduler.service.metrics import Metrics
from scheduler.service.ports import Engine
from scheduler.service.remembering import remember

_CLASSES = ((1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))
_REMEMBERED = 10_000
"""Gangs whose start was measured; one that is forgotten is measured again if it binds more."""

OnStart = Callable[[GangKey, int], None]
"""Told of a gang that has started, with the number of its bound members; must not wait."""

log = logging.getLogger(__name__)


def size_class(members: int) -> str:
    """The label for a gang of so many members."""
    return next((name for most, name in _CLASSES if members <= most), "513+")


class StartLog:
    """Follows the Bindings of each gang to its start. Called under the service's lock only."""

    def __init__(self, metrics: Metrics, on_start: OnStart | None = None) -> None:
        self._metrics = metrics
        self._on_start = on_start
        self._gang_of: dict[int, GangKey] = {}
        self._began: dict[GangKey, float] = {}
        self._measured: dict[GangKey, float] = {}
        self._news: deque[tuple[GangKey, int, float, float]] = deque(maxlen=_REMEMBERED)

    def note(self, engine: Engine, event: Event, effects: Sequence[Effect], now: float) -> None:
        """One step of the engine at ``now`` seconds."""
        for effect in effects:
            if isinstance(effect, Bind):
                self._gang_of[effect.id] = effect.gang
                self._begin(effect.gang, now)
        if isinstance(event, EffectDone) and (gang := self._gang_of.pop(event.id, None)):
            self._bound(engine, gang)

    def _bound(self, engine: Engine, gang: GangKey) -> None:
        started = engine.started(gang)
        if started is None:
            return
        began = self._began.pop(gang, started.at)
        if self._measured.get(gang) != started.at:
            remember(self._measured, gang, started.at, _REMEMBERED)
            members, took = size_class(started.members), max(0.0, started.at - began)
            self._metrics.gang_wait.labels(members).observe(started.waited)
            self._metrics.gang_start.labels(members).observe(took)
            self._news.append((gang, started.members, started.waited, took))

    def tell(self) -> None:
        """Tell of the starts since the last call. Not for under the lock: a log may block."""
        while (news := self._next_news()) is not None:
            gang, members, waited, took = news
            log.info(
                "gang %s started: %d members bound, %.3f s after it was complete and %.3f s after "
                "the first Binding was decided",
                *(gang, members, waited, took),
                extra={"gang": str(gang)},
            )
            if self._on_start is not None:
                self._on_start(gang, members)

    def _next_news(self) -> tuple[GangKey, int, float, float] | None:
        # Several threads may ask at once.
        try:
            return self._news.popleft()
        except IndexError:
            return None

    def _begin(self, gang: GangKey, now: float) -> None:
        if gang not in self._began:
            remember(self._began, gang, now, _REMEMBERED)
