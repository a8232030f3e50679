"""The resource lists of a pod's JSON, brought together into what the pod asks for."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.core import quantity, requests
from scheduler.core.quoting import quoted
from scheduler.core.requests import InitContainer, PodLevel
from scheduler.decode.faults import Faults
from scheduler.dialects.fields import EMPTY, Json, mapping, sequence, text
from scheduler.model import NO_RESOURCES, Resources

__all__ = ["asked"]

_RESIZABLE = ("cpu", "memory")


def asked(spec: Json, status: Json, faults: Faults) -> dict[str, int]:
    """What the pod asks for in all; amounts that cannot be read are left out and named.

    While a pod is resized three totals are compared, as kube-scheduler does: what it asks for, what
    the kubelet has set aside, and what is in force. The largest counts, of cpu and memory; a resize
    that is impossible on its node is left out.
    """
    wanted = _total(spec, faults, _stated)
    if not _has_held(status) or _is_settled(spec, status):
        return wanted
    quiet = Faults()
    held = [_total(spec, quiet, reading) for reading in _held_readings(status)]
    return _largest(wanted, held, infeasible=_is_infeasible(status))


Reading = Callable[[str, Json, Resources], Resources]
"""(list of containers or "" for the pod, its object, what the spec says) -> what counts."""


def _stated(_field: str, _container: Json, amounts: Resources) -> Resources:
    return amounts


def _total(spec: Json, faults: Faults, reading: Reading) -> dict[str, int]:
    apps = _resources(spec, "containers", faults, reading)
    inits = _resources(spec, "initContainers", faults, reading)
    return requests.total(
        [amounts for _, amounts in apps],
        [InitContainer(amounts, is_sidecar(container)) for container, amounts in inits],
        _amounts(spec.get("overhead"), "spec.overhead", faults),
        _pod_level(spec, faults, reading),
    )


def is_sidecar(container: Json) -> bool:
    """Whether an init container goes on running beside the app."""
    return container.get("restartPolicy") == "Always"


def _resources(
    spec: Json, field: str, faults: Faults, reading: Reading
) -> list[tuple[Json, Resources]]:
    containers = faults.objects_in(spec, field, "spec.")
    return [
        (container, reading(field, container, _container(container, field, at, faults)))
        for at, container in enumerate(containers)
    ]


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


def _pod_level(spec: Json, faults: Faults, reading: Reading) -> PodLevel | None:
    stated = spec.get("resources")
    found = faults.object_at(stated, "spec.resources") if stated else EMPTY
    amounts = _amounts(found.get("requests"), "spec.resources.requests", faults)
    counted = reading("", EMPTY, amounts)
    if not stated and not counted:
        return None
    limits = _amounts(found.get("limits"), "spec.resources.limits", faults)
    return PodLevel(counted, limits)


# ── A pod that is being resized ───────────────────────────────────────────────────────────────────

_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}


def _has_held(status: Json) -> bool:
    """Whether the kubelet says anywhere what it has set aside; most pods' does not."""
    if status.get("allocatedResources") or status.get("resources"):
        return True
    return any(
        item.get("allocatedResources") or item.get("resources")
        for field in _STATUSES.values()
        for item in map(mapping, sequence(status.get(field)))
    )


def _is_settled(spec: Json, status: Json) -> bool:
    """Whether what is set aside and in force is, letter by letter, what is asked for.

    So it is but for the moments of a resize, and then all totals are the same.
    """
    if status.get("allocatedResources") or status.get("resources"):
        return False
    return all(
        _is_held_as_asked(sequence(spec.get(field)), sequence(status.get(statuses)))
        for field, statuses in _STATUSES.items()
    )


def _is_held_as_asked(containers: list[Json], statuses: list[Json]) -> bool:
    asked = {
        text(one.get("name")): mapping(one.get("resources")) for one in map(mapping, containers)
    }
    if len(asked) < len(containers):
        return False
    for status in map(mapping, statuses):
        stated = mapping(asked.get(text(status.get("name")), EMPTY).get("requests"))
        held = status.get("allocatedResources"), mapping(status.get("resources")).get("requests")
        for amounts in map(mapping, held):
            if any(amounts.get(name, stated.get(name)) != stated.get(name) for name in _RESIZABLE):
                return False
    return True


def _held_readings(status: Json) -> list[Reading]:
    """What is set aside, and what is in force."""
    return [
        _reading(status, lambda item: mapping(item.get("allocatedResources"))),
        _reading(status, lambda item: mapping(mapping(item.get("resources")).get("requests"))),
    ]


def _reading(status: Json, find: Callable[[Json], Json]) -> Reading:
    """Amounts from a status, where it has them; else what the spec says."""
    held = {
        (field, text(item.get("name"))): find(item)
        for field, statuses in _STATUSES.items()
        for item in map(mapping, sequence(status.get(statuses)))
    }
    of_pod = find(status)

    def read(field: str, container: Json, amounts: Resources) -> Resources:
        found = held.get((field, text(container.get("name"))), EMPTY) if field else of_pod
        return _overlaid(amounts, found)

    return read


def _overlaid(amounts: Resources, held: Json) -> Resources:
    if not held:
        return amounts
    laid = dict(amounts)
    for name in _RESIZABLE:
        # A status is written by the kubelet: what cannot be read there is no fault of the pod.
        units = quantity.amount(name, held[name]) if name in held else None
        if isinstance(units, int):
            laid[name] = units
    return laid


def _is_infeasible(status: Json) -> bool:
    pending = ("PodResizePending", "True", "Infeasible")
    return any(
        (one.get("type"), one.get("status"), one.get("reason")) == pending
        for one in map(mapping, sequence(status.get("conditions")))
    )


def _largest(
    wanted: dict[str, int], held: list[dict[str, int]], *, infeasible: bool
) -> dict[str, int]:
    counted = held if infeasible else [wanted, *held]
    largest = dict(wanted)
    for name in _RESIZABLE:
        units = max(total.get(name, 0) for total in counted)
        if units:
            largest[name] = units
        else:
            largest.pop(name, None)
    return largest
