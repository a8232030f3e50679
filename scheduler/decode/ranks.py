"""The rank index of a pod: ours, or the label that its controller sets."""

from __future__ import annotations

from scheduler.decode.faults import Faults
from scheduler.dialects import muster, values
from scheduler.dialects.fields import Fault
from scheduler.dialects.source import PodSource

__all__ = ["index"]

_KEYS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "gang.scheduling.koordinator.sh/network-topology-index",
    "volcano.sh/task-index",
)
"""Annotations or labels of others, by precedence. A value that cannot be read is no index."""


def index(source: PodSource, faults: Faults) -> int | None:
    """The pod's rank index within its role, or None if nothing usable states one."""
    ours = muster.read_index(source)
    if isinstance(ours, Fault):
        faults.note(ours.reason)
        return None
    return _of_controller(source) if ours is None else ours


def _of_controller(source: PodSource) -> int | None:
    for key in _KEYS:
        if (value := source.value(key)) is not None:
            found = values.index(value)
            return None if isinstance(found, Fault) else found
    return None
