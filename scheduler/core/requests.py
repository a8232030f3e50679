"""What a pod asks for in all, from what its containers ask for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scheduler.model import NO_RESOURCES, Resources

__all__ = ["InitContainer", "PodLevel", "total"]


class InitContainer(NamedTuple):
    """An init container; a ``sidecar`` (``restartPolicy: Always``) goes on beside the app."""

    requests: Resources
    sidecar: bool = False


class PodLevel(NamedTuple):
    """``spec.resources``: it speaks for the whole pod where it names cpu, memory or huge pages."""

    requests: Resources = NO_RESOURCES
    limits: Resources = NO_RESOURCES


def total(
    apps: Sequence[Resources],
    inits: Sequence[InitContainer] = (),
    overhead: Resources = NO_RESOURCES,
    pod_level: PodLevel | None = None,
) -> dict[str, int]:
    """All that must be free on a node for the pod, with ``pods: 1`` and without zero amounts.

    max(apps + all sidecars, over plain inits of (init + sidecars declared before it)); then the
    pod-level values replace the sums; then the overhead is added. This is what kube-scheduler
    computes, and the kubelet admits by. O(containers x resources).
    """
    sums = _containers(apps, inits)
    if pod_level is not None:
        _replace(sums, pod_level)
    _add(sums, overhead)
    sums["pods"] = 1
    return {name: units for name, units in sums.items() if units}


def _containers(apps: Sequence[Resources], inits: Sequence[InitContainer]) -> dict[str, int]:
    running = _sum(apps)
    if not inits:
        return running
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for init in inits:
        if init.sidecar:
            _add(sidecars, init.requests)
        else:
            _raise(peak, _sum((init.requests, sidecars)))
    _add(running, sidecars)
    _raise(running, peak)
    return running


def _replace(sums: dict[str, int], level: PodLevel) -> None:
    for name, units in level.limits.items():
        # A pod-level limit is a request only where neither the pod nor a container states one.
        if _at_pod_level(name):
            sums.setdefault(name, units)
    sums.update({name: units for name, units in level.requests.items() if _at_pod_level(name)})


def _at_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _sum(parts: Iterable[Resources]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for part in parts:
        _add(sums, part)
    return sums


def _add(sums: dict[str, int], more: Resources) -> None:
    for name, units in more.items():
        sums[name] = sums.get(name, 0) + units


def _raise(sums: dict[str, int], floor: Resources) -> None:
    for name, units in floor.items():
        sums[name] = max(sums.get(name, 0), units)
