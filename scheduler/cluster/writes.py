"""One effect, one request, one outcome. What a lost or refused request means is decided here."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler import decode
from scheduler.cluster.throttle import Throttle
from scheduler.cluster.transport import (
    Answer,
    LostReplyError,
    Transport,
    UnreachableError,
    segment,
)
from scheduler.core.messages import (
    Bind,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    Outcome,
    Wake,
)
from scheduler.errors import ClusterError, DecodeError
from scheduler.model import Pod, PodRef

WOKEN = "muster.scheduler/woken"
"""The annotation whose change makes the scheduler look at a pod again."""

ANNOTATION_BYTES = 8192
"""Most bytes of annotations on a Binding. Nothing else checks them, and a pod with a bad key or
hundreds of kilobytes can never be updated again."""

THROTTLED_TRIES = 3
"""How often a write is sent that is refused as one too many, before the engine hears of it."""

_QUALIFIED = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)


_UNGATED: dict[str, Any] = {"schedulingGates": None}

Send = Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Result:
    """How an effect ended, and what was learnt of the pod on the way."""

    outcome: Outcome
    detail: str = ""
    pod: Pod | None = None
    """The pod as it was read, if it was."""


@dataclass(frozen=True, slots=True)
class _Request:
    send: Send
    ref: PodRef
    node: str | None
    """Where the pod is bound after a success; None where the request does not bind."""


class Writer:
    """Carries effects out, each to its end. Thread-safe.

    ``is_cancelled`` is asked before every send, and in pauses, which ``stopped`` ends too.
    """

    def __init__(
        self,
        transport: Transport,
        is_cancelled: Callable[[int], bool],
        stopped: threading.Event,
    ) -> None:
        self._transport = transport
        self._is_cancelled = is_cancelled
        self._stopped = stopped
        self._throttle = Throttle()
        self._started = int(time.time())

    def carry_out(self, effect: Effect) -> Result:
        """Send an effect and find out how it ended. Raises nothing on purpose."""
        if isinstance(effect, Bind):
            fault = annotation_fault(effect.annotations)
            if fault:
                return Result(Outcome.ERROR, fault)
        request = self._request(effect)
        for _ in range(THROTTLED_TRIES):
            if not self._throttle.enter(lambda: self._is_wanted(effect)):
                return Result(Outcome.CANCELLED)
            try:
                answer = self._send(request, isinstance(effect, Evict))
            except UnreachableError as error:
                return Result(Outcome.ERROR, str(error))
            except LostReplyError as error:
                return self._lost(request, error)
            if answer.status != 429 or isinstance(effect, Evict):
                return self._answered(request, answer)
        return Result(Outcome.ERROR, answer.text)

    def _is_wanted(self, effect: Effect) -> bool:
        return not (self._stopped.is_set() or self._is_cancelled(effect.id))

    def _send(self, request: _Request, guarded: bool) -> Answer:
        """Send, and tell the throttle; of an eviction, a 429 is the word of a disruption budget."""
        answer = None
        try:
            answer = request.send()
            return answer
        finally:
            if answer is not None and answer.status == 429 and not guarded:
                self._throttle.refused(answer.retry_after_s)
            else:
                self._throttle.leave()

    # ── requests ──

    def _request(self, effect: Effect) -> _Request:
        if isinstance(effect, Bind):
            first = self._lift(effect.ref) if effect.lift else None
            return self._post(effect.ref, "binding", _binding(effect), effect.node, first)
        if isinstance(effect, Evict):
            return self._post(effect.ref, "eviction", _eviction(effect.ref))
        if isinstance(effect, Nominate):
            last = self._lift(effect.ref) if effect.lift else None
            body = _nomination(effect.ref, effect.node)
            return self._patch(effect.ref, "/status", body, last)
        if isinstance(effect, ClearNomination):
            return self._patch(effect.ref, "/status", _nomination(effect.ref, None))
        if isinstance(effect, Wake):
            woken = f"{self._started}-{effect.id}"
            metadata = {"uid": effect.ref.uid, "annotations": {WOKEN: woken}}
            lifted = {"spec": _UNGATED} if effect.lift else {}
            return self._patch(effect.ref, "", {"metadata": metadata, **lifted})
        raise ClusterError(f"an effect {type(effect).__name__} is no request to the API server")

    def _lift(self, ref: PodRef) -> Send:
        """Take Muster's own gate off. It was the only one, and none can be added to a pod."""
        body = {"metadata": {"uid": ref.uid}, "spec": _UNGATED}
        return lambda: self._transport.patch(_path(ref), body)

    def _post(
        self, ref: PodRef, what: str, body: Any, node: str | None = None, first: Send | None = None
    ) -> _Request:
        path = f"{_path(ref)}/{what}"
        return _Request(_in_turn(first, lambda: self._transport.post(path, body)), ref, node)

    def _patch(self, ref: PodRef, what: str, body: Any, last: Send | None = None) -> _Request:
        path = _path(ref) + what
        return _Request(_in_turn(lambda: self._transport.patch(path, body), last), ref, None)

    # ── outcomes ──

    def _answered(self, request: _Request, answer: Answer) -> Result:
        if answer.ok:
            return Result(Outcome.OK)
        if answer.status in (404, 409, 422):
            return self._look(request, Outcome.CONFLICT, answer.text)
        if answer.status >= 500 and request.node is not None:
            return self._look(request, Outcome.ERROR, answer.text)
        return Result(Outcome.ERROR, answer.text)

    def _lost(self, request: _Request, error: LostReplyError) -> Result:
        outcome = Outcome.TIMEOUT if error.timed_out else Outcome.ERROR
        return self._look(request, outcome, str(error))

    def _look(self, request: _Request, otherwise: Outcome, detail: str) -> Result:
        """Read the pod: what it is now decides, and ``otherwise`` if that decides nothing."""
        try:
            answer = self._transport.get(_path(request.ref))
        except ClusterError as error:
            # Nothing is known: a Binding may still have been made, which only a timeout says.
            lost = Outcome.TIMEOUT if otherwise is not Outcome.CONFLICT else otherwise
            return Result(lost, f"{detail}; {error}")
        if answer.status == 404:
            return Result(Outcome.GONE, detail)
        pod = _pod(answer)
        if pod is None:
            return Result(otherwise, f"{detail}; then reading the pod: {answer.text}")
        if pod.uid != request.ref.uid:
            return Result(Outcome.GONE, f"{detail}; another pod has that name now")
        return self._seen(request, otherwise, detail, pod)

    def _seen(self, request: _Request, otherwise: Outcome, detail: str, pod: Pod) -> Result:
        if request.node is not None and pod.node:
            if pod.node == request.node:
                return Result(Outcome.OK, pod=pod)
            return Result(Outcome.CONFLICT, f"the pod is bound to node {pod.node}", pod)
        return Result(otherwise, detail, pod)


def _in_turn(first: Send | None, then: Send | None) -> Send:
    """Both, the second only if the first succeeds."""
    if first is None or then is None:
        found = first or then
        assert found is not None
        return found

    def send() -> Answer:
        answer = first()
        return then() if answer.ok else answer

    return send


def annotation_fault(annotations: Mapping[str, str]) -> str:
    """Why these annotations must not go onto a Binding; "" if they may."""
    for key in annotations:
        if not _QUALIFIED.fullmatch(key):
            return f"annotation key {key!r} is not a qualified name, so the Binding was not sent"
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > ANNOTATION_BYTES:
        return (
            f"the Binding's annotations are {size} bytes, more than {ANNOTATION_BYTES}, "
            "so it was not sent"
        )
    return ""


def _path(ref: PodRef) -> str:
    return f"/api/v1/namespaces/{segment(ref.namespace)}/pods/{segment(ref.name)}"


def _pod(answer: Answer) -> Pod | None:
    if not answer.ok:
        return None
    try:
        return decode.pod_bytes(answer.body)
    except DecodeError:
        return None


def _binding(effect: Bind) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**_identity(effect.ref), "annotations": dict(effect.annotations)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
    }


def _eviction(ref: PodRef) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": ref.namespace, "name": ref.name},
        "deleteOptions": {"preconditions": {"uid": ref.uid}},
    }


def _nomination(ref: PodRef, node: str | None) -> dict[str, Any]:
    return {"metadata": {"uid": ref.uid}, "status": {"nominatedNodeName": node}}


def _identity(ref: PodRef) -> dict[str, str]:
    return {"namespace": ref.namespace, "name": ref.name, "uid": ref.uid}
