"""What people see of every node, made anew only for nodes that have changed."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, NamedTuple

from scheduler.core import explain
from scheduler.core.naming import titles
from scheduler.core.state import State
from scheduler.core.topology import Topology
from scheduler.model import GroupKey


class _Row(NamedTuple):
    version: int
    """Of the node's room, when the row was made."""
    reserved: int
    """How many seats were reserved there: where one is taken, nothing else changes."""
    shown: dict[str, Any]


class _Making:
    """One call: the names of gangs are worked out only if a row is made."""

    def __init__(self, state: State) -> None:
        self.state = state

    @cached_property
    def names(self) -> explain.Naming:
        return titles(self.state)


class NodeRows:
    """Rows as ``explain.node_row`` makes them. Who gets one must not change it.

    A call costs a few look-ups for each node and gang, and a row for each node that has changed.
    """

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._order: list[str] = []
        self._topology: Topology | None = None
        self._shared: frozenset[tuple[str, str, bool]] = frozenset()

    def all(self, state: State) -> list[dict[str, Any]]:
        """Every node, by name."""
        topology, shared = state.topology(), _shared_names(state)
        if topology is not self._topology:
            # Made anew whenever a node comes or goes.
            self._order = sorted(node.name for node in state.ledger.nodes())
        if topology is not self._topology or shared != self._shared:
            self._topology, self._shared = topology, shared
            self._rows.clear()
        making = _Making(state)
        return [self._row(making, name) for name in self._order]

    def regrouped(self, state: State, group: GroupKey) -> None:
        """A group has changed, and with it perhaps the gangs of the pods that name it."""
        for uid in state.users.get(group, ()):
            self._rows.pop(state.ledger.where(uid) or "", None)

    def _row(self, making: _Making, name: str) -> dict[str, Any]:
        state = making.state
        version, reserved = state.ledger.version(name), len(state.reserved_on.get(name, ()))
        row = self._rows.get(name)
        if row is None or row.version != version or row.reserved != reserved:
            shown = explain.node_row(state, name, making.names)
            row = self._rows[name] = _Row(version, reserved, shown)
        return row.shown


def _shared_names(state: State) -> frozenset[tuple[str, str, bool]]:
    """Names that several gangs have, which differ by their kind."""
    names = [key[:3] for key in state.gangs]
    if len(set(names)) == len(names):
        return frozenset()
    return frozenset(name for name, count in Counter(names).items() if count > 1)
