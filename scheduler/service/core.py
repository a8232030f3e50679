"""The real engine behind the service's Protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.core import engine, explain, fit, life, naming, overview, unblocking
from scheduler.core.gang import Gang
from scheduler.core.gang_rows import GangRows
from scheduler.core.messages import Event, GroupGone, GroupSeen
from scheduler.core.node_rows import NodeRows
from scheduler.core.state import Turn
from scheduler.model import GangKey, Pod
from scheduler.service.ports import Started, Totals
from scheduler.settings import Settings

_NUMBER = re.compile(r"(?<=[a-z0-9])~\d+\b")


class CoreEngine:
    """The decision core with its state."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._state = engine.new_state(settings)
        self._rows, self._gangs = NodeRows(), GangRows()

    def step(self, event: Event, now: float) -> engine.Step:
        """Take in one event."""
        if isinstance(event, GroupSeen | GroupGone):
            key = event.group.key if isinstance(event, GroupSeen) else event.key
            self._rows.regrouped(self._state, key)
        return engine.step(self._state, event, now)

    def restart(self) -> None:
        """Forget everything; a late outcome of an old effect is never taken for a new one's."""
        fresh = engine.new_state(self._settings)
        fresh.next_id = self._state.next_id
        self._state, self._rows, self._gangs = fresh, NodeRows(), GangRows()

    def judge(self) -> None:
        """Judge every gang as if it had just changed; what follows from it is left undone."""
        turn = Turn(self._state, self._state.now)
        for key in list(self._state.gangs):
            life.review(turn, key)

    def knows(self, uid: str) -> bool:
        """Whether the pod was seen."""
        return engine.knows(self._state, uid)

    def gang_of(self, uid: str) -> str:
        """The gang that the pod is a member of."""
        return str(self._state.gang_of.get(uid) or "")

    def gangs(self) -> list[dict[str, Any]]:
        """Every gang; who gets a row must not change it."""
        return self._gangs.all(self._state)

    def why(self, key: str) -> Mapping[str, Any] | None:
        """Why a gang, or the gang of a pod, is where it is, and what has to happen next."""
        gang = naming.find(self._state, key) or self._gang_of_pod(key)
        return unblocking.answer(self._state, gang) if gang else None

    def nodes(self) -> list[dict[str, Any]]:
        """Every node; who gets a row must not change it."""
        return self._rows.all(self._state)

    def levels(self) -> list[str]:
        """The topology levels."""
        return explain.levels(self._state)

    def totals(self) -> Totals:
        """Counts for metrics."""
        return Totals(len(self._state.reservations), self._state.expired)

    def snapshot(self) -> dict[str, Any]:
        """The whole state."""
        return explain.snapshot_state(self._state)

    def overview(self) -> dict[str, Any]:
        """The cluster in a few figures."""
        return overview.overview(self._state)

    def sample(self) -> dict[str, Any]:
        """The figures that are kept over time."""
        return overview.sample(self._state)

    def fit(self, pods: Sequence[Pod]) -> dict[str, Any]:
        """Whether these pods would start now."""
        found = fit.would_fit(self._state, pods)
        # A trial's pods are numbered, lest they be taken for those that run under their names.
        said = {key: _NUMBER.sub("", found[key]) for key in ("reason", "next") if key in found}
        return found | said

    def started(self, gang: GangKey) -> Started | None:
        """Since when the gang has had its min."""
        found = self._state.gangs.get(gang)
        memory = found.memory if found else None
        if found is None or memory is None or memory.started_at is None:
            return None
        waited = max(0.0, memory.started_at - memory.waiting_since)
        return Started(memory.started_at, waited, found.held)

    def _gang_of_pod(self, text: str) -> Gang | None:
        namespace, _, name = text.partition("/")
        uid = self._state.by_name.get((namespace, name), "")
        key = self._state.gang_of.get(uid)
        return self._state.gangs.get(key) if key else None
