"""The order in which gangs are planned."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.gang import Gang, Stage
from scheduler.model import GangKey


def order(gangs: Iterable[Gang]) -> list[Gang]:
    """Highest priority first; among equals the broken, then who was complete first, then names."""
    return sorted(gangs, key=place_of)


def place_of(gang: Gang) -> tuple[bool | int | GangKey, ...]:
    """The gang's place in the queue, as a sort key."""
    complete = gang.memory.complete
    return (
        -gang.priority,
        gang.stage is not Stage.BROKEN,
        complete is None,
        complete or 0,
        gang.key,
    )
