"""The scheduler-plugins project: a label names a PodGroup, or (oldest) labels say everything."""

from __future__ import annotations

from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.model import Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "coscheduling"
KIND = "PodGroup.scheduling.x-k8s.io"
"""What all its spellings name, with or without an object."""
KINDS = (KIND, "PodGroup.scheduling.sigs.k8s.io")
"""``Kind.group`` of the objects that :func:`read_group` reads, of any version."""
OWNERS: tuple[str, ...] = ()

_LABELS = {
    "scheduling.x-k8s.io/pod-group": KIND,
    "pod-group.scheduling.sigs.k8s.io": "PodGroup.scheduling.sigs.k8s.io",
}
_PREFIXES = ("pod-group.scheduling.sigs.k8s.io/", "pod-group.scheduling.x-k8s.io/")


def read_pod(source: PodSource) -> Found:
    """The label of today, then the older one, then the pair of labels without an object."""
    for label, kind in _LABELS.items():
        if (value := source.labels.get(label)) is not None:
            return _grouped(label, kind, value, source.namespace)
    for prefix in _PREFIXES:
        if (value := source.labels.get(prefix + "name")) is not None:
            return _alone(prefix, value, source.labels)
    return None


def _grouped(label: str, kind: str, value: object, namespace: str) -> Declaration | Fault:
    name = values.name(value)
    if isinstance(name, Fault):
        return Fault(f"{label}: {name.reason}")
    return Declaration(name, NAME, group=GroupKey(kind, namespace, name), kind=KIND)


def _alone(prefix: str, value: object, labels: Json) -> Declaration | Fault:
    name = values.name(value)
    if isinstance(name, Fault):
        return Fault(f"{prefix}name: {name.reason}")
    stated = labels.get(prefix + "min-available")
    if stated is None:
        return Declaration(name, NAME, kind=KIND)
    least = values.count(stated)
    if isinstance(least, Fault):
        return Fault(f"{prefix}min-available: {least.reason}")
    return Declaration(name, NAME, Options(min_available=least), kind=KIND)


def read_group(obj: Json) -> GroupTerms:
    """``minMember`` and ``scheduleTimeoutSeconds``; what is not stated stays open."""
    spec = mapping(obj.get("spec"))
    least, seconds = spec.get("minMember"), spec.get("scheduleTimeoutSeconds")
    minimum = None if least is None else values.count(least)
    if isinstance(minimum, Fault):
        return GroupTerms(fault=f"spec.minMember: {minimum.reason}")
    timeout = None if seconds is None else values.duration(seconds)
    if isinstance(timeout, Fault):
        return GroupTerms(fault=f"spec.scheduleTimeoutSeconds: {timeout.reason}")
    return GroupTerms(Options(min_available=minimum, timeout=timeout))
