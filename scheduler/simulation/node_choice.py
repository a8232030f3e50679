"""How kube-scheduler finds a node: in-tree plugins, the extender's filter, and the scores."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.model import Pod
from scheduler.simulation.extender import ExtenderClient
from scheduler.simulation.objects import Object
from scheduler.simulation.scheduler_cache import SchedulerCache
from scheduler.simulation.scheduler_options import SchedulerOptions

SAMPLED_FROM = 100
"""Clusters with fewer nodes are looked at in full."""


def sample_size(nodes: int, percentage: int) -> int:
    """How many feasible nodes kube-scheduler looks for in a cluster of that many nodes."""
    if nodes < SAMPLED_FROM or percentage >= 100:
        return nodes
    share = percentage or max(5, 50 - nodes // 125)
    return max(SAMPLED_FROM, nodes * share // 100)


@dataclass(slots=True)
class Found:
    """The nodes that both the in-tree plugins and the extender let through, and why not others."""

    nodes: Sequence[str] = ()
    refusals: Counter[str] = field(default_factory=Counter)
    """Reason -> number of nodes."""


class NodeChoice:
    """Finds and scores nodes for one pod after the other."""

    def __init__(
        self,
        cache: SchedulerCache,
        extender: ExtenderClient,
        options: SchedulerOptions,
        calls: Counter[str],
    ) -> None:
        """``calls`` counts the extender calls by verb."""
        self._cache = cache
        self._extender = extender
        self._options = options
        self._calls = calls
        self._rng = random.Random(options.seed)
        self._next_start = 0

    def find(self, pod: Pod, item: Object) -> Found:
        """A nominated pod is tried on its node alone first, with a filter call of one name.

        When the in-tree plugins leave no node, the extender is not called.
        """
        if pod.nominated in self._cache.nodes and self._cache.fits(pod, pod.nominated) is None:
            found = self._filter(item, Found([pod.nominated]))
            if found.nodes:
                return found
        feasible = self._sample(pod)
        return self._filter(item, feasible) if feasible.nodes else feasible

    def best(self, pod: Pod, item: Object, nodes: Sequence[str]) -> str:
        """The node with the highest score; the extender scores only if there is a choice."""
        if len(nodes) == 1:
            return nodes[0]
        self._calls["prioritize"] += 1
        given = self._extender.prioritize(item, nodes)
        weight = self._options.extender_weight * 10
        scores = {
            name: int(100 * self._cache.free_share(pod, name)) + weight * given.get(name, 0)
            for name in sorted(nodes)
        }
        best = max(scores.values())
        return self._rng.choice([name for name, score in scores.items() if score == best])

    def _sample(self, pod: Pod) -> Found:
        names = list(self._cache.nodes)
        wanted = sample_size(len(names), self._options.percentage_of_nodes)
        feasible: list[str] = []
        refusals: Counter[str] = Counter()
        looked = 0
        while looked < len(names) and len(feasible) < wanted:
            name = names[(self._next_start + looked) % len(names)]
            looked += 1
            no = self._cache.fits(pod, name)
            if no is None:
                feasible.append(name)
            else:
                refusals[no.reason] += 1
        self._next_start = (self._next_start + looked) % max(1, len(names))
        return Found(feasible, refusals)

    def _filter(self, item: Object, offered: Found) -> Found:
        self._calls["filter"] += 1
        answer = self._extender.filter(item, offered.nodes)
        refusals = offered.refusals + Counter(answer.failed.values())
        return Found(answer.nodes, refusals + Counter(answer.unresolvable.values()))
