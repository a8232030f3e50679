"""Carries out the engine's effects against the embedded API server, in virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.messages import (
    Bind,
    Cancel,
    ClearNomination,
    Effect,
    EffectDone,
    Event,
    Evict,
    Nominate,
    Outcome,
    Record,
    Wake,
)
from scheduler.model import PodRef
from scheduler.simulation.apiserver import Answer, ApiServer, pod_key
from scheduler.simulation.clock import EventLoop

WAKE = "muster.scheduler/wake"
"""Annotation whose change makes the scheduler look at the pod again."""


@dataclass(frozen=True, slots=True)
class WriteTimes:
    """How writes travel to the API server."""

    connections: int = 16
    """Writes under way at the same time."""
    latency_s: float = 0.005
    """Virtual seconds of one write."""


class EmbeddedActuator:
    """Sends each effect on the connection that is free first, in the order of submission."""

    def __init__(self, api: ApiServer, loop: EventLoop, times: WriteTimes) -> None:
        self._api = api
        self._loop = loop
        self._times = times
        self._post: Callable[[Event], None] = _unconnected
        self._free_at = [0.0] * times.connections
        self._cancelled: set[int] = set()
        self._unsent: set[int] = set()
        self._binding: dict[int, PodRef] = {}
        self._events = 0

    def start(self, post: Callable[[Event], None]) -> None:
        """Report outcomes to ``post``, on the loop's thread."""
        self._post = post

    def submit(self, effects: Sequence[Effect]) -> None:
        """Take effects in, from any thread; they are sent when the loop gets to them."""
        taken = tuple(effects)
        self._loop.call_threadsafe(lambda: self._take(taken))

    def stop(self, deadline_s: float) -> None:
        """Send nothing more: what was not sent yet ends as cancelled."""
        del deadline_s
        self._cancelled |= self._unsent

    def binds(self, uid: str) -> bool:
        """Whether a Binding of that pod is on its way."""
        return any(ref.uid == uid for ref in self._binding.values())

    @property
    def binding(self) -> frozenset[str]:
        """Uids of the pods whose Binding is on its way."""
        return frozenset(ref.uid for ref in self._binding.values())

    def _take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Cancel):
                self._cancelled |= self._unsent & {effect.target}
            else:
                self._plan(effect)

    def _plan(self, effect: Effect) -> None:
        sent_at = max(self._loop.now(), heapq.heappop(self._free_at))
        heapq.heappush(self._free_at, sent_at + self._times.latency_s)
        self._unsent.add(effect.id)
        if isinstance(effect, Bind):
            self._binding[effect.id] = effect.ref
        self._loop.call_at(sent_at, lambda: self._send(effect))

    def _send(self, effect: Effect) -> None:
        self._unsent.discard(effect.id)
        if effect.id in self._cancelled:
            self._cancelled.discard(effect.id)
            self._end(effect, EffectDone(effect.id, Outcome.CANCELLED))
        else:
            self._loop.call_after(self._times.latency_s, lambda: self._carry_out(effect))

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Record):
            self._record(effect.refs, effect.reason, effect.message, effect.warning)
            return
        self._end(effect, self._outcome(effect))

    def _end(self, effect: Effect, done: EffectDone) -> None:
        self._binding.pop(effect.id, None)
        if not isinstance(effect, Record):
            self._post(done)

    def _outcome(self, effect: Effect) -> EffectDone:
        if isinstance(effect, Bind | Nominate | Wake) and effect.lift:
            self._api.lift(*effect.ref)
        match effect:
            case Bind():
                return self._bind(effect)
            case Nominate(ref=ref, node=node):
                answer = self._api.nominate(*ref, node)
            case ClearNomination(ref=ref):
                answer = self._api.nominate(*ref, "")
            case Wake(ref=ref):
                answer = self._api.annotate(*ref, {WAKE: str(effect.id)})
            case Evict(ref=ref):
                answer = self._api.evict(*ref, effect.reason)
            case _:
                raise TypeError(f"{type(effect).__name__} is not an effect with an outcome")
        return _done(effect.id, Outcome.OK if answer.ok else Outcome.GONE, answer)

    def _bind(self, effect: Bind) -> EffectDone:
        answer = self._api.bind(*effect.ref, effect.node, effect.annotations)
        if answer.ok:
            self._record((effect.ref,), "Scheduled", effect.note, warning=False)
            return _done(effect.id, Outcome.OK, answer)
        return _done(effect.id, self._refused(effect), answer)

    def _refused(self, effect: Bind) -> Outcome:
        """A refusal does not say why reliably, so the pod itself is looked at."""
        pod = self._api.store.get(pod_key(effect.ref.namespace, effect.ref.name))
        if pod is None or pod["metadata"]["uid"] != effect.ref.uid:
            return Outcome.GONE
        node = pod["spec"].get("nodeName", "")
        if not node:
            return Outcome.GONE
        return Outcome.OK if node == effect.node else Outcome.CONFLICT

    def _record(
        self, refs: Sequence[PodRef], reason: str, message: str, warning: bool = False
    ) -> None:
        for ref in refs:
            self._events += 1
            event = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{ref.name}.{self._events:x}", "namespace": ref.namespace},
                "involvedObject": {"kind": "Pod", **ref._asdict()},
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
            }
            self._api.create(event)


def _done(effect_id: int, outcome: Outcome, answer: Answer) -> EffectDone:
    return EffectDone(effect_id, outcome, answer.message)


def _unconnected(event: Event) -> None:
    raise RuntimeError(f"{type(event).__name__} before start()")
