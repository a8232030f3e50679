"""One measurement, and how repeats of it become a row of the report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import Any

from benchmarks.cluster_loads import CHURN
from benchmarks.cluster_measures import finite, largest, middle, percentile

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GangResult:
    """What became of one gang."""

    pods: int
    complete_to_bound_s: float
    """Infinite if a member was never bound."""
    partial_pod_s: float
    beyond_pod_s: float
    domains: Sequence[int]
    """Blocks and racks its members are in."""
    fewest: Sequence[int]
    """The fewest that it could be in on an empty cluster."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One load on one arm, once."""

    arm: str
    nodes: int
    load: str
    repeat: int
    gangs: Sequence[GangResult]
    singles_s: Sequence[float]
    """Seconds from creation to Binding of pods without a gang."""
    pods: int
    bound: int
    seconds: float
    """From the first pod created to the last one bound."""
    creating_s: float
    """From the first pod created to the last one created."""
    filter_calls: int
    cycles: int
    others_cpu: float = 0.0
    """CPUs that were busy with something else."""
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    peak_mb: Mapping[str, int] = field(default_factory=dict)

    @property
    def middle_s(self) -> float:
        """Median over the gangs; infinite if that gang was never bound."""
        return median(gang.complete_to_bound_s for gang in self.gangs)


def sample_of(stored: Mapping[str, Any]) -> Sample:
    """A sample from its JSON."""
    return Sample(**{**stored, "gangs": [GangResult(**gang) for gang in stored["gangs"]]})


def rows(samples: Iterable[Sample]) -> list[Row]:
    """One row for each arm, number of nodes and load, in the order in which they first came."""
    groups: dict[tuple[int, str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.nodes, sample.load, sample.arm), []).append(sample)
    return [row(group) for group in groups.values()]


def row(repeats: Sequence[Sample]) -> Row:
    """Medians over the gangs and repeats of one arm, one number of nodes and one load."""
    first = repeats[0]
    gangs = list(chain.from_iterable(sample.gangs for sample in repeats))
    middles = [sample.middle_s for sample in repeats]
    found: Row = {
        "arm": first.arm,
        "nodes": first.nodes,
        "load": first.load,
        "repeats": len(repeats),
        "complete_to_bound_s": middle(gang.complete_to_bound_s for gang in gangs),
        "spread_s": [finite(min(middles)), finite(max(middles))],
        "worst_s": largest(gang.complete_to_bound_s for gang in gangs),
        "pods_per_s": middle(sample.bound / sample.seconds for sample in repeats),
        "created_per_s": middle(sample.pods / sample.creating_s for sample in repeats),
        "domains": _levels(median, [gang.domains for gang in gangs]),
        "domains_over": _levels(max, [_over(gang) for gang in gangs]),
        "partial_pod_s": middle(sum(g.partial_pod_s for g in sample.gangs) for sample in repeats),
        "beyond_pod_s": largest(sum(g.beyond_pod_s for g in sample.gangs) for sample in repeats),
        "filter_calls": _count(sample.filter_calls for sample in repeats),
        "cycles": _count(sample.cycles for sample in repeats),
        "others_cpu": largest(sample.others_cpu for sample in repeats),
        "cpu_s": _by_name(middle, [sample.cpu_s for sample in repeats]),
        "rss_mb": _by_name(largest, [sample.peak_mb for sample in repeats]),
        "unbound": sum(sample.pods - sample.bound for sample in repeats),
    }
    return found | (_of_singles(repeats) if first.load == CHURN else {})


def _of_singles(repeats: Sequence[Sample]) -> Row:
    seconds = list(chain.from_iterable(sample.singles_s for sample in repeats))
    return {"single_s": middle(seconds), "single_p99_s": percentile(seconds, 0.99)}


def _over(gang: GangResult) -> list[int]:
    """Domains beyond the fewest; a gang that is not whole may still need more than it uses."""
    return [used - least for used, least in zip(gang.domains, gang.fewest, strict=True)]


def _levels(summary: Any, counts: Sequence[Sequence[int]]) -> list[float]:
    return [summary(level) for level in zip(*counts, strict=True)]


def _count(values: Iterable[int]) -> int:
    return math.ceil(median(values))


def _by_name(summary: Any, maps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = list(dict.fromkeys(chain.from_iterable(maps)))
    return {name: summary(one.get(name, 0.0) for one in maps) for name in names}
