"""When each pod of a load was created and bound, and when it ended, as a watch tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.cluster_loads import Arrival
from benchmarks.cluster_measures import GangTimes, Member
from tests.e2e.controlplane.client import Client, Object
from tests.e2e.controlplane.watch import Watch

_FINAL = ("Succeeded", "Failed")


@dataclass(slots=True)
class Seen:
    """What was seen of one pod; times are monotonic seconds."""

    created: float
    bound: float | None = None
    node: str = ""
    ended: float | None = None


class Timeline:
    """Follows the pods of a namespace while its block lasts."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.pods: dict[str, Seen] = {}
        self._changed = threading.Condition()
        self._watch = Watch(client, "Pod", self._see, namespace=namespace)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)

    def wait_created(self, names: Iterable[str], deadline_s: float) -> bool:
        """Wait until all these pods exist; False if they do not in time."""
        return self._wait([*names], lambda _: True, deadline_s)

    def wait_bound(self, names: Iterable[str], deadline_s: float) -> bool:
        """Wait until all these pods are bound; False if they are not in time."""
        return self._wait([*names], lambda pod: pod.bound is not None, deadline_s)

    def wait_ended(self, names: Iterable[str], deadline_s: float) -> bool:
        """Wait until all these pods have ended or are gone; False if they are not in time."""
        return self._wait([*names], lambda pod: pod.ended is not None, deadline_s)

    def gang(self, arrival: Arrival) -> GangTimes:
        """The times of an arrival's pods until now. KeyError if one was not created."""
        seen = [self.pods[name] for name in arrival.pod_names()]
        members = tuple(Member(pod.created, pod.bound, pod.node) for pod in seen)
        return GangTimes(members, time.monotonic())

    def _wait(self, names: list[str], so_far: Callable[[Seen], bool], deadline_s: float) -> bool:
        def missing() -> bool:
            while names and (pod := self.pods.get(names[-1])) is not None and so_far(pod):
                names.pop()
            return bool(names)

        with self._changed:
            return self._changed.wait_for(lambda: not missing(), deadline_s)

    def _see(self, change: str, pod: Object) -> None:
        now = time.monotonic()
        node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
        with self._changed:
            seen = self.pods.setdefault(pod["metadata"]["name"], Seen(now))
            if node and seen.bound is None:
                seen.bound, seen.node = now, node
            if seen.ended is None and (phase in _FINAL or change == "DELETED"):
                seen.ended = now
            self._changed.notify_all()
