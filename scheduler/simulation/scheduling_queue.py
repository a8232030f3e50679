"""kube-scheduler's queue: active, backing off, and waiting for a cluster event.

Plays a scheduler that runs with ``SchedulerPopFromBackoffQ=false``: a pod in back-off stays there
until its time is over, however idle the scheduler is.
"""

from __future__ import annotations

from dataclasses import dataclass

FLUSH_S = 300.0
"""A pod waits at most this long without any event (``podMaxInUnschedulablePodsDuration``)."""


@dataclass(slots=True)
class QueuedPod:
    """A pod's place in the queue."""

    uid: str
    priority: int
    since: float
    """Virtual second at which it entered the active queue's order."""
    sequence: int
    attempts: int = 0
    backoff_until: float = 0.0
    parked_at: float | None = None
    """When it was found unschedulable; None once an event has come since."""


class SchedulingQueue:
    """Pods that wait for a cycle. Back-off is 1 s doubling with each failed try, up to a maximum.

    All calls are O(pods that wait), which is small beside the HTTP call of a cycle.
    """

    def __init__(self, initial_backoff_s: float, max_backoff_s: float) -> None:
        self._initial = initial_backoff_s
        self._max = max_backoff_s
        self._pods: dict[str, QueuedPod] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def add(self, uid: str, priority: int, now: float) -> None:
        """A new pod: active at once."""
        self._sequence += 1
        self._pods[uid] = QueuedPod(uid, priority, now, self._sequence)

    def remove(self, uid: str) -> None:
        """The pod is bound or gone."""
        self._pods.pop(uid, None)

    def pop(self, now: float) -> QueuedPod | None:
        """Take out the next active pod: highest priority, then the longest in the queue."""
        ready = [pod for pod in self._pods.values() if _active_at(pod) <= now]
        if not ready:
            return None
        first = min(ready, key=lambda pod: (-pod.priority, pod.since, pod.sequence))
        del self._pods[first.uid]
        first.attempts += 1
        return first

    def park(self, pod: QueuedPod, now: float) -> None:
        """The pod is unschedulable: wait for an event, and for the end of its back-off."""
        self._back_off(pod, now)
        pod.parked_at = now
        self._pods[pod.uid] = pod

    def retry(self, pod: QueuedPod, now: float) -> None:
        """The cycle failed for another reason: again when the back-off is over."""
        self._back_off(pod, now)
        pod.parked_at = None
        self._pods[pod.uid] = pod

    def wake(self, uid: str) -> None:
        """Something happened to this pod."""
        if uid in self._pods:
            self._pods[uid].parked_at = None

    def wake_all(self) -> None:
        """Something happened in the cluster."""
        for pod in self._pods.values():
            pod.parked_at = None

    def next_time(self) -> float | None:
        """When the next pod becomes active, if nothing else happens; None = the queue is empty."""
        return min((_active_at(pod) for pod in self._pods.values()), default=None)

    def _back_off(self, pod: QueuedPod, now: float) -> None:
        seconds = min(self._max, self._initial * 2 ** min(pod.attempts - 1, 30))
        pod.since = pod.backoff_until = now + seconds


def _active_at(pod: QueuedPod) -> float:
    if pod.parked_at is None:
        return pod.backoff_until
    return max(pod.backoff_until, pod.parked_at + FLUSH_S)
