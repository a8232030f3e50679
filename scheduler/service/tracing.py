"""OpenTelemetry spans of the scheduler's calls, and of the requests that follow from decisions.

This module, and with it OpenTelemetry's SDK, is imported only where traces are asked for. No
global provider is set, so nothing but these spans is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from scheduler.core.messages import (
    Bind,
    Cancel,
    ClearNomination,
    Effect,
    Evict,
    Nominate,
    Outcome,
    Record,
    Wake,
)
from scheduler.model import PodRef

GANG = "muster.gang"
NODE = "k8s.node.name"
OFFERED = "muster.nodes.offered"
LEFT = "muster.nodes.left"
REASON = "muster.reason"
OUTCOME = "muster.outcome"
REQUESTS = "muster.requests"

TEXT_LENGTH = 256
"""Most characters of a reason or a detail."""

Request = Bind | Nominate | ClearNomination | Wake | Evict
"""The effects that are sent to the API server."""


class Tracing:
    """Makes spans, and knows which of them others belong to. Thread-safe."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._calls: dict[str, Context] = {}
        self._decisions: dict[int, _Decision] = {}
        self._lock = threading.Lock()

    # ── calls of the scheduler ──

    def call(self, verb: str, ref: PodRef) -> Span:
        """The begin of a call for a pod."""
        return self._tracer.start_span(
            f"muster.{verb}", Context(), SpanKind.SERVER, attributes=_pod(ref)
        )

    def bind_began(self, ref: PodRef, span: Span) -> None:
        """A call to bind: the Binding that follows from it belongs to ``span``."""
        with self._lock:
            self._calls[ref.uid] = set_span_in_context(span, Context())

    def bind_ended(self, ref: PodRef) -> None:
        """The call has its answer."""
        with self._lock:
            self._calls.pop(ref.uid, None)

    # ── what follows from decisions ──

    def decided(self, requests: Sequence[Request], gangs: Sequence[str]) -> None:
        """Requests of one or more steps, each with its gang ("" = none).

        Those of one gang get a span around all of them, which lasts until the last has ended.
        """
        made: dict[str, _Decision] = {}
        with self._lock:
            for request, gang in zip(requests, gangs, strict=True):
                call = self._calls.get(request.ref.uid) if isinstance(request, Bind) else None
                decision = made.get(gang) if call is None else _Decision(gang, call)
                if decision is None:
                    decision = made[gang] = self._decision(gang, gangs.count(gang))
                decision.open += 1
                self._decisions[request.id] = decision

    @contextmanager
    def sending(self, request: Request) -> Iterator[Span]:
        """Around one request to the API server, and what is read and sent again for its sake."""
        with self._lock:
            decision = self._decisions.get(request.id)
        attributes = _pod(request.ref)
        if decision is not None and decision.gang:
            attributes[GANG] = decision.gang
        if isinstance(request, Bind | Nominate):
            attributes[NODE] = request.node
        if isinstance(request, Evict):
            attributes[REASON] = request.reason[:TEXT_LENGTH]
        with self._tracer.start_as_current_span(
            f"muster.{type(request).__name__}",
            decision.context if decision else Context(),
            SpanKind.CLIENT,
            attributes=attributes,
        ) as span:
            yield span

    def ended(self, request: Request) -> None:
        """The request has its outcome, whether it was sent or not."""
        with self._lock:
            decision = self._decisions.pop(request.id, None)
            if decision is None:
                return
            decision.open -= 1
            last = decision.open == 0
        if last and decision.span is not None:
            decision.span.end()

    def _decision(self, gang: str, requests: int) -> _Decision:
        if not gang or requests < 2:
            return _Decision(gang, Context())
        span = self._tracer.start_span(
            "muster.decision", Context(), attributes={GANG: gang, REQUESTS: requests}
        )
        return _Decision(gang, set_span_in_context(span, Context()), span)


class _Decision:
    """What several requests belong to."""

    def __init__(self, gang: str, context: Context, span: Span | None = None) -> None:
        self.gang = gang
        self.context = context
        self.span = span
        self.open = 0


def requests_of(effects: Sequence[Effect]) -> list[Request]:
    """Those effects that are sent to the API server for a pod."""
    return [effect for effect in effects if not isinstance(effect, Record | Cancel)]


def outcome(span: Span, found: Outcome, detail: str) -> None:
    """How a request ended. What was cancelled is no error."""
    span.set_attribute(OUTCOME, found.value)
    if found not in (Outcome.OK, Outcome.CANCELLED):
        failed(span, detail or found.value)


def failed(span: Span, text: str) -> None:
    """That what was to be done was not."""
    span.set_status(Status(StatusCode.ERROR, text[:TEXT_LENGTH]))


def _pod(ref: PodRef) -> dict[str, str | int]:
    return {"k8s.namespace.name": ref.namespace, "k8s.pod.name": ref.name, "k8s.pod.uid": ref.uid}
