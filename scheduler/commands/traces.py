"""Traces for OpenTelemetry, where its standard variables ask for them.

Those variables are the SDK's own, which reads the rest of them by itself: endpoint, headers,
certificates, sampler, batches and attributes.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from scheduler.service.tracing import Tracing

EXPORTER = "OTEL_TRACES_EXPORTER"
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
DISABLED = "OTEL_SDK_DISABLED"

HTTP = "http/protobuf"

END_S = 3.0
"""Longest wait at the end for the last traces to be sent."""

log = logging.getLogger(__name__)


@contextmanager
def traces(environ: Mapping[str, str] | None = None) -> Iterator[Tracing | None]:
    """What makes spans while the context lasts; None where none are wanted or can be sent.

    What stands in the way is logged and no error: such variables are often set for a whole
    namespace, and gangs start without traces as well.
    """
    stated = os.environ if environ is None else environ
    fault = _fault(stated) if _wanted(stated) else ""
    provider = _provider() if _wanted(stated) and not fault else None
    if fault:
        log.warning("no traces are sent: %s", fault)
    if provider is None:
        yield None
        return
    from scheduler.service.tracing import Tracing

    log.info("traces are sent by OTLP over HTTP")
    try:
        yield Tracing(provider.get_tracer("muster"))
    finally:
        _end(provider.shutdown)


def _end(shutdown: Callable[[], None], within_s: float = END_S) -> None:
    """Send what is left. A collector that does not answer keeps nobody from ending."""
    ending = threading.Thread(target=shutdown, name="muster-traces", daemon=True)
    ending.start()
    ending.join(within_s)
    if ending.is_alive():
        log.warning("the last traces could not be sent within %g s", within_s)


def _wanted(environ: Mapping[str, str]) -> bool:
    """Whether a place for traces, or this way to send them, is stated and nothing is off."""
    if _stated(environ, DISABLED) == "true" or _stated(environ, EXPORTER) == "none":
        return False
    return bool(_stated(environ, EXPORTER, *ENDPOINTS))


def _fault(environ: Mapping[str, str]) -> str:
    """Why traces that are wanted cannot be sent; "" if they can."""
    exporter, protocol = _stated(environ, EXPORTER), _stated(environ, *PROTOCOLS)
    if exporter not in ("", "otlp"):
        return f"{EXPORTER} is {exporter!r}, and only otlp is there: set it to otlp, or to none"
    if protocol not in ("", HTTP):
        return f"{PROTOCOLS[1]} is {protocol!r}, and only {HTTP} is there: set it to that"
    return ""


def _stated(environ: Mapping[str, str], *names: str) -> str:
    """The first of these variables that says anything, in lower case."""
    return next((value for name in names if (value := environ.get(name, "").strip().lower())), "")


def _provider() -> TracerProvider | None:
    """The SDK as its variables say, sending by OTLP; None, with a word in the log, without it."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        log.warning(
            "no traces are sent: OpenTelemetry is not installed (%s): install "
            "muster-scheduler[otel], or unset its variables",
            error,
        )
        return None
    from scheduler import __version__

    own = {"service.name": "muster", "service.version": __version__}
    stated = OTELResourceDetector().detect().attributes
    resource = Resource.create({key: own[key] for key in own if key not in stated})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
