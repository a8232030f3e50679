"""Keeps the node's annotations as they should be, with as few requests as that takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

CHECK_S = 600.0
"""Between two reads of what is there: a node that is registered anew has lost its annotations."""


class NodeObject(Protocol):
    """This node in the API. Both raise ClusterError."""

    def annotations(self) -> Mapping[str, str]:
        """All annotations that it has now."""
        ...

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        """Merge these in; None removes one."""
        ...


class Publisher:
    """Writes only what differs from what was there at the last read or write."""

    def __init__(self, node: NodeObject) -> None:
        self._node = node
        self._there: dict[str, str] | None = None
        self._read_at = 0.0

    def publish(self, wanted: Mapping[str, str | None], now: float) -> tuple[str, ...]:
        """Make it so; the names of what was changed. Raises ClusterError, then knows nothing."""
        there = self._current(now)
        changes = {key: text for key, text in wanted.items() if there.get(key) != text}
        if changes:
            self._there = None
            self._node.annotate(changes)
            there.update({key: text for key, text in changes.items() if text is not None})
            for key, text in changes.items():
                if text is None:
                    there.pop(key)
            self._there = there
        return tuple(changes)

    def _current(self, now: float) -> dict[str, str]:
        if self._there is None or now - self._read_at >= CHECK_S:
            self._there = None
            self._there = dict(self._node.annotations())
            self._read_at = now
        return self._there
