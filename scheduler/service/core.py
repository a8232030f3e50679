"""The real engine behind the service's Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core import engine, explain
from scheduler.core.messages import Event
from scheduler.service.ports import Totals
from scheduler.settings import Settings


class CoreEngine:
    """The decision core with its state."""

    def __init__(self, settings: Settings) -> None:
        self._state = engine.new_state(settings)

    def step(self, event: Event, now: float) -> engine.Step:
        """Take in one event."""
        return engine.step(self._state, event, now)

    def knows(self, uid: str) -> bool:
        """Whether the pod was seen."""
        return engine.knows(self._state, uid)

    def gangs(self) -> list[dict[str, Any]]:
        """Every gang."""
        return explain.gangs(self._state)

    def why(self, key: str) -> Mapping[str, Any] | None:
        """Why a gang is where it is."""
        return explain.why(self._state, key)

    def nodes(self) -> list[dict[str, Any]]:
        """Every node."""
        return explain.nodes(self._state)

    def levels(self) -> list[str]:
        """The topology levels."""
        return explain.levels(self._state)

    def totals(self) -> Totals:
        """Counts for metrics."""
        return Totals(len(self._state.reservations), self._state.expired)

    def snapshot(self) -> dict[str, Any]:
        """The whole state."""
        return explain.snapshot_state(self._state)
