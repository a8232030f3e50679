"""What the service needs from others, as Protocols: an engine, an actuator and a timer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from scheduler.core.messages import Effect, Event, Reply
from scheduler.model import GangKey, Pod

Post = Callable[[Event], None]
"""Hands an event to the service. May be called from any thread, also from inside ``submit``."""


class Totals(NamedTuple):
    """Counts that the engine keeps."""

    reserved: int = 0
    """Reservations that are open now."""
    expired: int = 0
    """Reservations that ran out since the start."""


class Started(NamedTuple):
    """That a gang has reached its min."""

    at: float
    """When, in seconds of the service's clock."""
    waited: float
    """Seconds from being complete until then."""
    members: int
    """Members that are bound."""


class Step(Protocol):
    """What one step of the engine gave."""

    @property
    def reply(self) -> Reply | None:
        """The answer to a request, or to an earlier BindCall."""

    @property
    def effects(self) -> Sequence[Effect]:
        """What to carry out, in this order."""

    @property
    def next_due(self) -> float | None:
        """When the engine wants a Tick, in seconds of the service's clock; None = never."""


class Engine(Protocol):
    """The state machine with its state. Not thread-safe; the service serialises the calls."""

    def step(self, event: Event, now: float) -> Step:
        """Take in one event."""

    def restart(self) -> None:
        """Forget everything, as a process that starts anew; effects are numbered on."""

    def judge(self) -> None:
        """Judge every gang without planning any, so that views say how things stand."""

    def knows(self, uid: str) -> bool:
        """Whether the pod was seen. Called without the lock, so it is one dictionary look-up."""

    def gang_of(self, uid: str) -> str:
        """The name of the pod's gang; "" = none. Called without the lock, as ``knows``."""

    def gangs(self) -> list[dict[str, Any]]:
        """Every gang, for people."""

    def why(self, key: str) -> Mapping[str, Any] | None:
        """Why the gang ``namespace/name`` is where it is; None = no such gang."""

    def nodes(self) -> list[dict[str, Any]]:
        """Every node with what is free and reserved, for people."""

    def levels(self) -> list[str]:
        """The label keys of the topology levels, broadest first."""

    def totals(self) -> Totals:
        """Counts for metrics."""

    def snapshot(self) -> dict[str, Any]:
        """The whole state, for people and for a bug report."""

    def overview(self) -> dict[str, Any]:
        """The cluster in a few figures."""

    def sample(self) -> dict[str, Any]:
        """The figures that are kept over time."""

    def fit(self, pods: Sequence[Pod]) -> dict[str, Any]:
        """Whether these pods would start now, where, and what is missing. Changes nothing."""

    def started(self, gang: GangKey) -> Started | None:
        """Since when the gang has had its min; None = it never had, or there is none."""


class Actuator(Protocol):
    """Carries out effects and reports how each ended."""

    def start(self, post: Post) -> None:
        """Begin work. Outcomes go to ``post`` as EffectDone, one for every effect but Record and
        Cancel."""

    def submit(self, effects: Sequence[Effect]) -> None:
        """Take effects in, in order. Never waits for the network."""

    def stop(self, deadline_s: float) -> None:
        """End within ``deadline_s`` seconds; what was not sent ends as cancelled."""


class Timer(Protocol):
    """Calls back when the engine is due."""

    def start(self, fire: Callable[[], None]) -> None:
        """Begin to call ``fire`` at the times that are set."""

    def set(self, due: float | None) -> None:
        """Replace the time of the next call; None = none."""

    def stop(self) -> None:
        """Call no more; waits for a call that is under way."""
