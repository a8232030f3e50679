"""A pod of the API as the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler import dialects
from scheduler.decode import limits
from scheduler.decode.burst import outside_allow_list
from scheduler.decode.constraints import anti_affinity, constraints
from scheduler.decode.faults import Faults
from scheduler.decode.metadata import controller, metadata, named, owner, seconds_since_epoch
from scheduler.decode.ranks import index
from scheduler.decode.resources import asked
from scheduler.dialects.fields import Json, mapping, sequence, strings, text
from scheduler.dialects.muster import PREFIX
from scheduler.dialects.source import PodSource
from scheduler.model import Phase, Pod

_HINT = PREFIX + "hint"
_REJECTIONS = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TopologyAffinityError"}
)
"""Reasons of kubelets beside ``OutOf<resource>``."""

_PHASES = {phase.value: phase for phase in Phase}


def pod(obj: Mapping[str, Any], digest: tuple[int | None, ...] = ()) -> Pod:
    """The pod as a value, with its gang's declaration in whichever dialect.

    What cannot be used is named in ``fault``; the rest is read all the same. Raises DecodeError if
    ``obj`` is no object with a name.
    """
    meta = metadata(obj, "pod")
    namespace = named(meta, "namespace", "default")
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    labels, annotations = strings(meta.get("labels")), mapping(meta.get("annotations"))
    made_by = dialects.kind_of(controller(meta))
    source = PodSource(namespace, mapping(meta.get("labels")), annotations, spec, made_by)
    faults = Faults()
    reading = dialects.declaration(source)
    faults.note(reading.fault)
    place = index(source, faults)
    requests = asked(spec, status, faults)
    limited, rules = constraints(spec, faults), anti_affinity(spec, faults)
    return Pod(
        namespace=namespace,
        name=meta["name"],
        uid=named(meta, "uid", f"{namespace}/{meta['name']}"),
        scheduler=text(spec.get("schedulerName")),
        node=text(spec.get("nodeName")),
        nominated=text(status.get("nominatedNodeName")),
        phase=_phase(status.get("phase")),
        rejected=_is_rejected(status),
        deleting=meta.get("deletionTimestamp") is not None,
        gates=_gates(spec),
        priority=_priority(spec.get("priority")),
        created=seconds_since_epoch(meta.get("creationTimestamp")),
        started=seconds_since_epoch(status.get("startTime")),
        labels=labels,
        requests=requests,
        constraints=limited,
        anti_affinity=(limits.ANY_POD,) if limits.is_too_much(rules) else rules,
        nominate_because=outside_allow_list(spec),
        declaration=reading.declaration,
        index=place.value,
        job=place.job,
        owner=owner(meta, labels, annotations),
        hint=text(annotations.get(_HINT)),
        fault=faults.joined(),
        excess=limits.excess(limited, rules, requests),
        warnings=place.warnings,
        digest=digest,
    )


def moved(before: Pod, obj: Json) -> Pod:
    """The pod as it was read before, with what may have changed since; ``obj`` has only that."""
    meta, spec, status = (mapping(obj.get(field)) for field in ("metadata", "spec", "status"))
    fresh: dict[str, Any] = {
        "node": text(spec.get("nodeName")),
        "nominated": text(status.get("nominatedNodeName")),
        "phase": _phase(status.get("phase")),
        "started": seconds_since_epoch(status.get("startTime")),
        "rejected": _is_rejected(status),
        "deleting": meta.get("deletionTimestamp") is not None,
        "hint": text(mapping(meta.get("annotations")).get(_HINT)),
    }
    changed = {name: value for name, value in fresh.items() if getattr(before, name) != value}
    return replace(before, **changed) if changed else before


def resized(before: Pod, obj: Json, digest: tuple[int | None, ...]) -> Pod:
    """The pod as it was read before, where besides only the kubelet's word on it is another."""
    if before.fault:
        return pod(obj, digest)
    held = asked(mapping(obj.get("spec")), mapping(obj.get("status")), Faults())
    return replace(moved(before, obj), requests=held, digest=digest)


def _is_rejected(status: Json) -> bool:
    """Whether the kubelet refused the pod at admission, before any container ran."""
    reason = text(status.get("reason"))
    refused = reason.startswith("OutOf") or reason in _REJECTIONS
    return refused and status.get("phase") == Phase.FAILED


def _phase(value: object) -> Phase:
    if value is None or value == "":
        return Phase.PENDING
    return _PHASES.get(text(value), Phase.UNKNOWN)


def _gates(spec: Json) -> tuple[str, ...]:
    return tuple(text(mapping(gate).get("name")) for gate in sequence(spec.get("schedulingGates")))


def _priority(value: object) -> int:
    return value if type(value) is int and -(2**31) <= value < 2**31 else 0
