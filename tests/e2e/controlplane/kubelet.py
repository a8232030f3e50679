"""A stand-in for the kubelets of nodes that exist only as API objects.

It posts the pod status that a kubelet's sync would post, ends pods when their time is over, and
fulfils deletions. It keeps no node lease: the controller that would miss it does not run.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import urllib3

from .client import ApiError, Client, Object
from .given import Given
from .objects import EXIT_CODE, GPU, RUN_SECONDS
from .watch import Watch

_RETRY_SECONDS = 0.3
_WORKERS = 8
_FINAL = ("Succeeded", "Failed")


class FakeKubelet:
    """Runs the pods of all nodes, or of those it is told to own, while its block lasts.

    A pod with the annotation `muster.test/run-seconds` ends after so many seconds, with the exit
    status of `muster.test/exit-code`. Other pods run until they are deleted.

    Parameters
    ----------
    namespace
        Only the pods of this namespace.
    start_delay
        Seconds from binding to Running.
    owns
        Which nodes, by name.
    gpus
        Of each node: who comes when they are all given away is refused, as happens where two
        schedulers fill a node. None does not count them.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None = None,
        start_delay: float = 0.0,
        owns: Callable[[str], bool] = lambda node: True,
        gpus: int | None = None,
    ) -> None:
        self._client = client
        self._start_delay = start_delay
        self._owns = owns
        self._lost: set[str] = set()
        self._rejects: dict[str, str] = {}
        self._given = Given(gpus) if gpus is not None else None
        self._begun: set[tuple[str, str]] = set()
        self._addresses = itertools.count(1)
        self._timers = _Timers()
        self._watch = Watch(client, "Pod", self._see, namespace=namespace, fields="spec.nodeName!=")
        self.failures: list[str] = []
        """What the API server refused, for example a status patch of an unacceptable pod."""
        self.refused: list[str] = []
        """Names of pods that were not run."""

    def __enter__(self) -> Self:
        self._timers.start()
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)
        self._timers.stop()

    def lose(self, node: str) -> None:
        """Act no more for this node, like a kubelet that is cut off."""
        self._lost.add(node)

    def reject(self, node: str, reason: str = "OutOfcpu") -> None:
        """Fail pods that come to this node from now on, as a kubelet without room does."""
        self._rejects[node] = reason

    def _see(self, change: str, pod: Object) -> None:
        if change == "DELETED":
            self._give_back(pod)
            return
        if not self._owns(pod["spec"]["nodeName"]):
            return
        if is_overwritten(pod):
            self._timers.after(0.0, lambda: self._take("repair", pod))
        if (step := next_step(pod, self._start_delay)) is None:
            return
        key = (pod["metadata"]["uid"], step.name)
        if key not in self._begun:
            self._begun.add(key)
            self._timers.after(step.delay, lambda: self._take(step.name, pod))

    def _take(self, step: str, pod: Object) -> None:
        if pod["spec"]["nodeName"] in self._lost:
            return
        try:
            getattr(self, f"_{step}")(pod)
        except ApiError as error:
            # 404: gone meanwhile. 409: the name belongs to another pod by now.
            if error.status not in (404, 409):
                self.failures.append(f"{step} {pod['metadata']['name']}: {error}")
        except (urllib3.exceptions.HTTPError, OSError):
            self._timers.after(_RETRY_SECONDS, lambda: self._take(step, pod))

    def _start(self, pod: Object) -> None:
        if (reason := self._refusal(pod)) is not None:
            self.refused.append(pod["metadata"]["name"])
            rejected = {"phase": "Failed", "reason": reason, "message": "rejected by a test"}
            self._post(pod, rejected | {"conditions": [condition("PodScheduled", True)]})
            return
        number = next(self._addresses)
        address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        self._post(pod, running_status(pod, address))

    def _refusal(self, pod: Object) -> str | None:
        if (reason := self._rejects.get(pod["spec"]["nodeName"])) is not None:
            return reason
        if self._given is not None and not self._given.take(pod):
            return f"OutOf{GPU}"
        return None

    def _give_back(self, pod: Object) -> None:
        if self._given is not None:
            self._given.give_back(pod)

    def _repair(self, pod: Object) -> None:
        """Say again that it is scheduled: a kubelet's next sync mends what others overwrote."""
        self._post(pod, {"conditions": [condition("PodScheduled", True)]})

    def _finish(self, pod: Object) -> None:
        code = int((pod["metadata"].get("annotations") or {}).get(EXIT_CODE, "0"))
        self._post(pod, ended_status(pod, code))
        self._give_back(pod)

    def _remove(self, pod: Object) -> None:
        """End the containers, tell so, and let the API server forget the pod."""
        metadata = pod["metadata"]
        if pod["status"].get("phase") not in _FINAL:
            self._post(pod, ended_status(pod, 143))
        self._client.delete(
            "Pod", metadata["name"], metadata["namespace"], grace=0, uid=metadata["uid"]
        )

    def _post(self, pod: Object, status: Object) -> None:
        """Patch the status as kubelets do: merged by condition type, for this very pod."""
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._client.patch(
            "Pod",
            metadata["name"],
            body,
            metadata["namespace"],
            subresource="status",
            how="strategic",
        )


@dataclass(frozen=True)
class Step:
    """What a kubelet does next with a pod, and in how many seconds."""

    name: str
    delay: float


def next_step(pod: Object, start_delay: float = 0.0) -> Step | None:
    """`start`, `finish` or `remove` for a bound pod; None if nothing is to be done."""
    if pod["metadata"].get("deletionTimestamp"):
        return Step("remove", 0.0)
    phase = pod["status"].get("phase", "Pending")
    if phase == "Pending":
        return Step("start", start_delay)
    seconds = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS)
    if phase == "Running" and seconds is not None:
        return Step("finish", float(seconds))
    return None


def is_overwritten(pod: Object) -> bool:
    """Whether a late word of the scheduler's stands in the status of a pod that runs."""
    status = pod["status"]
    told = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return status.get("phase") == "Running" and told.get("PodScheduled") == "False"


def running_status(pod: Object, address: str) -> Object:
    """The status of a pod whose containers have just started."""
    state = {"running": {"startedAt": _now()}}
    positive = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": _now(),
        "hostIP": "192.0.2.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [condition(name, True) for name in (*positive, "PodScheduled")],
        "containerStatuses": _containers(pod, state, ready=True),
    }


def ended_status(pod: Object, code: int) -> Object:
    """The status of a pod whose containers have all ended with that exit status."""
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _now()}
    reason = "PodFailed" if code else "PodCompleted"
    negative = [condition(name, False, reason) for name in ("ContainersReady", "Ready")]
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": negative,
        "containerStatuses": _containers(pod, {"terminated": ended, "running": None}, ready=False),
    }


def condition(name: str, value: bool, reason: str = "") -> Object:
    """A pod condition that changes now."""
    told = {"type": name, "status": str(value), "lastTransitionTime": _now()}
    # An empty reason takes away what the scheduler wrote while the pod waited.
    return {**told, "reason": reason or None, "message": None}


def _containers(pod: Object, state: Object, *, ready: bool) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
            "ready": ready,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(order=True)
class _Due:
    at: float
    number: int
    action: Callable[[], None] = field(compare=False)


class _Timers:
    """Runs actions at their time, a few at once; what is not due when it stops is dropped."""

    def __init__(self) -> None:
        self._waiting: list[_Due] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="kubelet")
        self._thread = threading.Thread(target=self._run, name="kubelet timers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()
        self._workers.shutdown()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        due = _Due(time.monotonic() + seconds, next(self._numbers), action)
        with self._changed:
            heapq.heappush(self._waiting, due)
            self._changed.notify()

    def _run(self) -> None:
        while (action := self._next()) is not None:
            self._workers.submit(action)

    def _next(self) -> Callable[[], None] | None:
        """The next action when it is due; None once stopped."""
        with self._changed:
            while not self._stopped:
                left = self._waiting[0].at - time.monotonic() if self._waiting else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._waiting).action
                self._changed.wait(left)
        return None
