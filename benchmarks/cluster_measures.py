"""The arithmetic of the cluster benchmark: from the times of pods to medians. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

PAUSE_S = 1.0
"""A gang whose next member is bound later than this after the last one is not starting any more."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod. Times are monotonic seconds."""

    created: float
    bound: float | None
    node: str = ""


@dataclass(frozen=True, slots=True)
class GangTimes:
    """One gang; ``until`` is when the measurement ended."""

    members: Sequence[Member]
    until: float

    @property
    def complete(self) -> float:
        """When its last pod was created."""
        return max(member.created for member in self.members)

    @property
    def bound(self) -> list[float]:
        """When its members were bound, in order."""
        return sorted(member.bound for member in self.members if member.bound is not None)

    @property
    def whole(self) -> bool:
        """Whether all members are bound."""
        return len(self.bound) == len(self.members)

    @property
    def end(self) -> float:
        """When its last member was bound, or the end of the measurement if one never was."""
        return self.bound[-1] if self.whole else self.until

    @property
    def complete_to_bound_s(self) -> float:
        """Seconds from the last pod created to the last pod bound; infinite if one never was."""
        return max(0.0, self.end - self.complete) if self.whole else math.inf

    def partial_pod_s(self) -> float:
        """Pod-seconds in which members were bound while others were not."""
        return sum(self.end - at for at in self.bound)

    def beyond_pod_s(self, pause_s: float = PAUSE_S) -> float:
        """The part of ``partial_pod_s`` that no start explains.

        Members bound before all of the gang existed, and pauses longer than ``pause_s`` between
        two Bindings, or after the last one if members are missing.
        """
        early = sum(max(0.0, self.complete - at) for at in self.bound)
        moments = [*self.bound, self.end]
        pauses = (
            count * (later - max(at, self.complete))
            for count, (at, later) in enumerate(pairwise(moments), start=1)
            if later - max(at, self.complete) > pause_s
        )
        return early + sum(pauses)


def middle(values: Iterable[float]) -> float | None:
    """The median; None if there is none, or if it is infinite."""
    found = list(values)
    return finite(median(found)) if found else None


def finite(value: float) -> float | None:
    """The value rounded for a report; None if it is infinite, which JSON cannot say."""
    return round(value, 3) if math.isfinite(value) else None


def largest(values: Iterable[float]) -> float | None:
    """The largest value; None if there is none, or if it is infinite."""
    return finite(max(values, default=math.inf))


def percentile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least ``share`` of all do not exceed; None if there is none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return finite(ordered[max(0, math.ceil(share * len(ordered)) - 1)])
