"""What a dialect gets to see of a pod, and what it may answer."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.dialects.fields import Fault, Json
from scheduler.model import NO_OPTIONS, Declaration, Options

Found = Declaration | Fault | None
"""A declaration; a fault (it is there but cannot be read); None (not this dialect)."""


class PodSource(NamedTuple):
    """The parts of a pod that declarations are read from, as they came."""

    namespace: str
    labels: Json
    annotations: Json
    spec: Json
    controller: str = ""
    """``Kind.group`` of the controller that owns the pod; "" if none is stated."""

    def value(self, key: str) -> object:
        """The annotation, else the label, else None."""
        found = self.annotations.get(key)
        return self.labels.get(key) if found is None else found


class GroupTerms(NamedTuple):
    """What a group object says, before our own annotations on it are laid over."""

    options: Options = NO_OPTIONS
    gang: bool = True
    """False where the object says that its pods are no gang."""
    fault: str = ""
    warnings: tuple[str, ...] = ()
    """What it asks for and does not get."""


def no_group(_: Json) -> GroupTerms:
    """``read_group`` of a dialect that has no object of its own."""
    return GroupTerms()
