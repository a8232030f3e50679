"""Every number that Muster exports, with its unit in the name and a help text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_REQUEST_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_STEP_BUCKETS = (0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5)
_WAIT_BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600)
_START_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BIND_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

Observe = Callable[[], Iterable[Metric]]


class Metrics:
    """One registry per service, so that two services in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.requests = Histogram(
            "muster_request_seconds",
            "Seconds from a request's arrival to its answer, by verb and HTTP status.",
            ("verb", "code"),
            buckets=_REQUEST_BUCKETS,
            registry=self.registry,
        )
        self.steps = Histogram(
            "muster_step_seconds",
            "Seconds that the engine took for one event, by kind of event.",
            ("event",),
            buckets=_STEP_BUCKETS,
            registry=self.registry,
        )
        self.step_failures = self._counter(
            "muster_step_failures_total",
            "Events that the engine failed on with an internal error; always a bug.",
            "event",
        )
        self.one_node_calls = self._counter(
            "muster_filter_one_node_calls_total",
            "Filter calls that offered one node only, as a nomination makes the scheduler do.",
        )
        self.fallbacks = self._counter(
            "muster_fallback_answers_total",
            "Requests answered without the engine, by verb and reason (busy, error, unreadable).",
            "verb",
            "reason",
        )
        self.effects = self._counter(
            "muster_effects_total",
            "Effects carried out (Bind, Nominate, Wake, Evict, …), by kind and outcome.",
            "kind",
            "outcome",
        )
        self.records = self._counter(
            "muster_records_total",
            "Events that Muster recorded on gangs, by reason.",
            "reason",
        )
        self.rejections = self._counter(
            "muster_rejected_members_total",
            "Members of gangs that a kubelet refused to run (OutOf…), and that are to be replaced.",
        )
        self.bind_seconds = Histogram(
            "muster_bind_seconds",
            "Seconds from the decision to bind a pod until the engine knows of the outcome.",
            buckets=_BIND_BUCKETS,
            registry=self.registry,
        )
        self.gang_wait = Histogram(
            "muster_gang_wait_seconds",
            "Seconds from a gang's being complete to min members bound, by members (1, 2-8, …).",
            ("members",),
            buckets=_WAIT_BUCKETS,
            registry=self.registry,
        )
        self.gang_start = Histogram(
            "muster_gang_start_seconds",
            "Seconds from a gang's first Binding being decided to min members bound, by members.",
            ("members",),
            buckets=_START_BUCKETS,
            registry=self.registry,
        )
        self.watch_lag = Histogram(
            "muster_watch_lag_seconds",
            "Seconds from the confirmation of a Binding until the watch told the engine of it.",
            buckets=_BIND_BUCKETS,
            registry=self.registry,
        )
        self.watch_restarts = self._counter(
            "muster_watch_restarts_total",
            "Watches that ended and were started again, by resource and reason.",
            "resource",
            "reason",
        )
        self.events_dropped = self._counter(
            "muster_events_dropped_total",
            "Kubernetes Events not written because too many were waiting or one was refused.",
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def add_observer(self, observe: Observe) -> None:
        """Have ``observe`` called on each scrape for gauges that are computed, not counted."""
        self.registry.register(_Observer(observe))

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)


class _Observer(Collector):
    def __init__(self, observe: Observe) -> None:
        self._observe = observe

    def collect(self) -> Iterable[Metric]:
        return self._observe()

    def describe(self) -> Iterable[Metric]:
        return ()


def gauge(name: str, text: str, label: str, values: dict[str, Any]) -> Metric:
    """A gauge with one sample for each label value."""
    family = GaugeMetricFamily(name, text, labels=[label])
    for key in sorted(values):
        family.add_metric([key], float(values[key]))
    return family
