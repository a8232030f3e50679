"""Volcano: an annotation names a PodGroup, which also the pods of its own Job carry."""

from __future__ import annotations

from dataclasses import replace

from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text
from scheduler.dialects.laying import lay
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import ALL, Table, one_of, read_table, read_values, replicas
from scheduler.dialects.templates import Part, asks_devices, options
from scheduler.model import Declaration, GroupKey, Options

__all__ = [
    "KINDS",
    "MIN_MEMBER",
    "NAME",
    "OWNERS",
    "TOPOLOGY",
    "read_group",
    "read_pod",
    "read_topology",
]

NAME = "volcano"
KIND = "PodGroup.scheduling.volcano.sh"
JOB = "Job.batch.volcano.sh"
KINDS = (KIND,)
OWNERS = (JOB,)

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
"""Annotation of a workload that has no PodGroup."""

_GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_JOB_NAME = "volcano.sh/job-name"
_MODE = "volcano.sh/network-topology-mode"
_TIER = "volcano.sh/network-topology-highest-tier"
_RULES = ("topologyAffinity", "subGroupTopologyAffinity")
_BETWEEN = "rules between groups are not kept; required anti-affinity of the pods is"
TOPOLOGY = (_MODE, _TIER)
"""Annotations that :func:`read_topology` reads."""


def read_pod(source: PodSource) -> Found:
    """The PodGroup that the pod names, else its Job."""
    for key in _GROUP_NAMES:
        if (value := source.annotations.get(key)) is not None:
            return _declared(source, key, value, KIND)
    value = source.value(_JOB_NAME)
    return None if value is None else _declared(source, _JOB_NAME, value, JOB)


def _declared(source: PodSource, key: str, value: object, kind: str) -> Found:
    name = values.group_name(value)
    if isinstance(name, Fault):
        return Fault(f"{key}: {name.reason}")
    stated = read_table(source.annotations, {MIN_MEMBER: ("min_available", values.count)})
    if isinstance(stated, Fault):
        return stated
    return Declaration(name, NAME, stated, GroupKey(kind, source.namespace, name), kind)


def read_topology(annotations: Json) -> Options | Fault:
    """The topology that the pods of a workload without a PodGroup ask for."""
    readers = {_MODE: _mode, _TIER: _tier}
    stated = {key: read for key, read in readers.items() if annotations.get(key) is not None}
    found = read_values(annotations, stated)
    if isinstance(found, Fault):
        return found
    return _shared(found.get(_MODE, "hard"), "", found.get(_TIER))


def read_group(obj: Json) -> GroupTerms:
    """What a PodGroup or a Job of Volcano says."""
    spec = mapping(obj.get("spec"))
    found = _job(spec) if text(obj.get("kind")) == "Job" else _pod_group(spec)
    if isinstance(found, Fault):
        return GroupTerms(fault=found.reason)
    between = [f"spec.{field}: {_BETWEEN}" for field in _RULES if spec.get(field)]
    return GroupTerms(found, warnings=(*_unkept(spec, found), *between))


def _unkept(spec: Json, kept: Options) -> tuple[str, ...]:
    """Sub-groups that must each share a tier, where there is more than one kind of them."""
    stated = [
        *(("subGroupPolicy", one) for one in sequence(spec.get("subGroupPolicy"))),
        *(
            ("tasks[].partitionPolicy", mapping(task).get("partitionPolicy"))
            for task in sequence(spec.get("tasks"))
        ),
    ]
    near = [(field, _topology(mapping(one).get("networkTopology"))) for field, one in stated]
    held = ("", kept.required, kept.segment_level)
    hard = [field for field, one in near if isinstance(one, Options) and one.required not in held]
    if not hard:
        return ()
    return (f"spec.{hard[0]}: a tier that sub-groups of several kinds must share is not kept",)


# ── PodGroup ──


def _pod_group(spec: Json) -> Options | Fault:
    found = read_table(spec, _POD_GROUP, "spec.")
    segments = _segments(sequence(spec.get("subGroupPolicy")))
    if isinstance(found, Fault) or isinstance(segments, Fault):
        return found if isinstance(found, Fault) else segments
    by_task = sum(number for _, number in found.role_min)
    # Volcano looks at the tasks' minima only where the whole group's minimum has room for them.
    kept = found.role_min if by_task <= (found.min_available or 0) else ()
    return lay(replace(found, role_min=kept), segments)


def _least(value: object) -> int | Fault | None:
    return None if value == 0 else values.count(value)


def _role_minimums(value: object) -> tuple[tuple[str, int], ...] | Fault:
    return values.role_minimums(value) if value != {} else ()


def _topology(value: object) -> Options | Fault:
    """``networkTopology`` of a PodGroup or of a sub-group."""
    readers = {"mode": _mode, "highestTierName": _tier_name, "highestTierAllowed": _tier}
    found = read_values(mapping(value), readers)
    if isinstance(found, Fault):
        return found
    return _shared(found["mode"], found["highestTierName"], found["highestTierAllowed"])


def _shared(mode: str, name: str, tier: int | None) -> Options:
    """A tier that all share.

    Tiers are counted from the nodes up, and only Volcano's own objects say what they are: without
    a name, a tier is called ``volcano-tier-N``, which is a level only where the site has one.
    """
    if mode == "soft":
        return Options(preferred=name)
    return Options(required=name or ("" if tier is None else f"volcano-tier-{tier}"))


def _mode(value: object) -> str | Fault:
    return one_of("hard", "soft")(value or "hard")


def _tier(value: object) -> int | Fault | None:
    return None if value is None else values.index(value)


def _tier_name(value: object) -> str | Fault:
    return values.level(value) if value else ""


def _segments(policies: list[object]) -> Options | Fault:
    """The size of the sub-groups, if they are of one kind and must share a tier."""
    kinds: set[tuple[int, str]] = set()
    for at, policy in enumerate(map(mapping, policies)):
        readers = {"subGroupSize": replicas(0), "networkTopology": _topology}
        found = read_values(policy, readers, f"spec.subGroupPolicy[{at}].")
        if isinstance(found, Fault):
            return found
        kinds.add((found["subGroupSize"], found["networkTopology"].required))
    if len(kinds) != 1:
        return Options()
    [(size, level)] = kinds
    return Options(segment_size=size, segment_level=level) if size and level else Options()


_POD_GROUP: Table = {
    "minMember": ("min_available", _least),
    "minTaskMember": ("role_min", _role_minimums),
    "networkTopology": (ALL, _topology),
}


# ── Job ──


def _job(spec: Json) -> Options | Fault:
    least = read_table(spec, {"minAvailable": ("min_available", _least)}, "spec.")
    if isinstance(least, Fault):
        return least
    parts = []
    tasks = list(map(mapping, sequence(spec.get("tasks"))))
    for at, task in enumerate(tasks):
        part = _task(task, f"spec.tasks[{at}].")
        if isinstance(part, Fault):
            return part
        parts.append(part)
    found = options(parts)
    if found is None:
        return Fault("spec.tasks: have no pods")
    near, segments = _near(spec, "spec."), _partitions(tasks)
    if isinstance(near, Fault) or isinstance(segments, Fault):
        return near if isinstance(near, Fault) else segments
    return lay(lay(_at_least(found, least.min_available), near), segments)


def _near(spec: Json, path: str) -> Options | Fault:
    return read_table(spec, {"networkTopology": (ALL, _topology)}, path)


def _partitions(tasks: list[Json]) -> Options | Fault:
    """Partitions of a task that must each share a tier, if one task alone has them."""
    for at, task in enumerate(tasks):
        policy = mapping(task.get("partitionPolicy"))
        if not policy:
            continue
        path = f"spec.tasks[{at}].partitionPolicy."
        found = read_values(policy, {"partitionSize": replicas(0)}, path)
        near = _near(policy, path)
        if isinstance(found, Fault) or isinstance(near, Fault):
            return found if isinstance(found, Fault) else near
        alone = len(tasks) == 1 and found["partitionSize"] and near.required
        size = found["partitionSize"] if alone else None
        return Options(segment_size=size, segment_level=near.required if alone else "")
    return Options()


def _at_least(found: Options, stated: int | None) -> Options:
    """The minimum that the job states, if it does, and the first phase within it."""
    if stated is None:
        return found
    first = found.first if found.first is not None and found.first < stated else None
    return replace(found, min_available=stated, size=None, first=first)


def _task(task: Json, path: str) -> Part | Fault:
    found = read_values(task, {"replicas": replicas(), "minAvailable": replicas(-1)}, path)
    if isinstance(found, Fault):
        return found
    size, least = found["replicas"], found["minAvailable"]
    waits = bool(sequence(mapping(task.get("dependsOn")).get("name")))
    return Part(size if least < 0 else least, size, waits, asks_devices(task.get("template")))
