"""The order in which gangs are planned."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scheduler.core.gang import Gang, Stage
from scheduler.model import GangKey


class Place(NamedTuple):
    """A gang's place in the queue: of two, the lesser is planned first."""

    less_urgent: int
    whole: bool
    incomplete: bool
    complete: int
    key: GangKey


def order(gangs: Iterable[Gang]) -> list[Gang]:
    """Highest priority first; among equals the broken, then who was complete first, then names."""
    return sorted(gangs, key=place_of)


def place_of(gang: Gang) -> Place:
    """The gang's place in the queue, as a sort key."""
    complete = gang.memory.complete
    whole = gang.stage is not Stage.BROKEN
    return Place(-gang.priority, whole, complete is None, complete or 0, gang.key)


class Queue:
    """Gangs by their places, which are known: to look at the first few costs no more than these.

    A place is the one of the last ``put``. O(log n) comparisons for each change.
    """

    def __init__(self) -> None:
        self._places: dict[GangKey, Place] = {}
        self._in_order: list[Place] = []

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[GangKey]:
        """Keys from the first to the last."""
        return (place.key for place in self._in_order)

    def put(self, gang: Gang) -> None:
        """The gang waits, or has another place now."""
        place = place_of(gang)
        if self._places.get(gang.key) != place:
            self.drop(gang.key)
            self._places[gang.key] = place
            insort(self._in_order, place)

    def drop(self, key: GangKey) -> None:
        """The gang waits no more, if it did."""
        place = self._places.pop(key, None)
        if place is not None:
            del self._in_order[bisect_left(self._in_order, place)]
