"""The rank index of a pod: ours, the one that it points to, or the label of its controller."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.decode.faults import Faults
from scheduler.dialects import muster, values
from scheduler.dialects.fields import Fault, text
from scheduler.dialects.source import PodSource

__all__ = ["index"]

_POINTERS = ("kai.scheduler/pod-index-label", "kueue.x-k8s.io/pod-group-pod-index-label")
"""Annotations that name the label which has the index; the label may also be an annotation."""

_OFFSET = "kueue.x-k8s.io/pod-index-offset"
"""The index at which the pods of this template begin."""

_COMPLETION = "batch.kubernetes.io/job-completion-index"
_JOB = "batch.kubernetes.io/job-name"

_KEYS = (
    _COMPLETION,
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    "gang.scheduling.koordinator.sh/network-topology-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
)
"""Annotations or labels of others, by precedence. A value that cannot be read is no index."""

_TELLTALES = frozenset((*_POINTERS, _OFFSET))


class Index(NamedTuple):
    """The pod's place within its role, if it has one, and what could not be read of it."""

    value: int | None
    warnings: tuple[str, ...] = ()
    job: str = ""
    """The Job in which it counts; "" if it counts in all of the role."""


def index(source: PodSource, faults: Faults) -> Index:
    """The pod's rank index within its role."""
    ours = muster.read_index(source)
    if isinstance(ours, Fault):
        faults.note(ours.reason)
        return Index(None)
    return _of_others(source) if ours is None else Index(ours)


def _of_others(source: PodSource) -> Index:
    pointed = not _TELLTALES.isdisjoint(source.annotations)
    found = _pointed_to(source) if pointed else None
    found = found or _of_controller(source)
    return _without_offset(source, found) if pointed and found.value is not None else found


def _pointed_to(source: PodSource) -> Index | None:
    """The index under the key that an annotation names; None if none does."""
    for pointer in _POINTERS:
        key = source.annotations.get(pointer)
        if isinstance(key, str) and key:
            return _read(source, key)
    return None


def _of_controller(source: PodSource) -> Index:
    key = next((key for key in _KEYS if source.value(key) is not None), None)
    return Index(None) if key is None else _read(source, key)


def _read(source: PodSource, key: str) -> Index:
    found = values.index(source.value(key))
    if isinstance(found, Fault):
        return Index(None, (f"{key[:300]}: {found.reason}",))
    # Every Job of a JobSet counts from 0.
    return Index(found, job=text(source.value(_JOB)) if key == _COMPLETION else "")


def _without_offset(source: PodSource, found: Index) -> Index:
    """Counted from 0, where the template's pods begin at another number."""
    stated = source.annotations.get(_OFFSET)
    if stated is None or found.value is None:
        return found
    offset = values.index(stated)
    if isinstance(offset, Fault):
        return found._replace(warnings=(f"{_OFFSET}: {offset.reason}",))
    if offset > found.value:
        told = f"{_OFFSET}: {offset} is more than the index, {found.value}"
        return found._replace(warnings=(told,))
    return found._replace(value=found.value - offset)
