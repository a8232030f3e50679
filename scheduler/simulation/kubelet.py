"""The kubelets of all nodes: admit, run, finish and terminate pods."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model import Pod, Resources
from scheduler.simulation.apiserver import TERMINAL_PHASES, ApiServer
from scheduler.simulation.clock import EventLoop
from scheduler.simulation.objects import Change, ChangeType, Key, Object
from scheduler.simulation.readings import Readings

RUN_SECONDS = "simulation.muster.scheduler/run-seconds"
"""Pod annotation: virtual seconds that the pod runs before it succeeds; without it, for ever."""


@dataclass(frozen=True, slots=True)
class KubeletTimes:
    """How long a kubelet takes, in virtual seconds."""

    start_s: float = 1.0
    """From the Binding to running containers."""
    stop_s: float = 1.0
    """From the deletion to the end of the containers; the pod's grace period caps it."""


class Kubelet:
    """Follows the pods bound to nodes that exist; a pod on an unknown node is nobody's."""

    def __init__(
        self, api: ApiServer, loop: EventLoop, readings: Readings, times: KubeletTimes
    ) -> None:
        self._api = api
        self._loop = loop
        self._readings = readings
        self._times = times
        self._admitted: dict[str, dict[str, Resources]] = {}
        """Node name -> pod uid -> what the pod holds there."""
        self._handled: set[str] = set()
        self._stopping: set[str] = set()
        api.store.watch(self._on_change)

    def _on_change(self, change: Change) -> None:
        pod, uid = change.object, change.object["metadata"]["uid"]
        node = pod.get("spec", {}).get("nodeName", "")
        if change.key.kind != "Pod" or not node:
            return
        if change.type is ChangeType.DELETED:
            self._release(node, uid)
            self._handled.discard(uid)
        elif pod["status"]["phase"] in TERMINAL_PHASES:
            self._release(node, uid)
        elif pod["metadata"].get("deletionTimestamp"):
            self._stop(change.key, pod)
        elif uid not in self._handled and self._node(node) is not None:
            self._handled.add(uid)
            self._loop.call_after(self._times.start_s, lambda: self._start(change.key, uid))

    def _start(self, key: Key, uid: str) -> None:
        item = self._current(key, uid)
        if item is None or item["metadata"].get("deletionTimestamp"):
            return
        pod = self._readings.pod(item)
        lacking = self._lacking(pod)
        if lacking:
            self._api.set_phase(key, "Failed", f"OutOf{lacking}")
            return
        self._admitted.setdefault(pod.node, {})[uid] = pod.requests
        self._api.set_phase(key, "Running")
        seconds = item["metadata"].get("annotations", {}).get(RUN_SECONDS)
        if seconds is not None:
            self._loop.call_after(float(seconds), lambda: self._finish(key, uid))

    def _finish(self, key: Key, uid: str) -> None:
        item = self._current(key, uid)
        if item is not None and not item["metadata"].get("deletionTimestamp"):
            self._api.set_phase(key, "Succeeded")

    def _stop(self, key: Key, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._stopping or self._node(pod["spec"]["nodeName"]) is None:
            return
        self._stopping.add(uid)
        grace = min(self._times.stop_s, pod["metadata"]["deletionGracePeriodSeconds"])
        self._loop.call_after(grace, lambda: self._finalize(key, uid))

    def _finalize(self, key: Key, uid: str) -> None:
        self._api.finalize(key, uid)

    def _release(self, node: str, uid: str) -> None:
        self._admitted.get(node, {}).pop(uid, None)
        self._stopping.discard(uid)

    def _lacking(self, pod: Pod) -> str:
        """The first resource that the node no longer has for the pod; "" if it has all."""
        node = self._node(pod.node)
        if node is None:
            return "node"
        room = self._readings.node(node).allocatable
        held = self._admitted.get(pod.node, {}).values()
        for name, amount in sorted(pod.requests.items()):
            if amount + sum(other.get(name, 0) for other in held) > room.get(name, 0):
                return name
        return ""

    def _current(self, key: Key, uid: str) -> Object | None:
        item = self._api.store.get(key)
        return item if item is not None and item["metadata"]["uid"] == uid else None

    def _node(self, name: str) -> Object | None:
        return self._api.store.get(Key("Node", "", name))
