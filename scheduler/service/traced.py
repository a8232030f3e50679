"""The service with a span around each call of the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from opentelemetry.trace import Span

from scheduler.core.messages import BindReply, FilterReply, PreemptReply, PrioritizeReply
from scheduler.model import PodRef
from scheduler.service.service import PodSource, Service
from scheduler.service.tracing import (
    GANG,
    LEFT,
    NODE,
    OFFERED,
    REASON,
    TEXT_LENGTH,
    Tracing,
    failed,
)


class TracedService(Service):
    """A service whose four verbs are traced. All else is as it is without."""

    def __init__(self, *arguments: Any, tracing: Tracing, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._tracing = tracing

    def filter(
        self, ref: PodRef, names: Sequence[str], pod: PodSource, *, again: bool = False
    ) -> FilterReply:
        """As that of Service; the span is that of the call's first look."""
        if again:
            return super().filter(ref, names, pod, again=True)
        with self._call("filter", ref, len(names)) as span:
            reply = super().filter(ref, names, pod)
            span.set_attribute(LEFT, len(reply.nodes))
            reasons = {*reply.failed.values(), *reply.unresolvable.values()}
            if not reply.nodes and reasons:
                span.set_attribute(REASON, min(reasons)[:TEXT_LENGTH])
            return reply

    def prioritize(self, ref: PodRef, names: Sequence[str], pod: PodSource) -> PrioritizeReply:
        """As that of Service."""
        with self._call("prioritize", ref, len(names)):
            return super().prioritize(ref, names, pod)

    def preempt(
        self, ref: PodRef, victims: Mapping[str, Sequence[str]], pod: PodSource
    ) -> PreemptReply:
        """As that of Service."""
        with self._call("preempt", ref, len(victims)) as span:
            reply = super().preempt(ref, victims, pod)
            span.set_attribute(LEFT, len(reply.victims))
            return reply

    def start_bind(self, ref: PodRef, node: str) -> Future[BindReply]:
        """As that of Service; the span lasts until there is an answer."""
        span = self._tracing.call("bind", ref)
        span.set_attribute(NODE, node)
        self._tracing.bind_began(ref, span)
        future = super().start_bind(ref, node)
        future.add_done_callback(lambda done: self._bound(ref, span, done))
        return future

    def _bound(self, ref: PodRef, span: Span, future: Future[BindReply]) -> None:
        self._tracing.bind_ended(ref)
        error = "nobody waits for it any more" if future.cancelled() else future.result().error
        if error:
            failed(span, error)
        self._end(span, ref)

    @contextmanager
    def _call(self, verb: str, ref: PodRef, offered: int) -> Iterator[Span]:
        span = self._tracing.call(verb, ref)
        span.set_attribute(OFFERED, offered)
        try:
            yield span
        finally:
            self._end(span, ref)

    def _end(self, span: Span, ref: PodRef) -> None:
        # Only now: a pod may become known with the very call.
        span.set_attribute(GANG, self.gang_of(ref.uid))
        span.end()
