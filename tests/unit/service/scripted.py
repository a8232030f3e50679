"""A scripted engine, a recording actuator and a timer that only tests move."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.core.messages import (
    Bind,
    BindCall,
    Effect,
    Event,
    Filter,
    FilterReply,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
    Reply,
)
from scheduler.model import Declaration, GangKey, Pod, PodRef
from scheduler.service import Started, Totals

OVERVIEW: dict[str, Any] = {
    "levels": ["block", "rack"],
    "levels_from": "the settings",
    "nodes": {"total": 1, "usable": 1},
    "gpus": {
        "total": 8,
        "used": 5,
        "reserved": 1,
        "free": {"whole": 0, "part": 2, "unusable": 0},
    },
    "waiting": {"gangs": 1, "pods": 4, "longest_s": 90.0},
    "largest_gang": [
        {"resource": "nvidia.com/gpu", "level": "cluster", "gpus_per_pod": 1, "pods": 2}
    ],
    "fragmentation": 0.25,
}
"""What the overview says beside the gangs."""


@dataclass
class Taken:
    """What one step gives."""

    reply: Reply | None = None
    effects: Sequence[Effect] = ()
    next_due: float | None = None


Handler = Callable[[Any], Taken]


@dataclass
class ScriptedEngine:
    """Answers each kind of event with a handler of the test; checks that steps never overlap."""

    handlers: dict[type, Handler] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    node_list: list[dict[str, Any]] = field(default_factory=list)
    gang_list: list[dict[str, Any]] = field(default_factory=list)
    _inside: threading.Lock = field(default_factory=threading.Lock)

    def step(self, event: Event, now: float) -> Taken:
        assert self._inside.acquire(blocking=False), "two steps at the same time"
        try:
            self.events.append(event)
            self.times.append(now)
            return self.handlers.get(type(event), _default)(event)
        finally:
            self._inside.release()

    def on(self, kind: type, handler: Handler) -> None:
        self.handlers[kind] = handler

    def knows(self, uid: str) -> bool:
        return uid in self.seen

    def gang_of(self, uid: str) -> str:
        return "t/a" if uid in self.seen else ""

    def gangs(self) -> list[dict[str, Any]]:
        return self.gang_list

    def why(self, key: str) -> Mapping[str, Any] | None:
        return {"gang": key, "reason": "no room"} if key == "t/a" else None

    def nodes(self) -> list[dict[str, Any]]:
        return self.node_list

    def levels(self) -> list[str]:
        return ["block", "rack"]

    def totals(self) -> Totals:
        return Totals(reserved=3, expired=7)

    def snapshot(self) -> dict[str, Any]:
        return {"gangs": self.gang_list}

    def overview(self) -> dict[str, Any]:
        return {"gangs": dict(Counter(gang["state"] for gang in self.gang_list)), **OVERVIEW}

    def sample(self) -> dict[str, Any]:
        return {"waiting_gangs": len(self.gang_list)}

    def fit(self, pods: Sequence[Pod]) -> dict[str, Any]:
        return {"fits": True, "never": False, "reason": "", "nodes": {p.key: "n1" for p in pods}}

    def started(self, gang: GangKey) -> Started | None:
        return None


def _default(event: Event) -> Taken:
    if isinstance(event, Filter):
        return Taken(FilterReply(event.names, {}, {}))
    if isinstance(event, Prioritize):
        return Taken(PrioritizeReply(dict.fromkeys(event.names, 5)))
    if isinstance(event, Preempt):
        return Taken(PreemptReply(event.victims))
    return Taken()


@dataclass
class RecordingActuator:
    """Keeps what it was given; ``react`` may report outcomes from inside submit."""

    submitted: list[Effect] = field(default_factory=list)
    react: Callable[[Effect], None] = lambda effect: None
    post: Callable[[Event], None] = lambda event: None
    stopped: bool = False

    def start(self, post: Callable[[Event], None]) -> None:
        self.post = post

    def submit(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            self.submitted.append(effect)
            self.react(effect)

    def stop(self, deadline_s: float) -> None:
        self.stopped = True


@dataclass
class ManualTimer:
    """Remembers the due time; the test fires it."""

    due: float | None = None
    fire: Callable[[], None] = lambda: None

    def start(self, fire: Callable[[], None]) -> None:
        self.fire = fire

    def set(self, due: float | None) -> None:
        self.due = due

    def stop(self) -> None:
        self.due = None


def ref(name: str) -> PodRef:
    return PodRef("t", name, f"uid-{name}")


def member(name: str) -> Pod:
    return Pod("t", name, f"uid-{name}", declaration=Declaration("a", "muster"))


def plain(name: str) -> Pod:
    return Pod("t", name, f"uid-{name}", requests={"cpu": 100, "pods": 1})


def bind_effect(number: int, name: str, node: str) -> Bind:
    return Bind(number, ref(name), node, {}, GangKey("t", "a"), "")


def binding(call: BindCall, number: int = 1) -> Taken:
    """The engine's step for a BindCall that has to be carried out first."""
    return Taken(effects=[bind_effect(number, call.ref.name, call.node)])
