"""The resource lists of a pod's JSON, brought together into what the pod asks for."""

from __future__ import annotations

from typing import Any

from scheduler.core import quantity, requests
from scheduler.core.quoting import quoted
from scheduler.core.requests import InitContainer, PodLevel
from scheduler.decode.faults import Faults
from scheduler.dialects.fields import EMPTY, Json, mapping, text
from scheduler.model import NO_RESOURCES, Resources

__all__ = ["asked"]

_RESIZABLE = ("cpu", "memory")


def asked(spec: Json, status: Json, faults: Faults) -> dict[str, int]:
    """What the pod asks for in all; amounts that cannot be read are left out and named."""
    apps = _resources(spec, "containers", status, "containerStatuses", faults)
    inits = _resources(spec, "initContainers", status, "initContainerStatuses", faults)
    return requests.total(
        [amounts for _, amounts in apps],
        [InitContainer(amounts, is_sidecar(container)) for container, amounts in inits],
        _amounts(spec.get("overhead"), "spec.overhead", faults),
        _pod_level(spec, status, faults),
    )


def is_sidecar(container: Json) -> bool:
    """Whether an init container goes on running beside the app."""
    return container.get("restartPolicy") == "Always"


def _resources(
    spec: Json, field: str, status: Json, status_field: str, faults: Faults
) -> list[tuple[Json, Resources]]:
    containers = faults.objects_in(spec, field, "spec.")
    if not containers:
        return []
    resized = _resized(status.get(status_field))
    found = []
    for at, container in enumerate(containers):
        amounts = _container(container, field, at, faults)
        found.append((container, _larger(amounts, container, resized) if resized else amounts))
    return found


def _container(container: Json, field: str, at: int, faults: Faults) -> Resources:
    resources = container.get("resources")
    if not resources:
        return NO_RESOURCES
    return _with_limits(resources, f"spec.{field}[{at}].resources", faults)


def _with_limits(resources: object, path: str, faults: Faults) -> Resources:
    """The requests, and the limits where no request is stated."""
    found = faults.object_at(resources, path)
    stated = _amounts(found.get("requests"), f"{path}.requests", faults)
    limits = found.get("limits")
    if not limits or limits == found.get("requests"):
        return stated
    return {**_amounts(limits, f"{path}.limits", faults), **stated}


def _amounts(value: object, path: str, faults: Faults) -> Resources:
    if not value:
        return NO_RESOURCES
    amounts: dict[str, int] = {}
    for resource, written in faults.object_at(value, path).items():
        units = quantity.amount(str(resource), written)
        if isinstance(units, quantity.QuantityFault):
            faults.add(f"{path}[{quoted(resource)}]", units.reason)
        else:
            amounts[str(resource)] = units
    return amounts


# ── A pod that is being resized holds the larger of what it has and what it asks for ──────────────


def _resized(statuses: object) -> dict[str, list[Json]]:
    """Container name -> the resource lists that its status holds."""
    if not isinstance(statuses, list):
        return {}
    return {text(mapping(item).get("name")): _held(mapping(item)) for item in statuses}


def _held(status: Json) -> list[Json]:
    lists = (status.get("allocatedResources"), mapping(status.get("resources")).get("requests"))
    return [mapping(resources) for resources in lists if resources]


def _larger(amounts: Resources, container: Json, resized: dict[str, list[Json]]) -> Resources:
    held = resized.get(text(container.get("name")))
    return _at_least(amounts, held) if held else amounts


def _at_least(amounts: Resources, held: list[Json]) -> Resources:
    larger = dict(amounts)
    for resources in held:
        for name in _RESIZABLE:
            units = quantity.amount(name, resources.get(name, "0"))
            # A status is written by the kubelet: what cannot be read there is no fault of the pod.
            if isinstance(units, int) and units > larger.get(name, 0):
                larger[name] = units
    return larger


def _pod_level(spec: Json, status: Json, faults: Faults) -> PodLevel | None:
    stated: Any = spec.get("resources")
    if not stated:
        return None
    found = faults.object_at(stated, "spec.resources")
    amounts = _amounts(found.get("requests"), "spec.resources.requests", faults)
    limits = _amounts(found.get("limits"), "spec.resources.limits", faults)
    resized = _at_least(EMPTY, _held(status))
    return PodLevel(
        {name: max(units, resized.get(name, 0)) for name, units in amounts.items()}, limits
    )
