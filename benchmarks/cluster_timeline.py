"""When each pod of a load was created and bound, and when it ended, as a watch tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypedDict

import msgspec

from benchmarks.cluster_loads import Arrival
from benchmarks.cluster_measures import GangTimes, Member
from tests.e2e.controlplane.client import Client, Object
from tests.e2e.controlplane.watch import Watch

_FINAL = ("Succeeded", "Failed")
LOOK_S = 0.02
"""Between two looks whether all is as waited for: being told of each change would cost a wake-up
each, on the CPUs that are measured."""


class _Meta(TypedDict, total=False):
    name: str
    uid: str
    resourceVersion: str


class _Spec(TypedDict, total=False):
    nodeName: str


class _Status(TypedDict, total=False):
    phase: str


class _Pod(TypedDict, total=False):
    metadata: _Meta
    spec: _Spec
    status: _Status


class _Line(TypedDict):
    type: str
    object: _Pod


_line: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Line)


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
        self._watch = Watch(client, "Pod", self._see, namespace=namespace, read=_line.decode)

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

        end = time.monotonic() + deadline_s
        while missing():
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_S)
        return True

    def _see(self, change: str, pod: Object) -> None:
        now = time.monotonic()
        node, phase = pod["spec"].get("nodeName"), pod["status"].get("phase")
        seen = self.pods.setdefault(pod["metadata"]["name"], Seen(now))
        if node and seen.bound is None:
            seen.node, seen.bound = node, now
        if seen.ended is None and (phase in _FINAL or change == "DELETED"):
            seen.ended = now
