"""KAI: an annotation names the PodGroup that its grouper made for the workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from scheduler.core.quoting import quoted
from scheduler.core.ranking import HEADS
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text
from scheduler.dialects.laying import lay, only_hard_segments
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

MOST_ABOVE = 16
"""Sub-groups that one may be a part of, one within the other; networks have fewer levels."""

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
    found = read_table(annotations, _TOPOLOGY)
    return found if isinstance(found, Fault) else only_hard_segments(found)


def read_group(obj: Json) -> GroupTerms:
    """Minimum in all, or by sub-group; topology of the whole, or of sub-groups alike."""
    spec = mapping(obj.get("spec"))
    found = read_values(spec, _SPEC, "spec.")
    if isinstance(found, Fault):
        return GroupTerms(fault=found.reason)
    near, parts = found["topologyConstraint"], found["subGroups"]
    least = _minimum(found["minMember"], found["minSubGroup"], parts)
    layers = _layers(parts)
    if len(parts) == 1 and not near.required:
        # All members are in the only sub-group.
        near = replace(near, required=parts[0].level)
    stated = {level for part in parts for level in (part.level, *(up.level for up in part.above))}
    unkept = stated - {"", near.required} if layers is None else ()
    warning = "spec.subGroups: levels that sub-groups unlike each other must share are not kept"
    kept = lay(lay(near, least), _segments(layers or [], near))
    return GroupTerms(kept, warnings=(warning,) if unkept else ())


class _Parent(NamedTuple):
    """A sub-group that is made up of others."""

    name: str
    level: str


class _SubGroup(NamedTuple):
    """A sub-group that has pods."""

    name: str
    least: int
    level: str
    above: tuple[_Parent, ...] = ()
    """The sub-groups that it is a part of, its own parent first."""


def _constraint(value: object) -> Options | Fault:
    found = read_table(
        mapping(value),
        {
            "requiredTopologyLevel": ("required", _level),
            "preferredTopologyLevel": ("preferred", _level),
            "segmentSize": ("segment_size", values.count),
            "segmentRequiredTopologyLevel": ("segment_level", _level),
            "segmentPreferredTopologyLevel": ("", _level),
        },
    )
    return found if isinstance(found, Fault) else only_hard_segments(found)


def _level(value: object) -> str | Fault:
    return "" if value == "" else values.level(value)


def _leaves(stated: object) -> list[_SubGroup] | Fault:
    """Sub-groups that have pods: those that are nobody's parent. O(sub-groups)."""
    groups = [mapping(item) for item in sequence(stated)]
    parents = {text(group.get("name")): text(group.get("parent")) for group in groups}
    of_others = set(parents.values())
    levels: dict[str, str] = {}
    leaves: dict[str, int] = {}
    for at, group in enumerate(groups):
        found = read_values(group, _LEAF, f"[{at}].")
        if isinstance(found, Fault):
            return found
        levels[found["name"]] = found["topologyConstraint"].required
        if found["name"] not in of_others:
            leaves[found["name"]] = found["minMember"]
    above = {name: _above(name, parents, levels) for name in leaves}
    if deep := next((name for name, found in above.items() if len(found) > MOST_ABOVE), None):
        return Fault(f"{quoted(deep)} is a part of more than {MOST_ABOVE} others")
    return [_SubGroup(name, least, levels[name], above[name]) for name, least in leaves.items()]


def _above(name: str, parents: Mapping[str, str], levels: Mapping[str, str]) -> tuple[_Parent, ...]:
    """The sub-group's parent and so on, as far as one more than may be; a circle of parents ends
    where it began."""
    found: dict[str, _Parent] = {}
    while (
        len(found) <= MOST_ABOVE and (name := parents.get(name, "")) in levels and name not in found
    ):
        found[name] = _Parent(name, levels[name])
    return tuple(found.values())


def _minimum(least: int, enough: int, parts: list[_SubGroup]) -> Options:
    """Every sub-group's own minimum; of elastic sub-groups only what the fewest of them take."""
    if 0 < enough < len(parts):
        smallest = sorted(part.least for part in parts)[:enough]
        return Options(min_available=max(least, sum(smallest)))
    roles = tuple(sorted({part.name: part.least for part in parts if part.least}.items()))
    return Options(min_available=least or None, role_min=roles)


_Layers = list[tuple[int, str]]
"""Members and the level that they share, the smallest first."""


def _layers(parts: list[_SubGroup]) -> _Layers | None:
    """What sub-groups share that are alike, and their parents, which are alike as well; None where
    they are not, or where ranks would not run parent by parent."""
    if len({(part.least, part.level, len(part.above)) for part in parts}) != 1:
        return None
    [(size, level, height)] = {(part.least, part.level, len(part.above)) for part in parts}
    found = [(size, level)]
    ranked = sorted(parts, key=lambda part: (part.name not in HEADS, part.name))
    for at in range(height):
        counted = Counter(part.above[at] for part in parts)
        runs = [parent for parent, _ in groupby(part.above[at] for part in ranked)]
        alike = len({(parent.level, count) for parent, count in counted.items()}) == 1
        if not alike or len(runs) != len(counted):
            return None
        [(level, count)] = {(parent.level, count) for parent, count in counted.items()}
        found.append((size * count, level))
    return [layer for layer in found if all(layer)]


def _segments(layers: _Layers, near: Options) -> Options:
    """Sub-groups alike that each share a domain are segments, and parents of them larger ones."""
    asked = [(size, level) for size, level in layers if level != near.required]
    if not asked:
        return Options()
    (size, level), *larger = asked
    return Options(segment_size=size, segment_level=level, segment_within=tuple(larger))


_LEAF = {"name": values.name, "minMember": replicas(0), "topologyConstraint": _constraint}
_SPEC = {
    "minMember": replicas(),
    "minSubGroup": replicas(0),
    "topologyConstraint": _constraint,
    "subGroups": _leaves,
}
