"""The actuator with a span around each effect's request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.cluster.actuator import ClusterActuator
from scheduler.cluster.writes import Result
from scheduler.core.messages import Bind, Cancel, Effect, Record
from scheduler.service.tracing import Tracing, outcome, requests_of


class TracedActuator(ClusterActuator):
    """An actuator whose requests are traced; ``gang_of`` gives the gang of a pod's uid, or ""."""

    def __init__(
        self, *arguments: Any, tracing: Tracing, gang_of: Callable[[str], str], **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self._tracing = tracing
        self._gang_of = gang_of

    def submit(self, effects: Sequence[Effect]) -> None:
        """As that of ClusterActuator."""
        requests = requests_of(effects)
        self._tracing.decided(requests, [self._gang(effect) for effect in requests])
        super().submit(effects)

    def _carry_out(self, effect: Effect) -> Result:
        if isinstance(effect, Record | Cancel):
            return super()._carry_out(effect)
        with self._tracing.sending(effect) as span:
            result = super()._carry_out(effect)
            outcome(span, result.outcome, result.detail)
            return result

    def _end(self, effect: Effect, result: Result) -> None:
        if not isinstance(effect, Record | Cancel):
            self._tracing.ended(effect)
        super()._end(effect, result)

    def _refuse(self, effect: Effect) -> None:
        if not isinstance(effect, Record | Cancel):
            self._tracing.ended(effect)
        super()._refuse(effect)

    def _gang(self, effect: Effect) -> str:
        if isinstance(effect, Bind):
            return str(effect.gang)
        return self._gang_of(effect.ref.uid)  # type: ignore[union-attr]
