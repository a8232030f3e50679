"""A world that only remembers what it was told."""

from __future__ import annotations

import threading
from collections.abc import Callable

from scheduler.core.messages import (
    ChartGone,
    ChartSeen,
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
)
from scheduler.model import Chart, Group, Node, Pod
from scheduler.service import Metrics

PATIENCE_S = 15.0


class RecordingWorld:
    """Keeps the events, and the objects that an engine would now believe to exist."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.events: list[Event] = []
        self.reason = ""
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.groups: dict[str, Group] = {}
        self.charts: dict[str, Chart] = {}
        self._changed = threading.Condition()

    def post(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._believe(event)
            self._changed.notify_all()

    def set_unready_reason(self, reason: str) -> None:
        with self._changed:
            self.reason = reason
            self._changed.notify_all()

    @property
    def synced(self) -> bool:
        return Synced() in self.events

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), self.events[-5:]

    def restarts(self, resource: str, reason: str) -> float:
        labels = {"resource": resource, "reason": reason}
        value = self.metrics.registry.get_sample_value("muster_watch_restarts_total", labels)
        return value or 0.0

    def _believe(self, event: Event) -> None:
        if isinstance(event, PodSeen):
            self.pods[event.pod.uid] = event.pod
        elif isinstance(event, PodGone):
            self.pods.pop(event.uid, None)
        elif isinstance(event, NodeSeen):
            self.nodes[event.node.name] = event.node
        elif isinstance(event, NodeGone):
            self.nodes.pop(event.name, None)
        elif isinstance(event, GroupSeen):
            self.groups[str(event.group.key)] = event.group
        elif isinstance(event, GroupGone):
            self.groups.pop(str(event.key), None)
        elif isinstance(event, ChartSeen):
            self.charts[str(event.chart.key)] = event.chart
        elif isinstance(event, ChartGone):
            self.charts.pop(str(event.key), None)
