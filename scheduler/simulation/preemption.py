"""Which pods kube-scheduler would evict for a pod that fits nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.model import Pod
from scheduler.simulation.scheduler_cache import SchedulerCache


def candidates(cache: SchedulerCache, pod: Pod) -> dict[str, list[Pod]]:
    """Node name -> the fewest pods of lower priority whose eviction makes room there."""
    found = {name: _victims(cache, pod, name) for name in cache.nodes}
    return {name: victims for name, victims in found.items() if victims}


def choose(victims: Mapping[str, Sequence[Pod]]) -> str:
    """The node with the least important victims, then the fewest, then by name."""
    return min(victims, key=lambda name: (*_cost(victims[name]), name))


def waits_for_victims(cache: SchedulerCache, pod: Pod) -> bool:
    """Whether pods are terminating already where this pod is nominated."""
    return any(
        other.deleting and other.priority < pod.priority for other in cache.pods_on(pod.nominated)
    )


def _victims(cache: SchedulerCache, pod: Pod, node: str) -> list[Pod]:
    lower = [other for other in cache.pods_on(node) if other.priority < pod.priority]
    gone = frozenset(other.uid for other in lower)
    if not lower or cache.fits(pod, node, gone) is not None:
        return []
    for other in sorted(lower, key=lambda one: (-one.priority, one.created, one.name)):
        spared = gone - {other.uid}
        if cache.fits(pod, node, spared) is None:
            gone = spared
    return [other for other in lower if other.uid in gone]


def _cost(victims: Sequence[Pod]) -> tuple[int, int, int]:
    priorities = [pod.priority for pod in victims]
    return max(priorities), sum(priorities), len(priorities)
