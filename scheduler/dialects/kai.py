"""KAI: an annotation names the PodGroup that its grouper made for the workload."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text
from scheduler.dialects.laying import lay
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import Table, read_table, read_values, replicas
from scheduler.model import Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "TOPOLOGY", "read_group", "read_pod", "read_topology"]

NAME = "kai"
KIND = "PodGroup.scheduling.run.ai"
KINDS = (KIND,)
OWNERS: tuple[str, ...] = ()

_GROUP = "pod-group-name"
_PREFIX = "kai.scheduler/"

_TOPOLOGY: Table = {
    _PREFIX + "topology-required-placement": ("required", values.level),
    _PREFIX + "topology-preferred-placement": ("preferred", values.level),
    _PREFIX + "segment-size": ("segment_size", values.count),
    _PREFIX + "segment-topology-required-placement": ("segment_level", values.level),
    _PREFIX + "segment-topology-preferred-placement": ("", values.level),
    _PREFIX + "topology": ("", values.group_name),
}
TOPOLOGY = tuple(_TOPOLOGY)
"""Annotations that :func:`read_topology` reads."""


def read_pod(source: PodSource) -> Found:
    """The PodGroup that the pod names."""
    value = source.annotations.get(_GROUP)
    if value is None:
        return None
    name = values.group_name(value)
    if isinstance(name, Fault):
        return Fault(f"{_GROUP}: {name.reason}")
    return Declaration(name, NAME, group=GroupKey(KIND, source.namespace, name), kind=KIND)


def read_topology(annotations: Json) -> Options | Fault:
    """The level that all share, and the one that each segment shares."""
    return read_table(annotations, _TOPOLOGY)


def read_group(obj: Json) -> GroupTerms:
    """Minimum in all, or by sub-group; topology of the whole, or of sub-groups alike."""
    spec = mapping(obj.get("spec"))
    found = read_values(spec, _SPEC, "spec.")
    if isinstance(found, Fault):
        return GroupTerms(fault=found.reason)
    near, parts = found["topologyConstraint"], found["subGroups"]
    least = _minimum(found["minMember"], found["minSubGroup"], parts)
    segments = _segments(parts)
    unkept = any(part.level for part in parts) and not segments.segment_level
    warning = "spec.subGroups: levels that sub-groups unlike each other must share are not kept"
    return GroupTerms(lay(lay(near, least), segments), warnings=(warning,) if unkept else ())


class _SubGroup(NamedTuple):
    name: str
    least: int
    level: str


def _constraint(value: object) -> Options | Fault:
    return read_table(
        mapping(value),
        {
            "requiredTopologyLevel": ("required", _level),
            "preferredTopologyLevel": ("preferred", _level),
            "segmentSize": ("segment_size", values.count),
            "segmentRequiredTopologyLevel": ("segment_level", _level),
        },
    )


def _level(value: object) -> str | Fault:
    return "" if value == "" else values.level(value)


def _leaves(stated: object) -> list[_SubGroup] | Fault:
    """Sub-groups that have pods: those that are nobody's parent."""
    groups = [mapping(item) for item in sequence(stated)]
    parents = {text(group.get("parent")) for group in groups}
    leaves = []
    for at, group in enumerate(groups):
        if text(group.get("name")) in parents:
            continue
        leaf = read_values(group, _LEAF, f"[{at}].")
        if isinstance(leaf, Fault):
            return leaf
        level = leaf["topologyConstraint"].required
        leaves.append(_SubGroup(leaf["name"], leaf["minMember"], level))
    return leaves


def _minimum(least: int, enough: int, parts: list[_SubGroup]) -> Options:
    """Every sub-group's own minimum; of elastic sub-groups only what the fewest of them take."""
    if 0 < enough < len(parts):
        smallest = sorted(part.least for part in parts)[:enough]
        return Options(min_available=max(least, sum(smallest)))
    roles = tuple(sorted({part.name: part.least for part in parts if part.least}.items()))
    return Options(min_available=least or None, role_min=roles)


def _segments(parts: list[_SubGroup]) -> Options:
    """Sub-groups alike that each share a domain are segments."""
    alike = {(part.least, part.level) for part in parts}
    if len(parts) < 2 or len(alike) != 1:
        return Options()
    [(size, level)] = alike
    return Options(segment_size=size, segment_level=level) if size and level else Options()


_LEAF = {"name": values.name, "minMember": replicas(0), "topologyConstraint": _constraint}
_SPEC = {
    "minMember": replicas(),
    "minSubGroup": replicas(0),
    "topologyConstraint": _constraint,
    "subGroups": _leaves,
}
