"""The overview as metrics, computed on each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from scheduler.service import Totals
from scheduler.service.metrics import gauge


def role(leads: bool) -> Metric:
    """Whether this replica acts."""
    return _one("muster_leads", "1 while this replica acts, 0 while it stands by.", float(leads))


def figures(found: Mapping[str, Any], totals: Totals) -> Iterable[Metric]:
    """Every gauge that is read off the engine's state."""
    yield role(leads=True)
    gpus, waiting = found["gpus"], found["waiting"]
    yield gauge("muster_gangs", "Gangs, by state.", "state", found["gangs"])
    yield gauge(
        "muster_gang_reasons",
        "Gangs that are not well, those of one pod too, by reason.",
        "reason",
        found.get("reasons", {}),
    )
    yield _one(
        "muster_waiting_gangs",
        "Depth of the queue: gangs, those of one pod too, that are complete and have no room.",
        waiting["gangs"],
    )
    yield _one("muster_waiting_pods", "Pods of these gangs without a place.", waiting["pods"])
    yield _one(
        "muster_longest_wait_seconds",
        "Seconds that the longest waiting of these gangs has waited.",
        waiting["longest_s"],
    )
    yield _one("muster_reservations", "Seats reserved and not yet bound.", totals.reserved)
    yield CounterMetricFamily(
        "muster_expired_reservations",
        "Reservations that ran out before their pods were bound.",
        value=totals.expired,
    )
    yield gauge("muster_nodes", "Nodes, and those that take new pods.", "which", found["nodes"])
    yield gauge(
        "muster_gpus",
        "Accelerators of all nodes: in all, used, and reserved for gangs that start.",
        "which",
        {name: gpus[name] for name in ("total", "used", "reserved")},
    )
    yield gauge(
        "muster_free_gpus",
        "Free accelerators on nodes that are wholly free, partly free, or take no new pods.",
        "completeness",
        gpus["free"],
    )
    yield _largest(found["largest_gang"])
    if found["fragmentation"] is not None:
        yield _one(
            "muster_fragmentation",
            "Share of free accelerators (0 to 1) that a pod like those there are could not use.",
            found["fragmentation"],
        )


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _largest(rows: Iterable[Mapping[str, Any]]) -> Metric:
    family = GaugeMetricFamily(
        "muster_largest_gang",
        "Pods of so many accelerators each that fit into one domain of a level now, at best.",
        labels=["level", "gpus_per_pod", "resource"],
    )
    for row in rows:
        labels = [str(row["level"]), str(row["gpus_per_pod"]), str(row["resource"])]
        family.add_metric(labels, float(row["pods"]))
    return family
