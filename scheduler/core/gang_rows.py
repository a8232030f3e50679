"""What people see of every gang, made anew only for gangs that have changed."""

from __future__ import annotations

from typing import Any, NamedTuple

from scheduler.core import explain
from scheduler.core.gang import Gang, Life, Status
from scheduler.core.naming import titles
from scheduler.core.state import State
from scheduler.core.topology import Topology
from scheduler.model import GangKey

_Mark = tuple[object, ...]


class _Row(NamedTuple):
    life: Life | None
    """As it was judged last: a gang is judged anew, into another object, whenever something
    happens to its members."""
    mark: _Mark
    shown: dict[str, Any]


class GangRows:
    """Rows as ``explain.gang_row`` makes them. Who gets one must not change it.

    A call costs a few look-ups for each gang and member, and a row for each gang that has changed.
    """

    def __init__(self) -> None:
        self._rows: dict[GangKey, _Row] = {}
        self._topology: Topology | None = None

    def all(self, state: State) -> list[dict[str, Any]]:
        """All gangs that are shown, by name."""
        before, topology = self._rows, state.topology()
        if topology is not self._topology:
            before, self._topology = {}, topology
        self._rows, name_of = {}, titles(state)
        for key, gang in sorted(state.gangs.items()):
            if explain.is_shown(gang):
                name = name_of(key)
                mark, row = (name, *_mark(state, gang)), before.get(key)
                if row is None or row.life is not gang.life or row.mark != mark:
                    row = _Row(gang.life, mark, explain.gang_row(state, gang, name))
                self._rows[key] = row
        return [row.shown for row in self._rows.values()]


def _mark(state: State, gang: Gang) -> _Mark:
    """What else a row depends on, cheaply: why it waits, and who has a place where."""
    refusal = gang.memory.refusal
    return (
        refusal.text if refusal is not None else None,
        gang.priority,
        tuple(map(len, gang.by_status.values())),
        tuple(gang.by_status[Status.SEATED]),
        tuple(state.reservations[uid].node for uid in gang.reserved),
    )
