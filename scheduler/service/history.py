"""The last day of the cluster's figures, one point a minute."""

from __future__ import annotations

from collections import deque
from typing import Any

from scheduler.service.ports import Engine

EVERY_S = 60.0
"""Seconds of the service's clock between two points."""

POINTS = 1440
"""A day of points."""


class History:
    """Takes a point at the first step of each minute; a minute without a step changes nothing.

    Nothing is taken before ``begin``. Called under the service's lock only, but for ``points``.
    """

    def __init__(self) -> None:
        self._points: deque[tuple[float, dict[str, Any]]] = deque(maxlen=POINTS)
        self._next = float("inf")

    def begin(self) -> None:
        """The world is known: what was there before was half of it."""
        self._next = float("-inf")

    def note(self, engine: Engine, now: float) -> None:
        """A step was made at ``now`` seconds."""
        if now < self._next:
            return
        self._next = now + EVERY_S
        self._points.append((now, engine.sample()))

    def points(self, now: float) -> list[dict[str, Any]]:
        """All points, the oldest first, with ``ago_s``: how many seconds ago each was taken."""
        return [{"ago_s": round(now - at, 3), **point} for at, point in list(self._points)]
