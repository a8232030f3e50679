"""A node of the API as placement sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core import quantity
from scheduler.core.quoting import quoted
from scheduler.decode.metadata import metadata, named
from scheduler.dialects.fields import Json, mapping, sequence, strings, text
from scheduler.dialects.muster import PREFIX
from scheduler.model import Node, Resources, Taint

_MOST_WARNINGS = 20


def node(obj: Mapping[str, Any]) -> Node:
    """The node as a value.

    A quantity that cannot be read counts as 0, with a warning. No Ready condition counts as ready.
    Raises DecodeError if ``obj`` is no object with a name.
    """
    meta = metadata(obj, "node")
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    warnings: list[str] = []
    return Node(
        name=meta["name"],
        uid=named(meta, "uid", meta["name"]),
        labels=strings(meta.get("labels")),
        taints=_taints(spec, warnings),
        unschedulable=spec.get("unschedulable") is True,
        ready=_ready(status),
        allocatable=_allocatable(status, warnings),
        annotations=_ours(meta),
        deleting=meta.get("deletionTimestamp") is not None,
        conditions=_conditions(status),
        warnings=tuple(warnings[:_MOST_WARNINGS]),
    )


def _ours(meta: Json) -> dict[str, str]:
    found = strings(meta.get("annotations"))
    return {key: value for key, value in found.items() if key.startswith(PREFIX)}


def _ready(status: Json) -> bool:
    conditions = map(mapping, sequence(status.get("conditions")))
    return all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")


def _conditions(status: Json) -> tuple[str, ...]:
    found = map(mapping, sequence(status.get("conditions")))
    true = {text(one.get("type")) for one in found if one.get("status") == "True"}
    return tuple(sorted(true - {"Ready", ""}))


def _taints(spec: Json, warnings: list[str]) -> tuple[Taint, ...]:
    taints = []
    for at, value in enumerate(sequence(spec.get("taints"))):
        taint = mapping(value)
        if key := text(taint.get("key")):
            taints.append(Taint(key, text(taint.get("value")), text(taint.get("effect"))))
        else:
            warnings.append(f"spec.taints[{at}]: has no key; ignored")
    return tuple(taints)


def _allocatable(status: Json, warnings: list[str]) -> Resources:
    # Without allocatable the API server takes the capacity; objects made by hand rely on it.
    field = "capacity" if status.get("allocatable") is None else "allocatable"
    amounts: dict[str, int] = {}
    for resource, value in mapping(status.get(field)).items():
        units = quantity.allocatable(str(resource), value)
        if isinstance(units, quantity.QuantityFault):
            warnings.append(f"status.{field}[{quoted(resource)}]: {units.reason}; counted as 0")
            units = 0
        amounts[str(resource)] = units
    return amounts
