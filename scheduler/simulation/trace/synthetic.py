"""Jobs made up from a few published figures of real clusters, for where no trace is at hand.

The figures are those of the summary that comes with the Acme trace (see data/ATTRIBUTION.md): jobs
that use GPUs, their mean and median running time, and their mean and largest number of GPUs.

* Sizes are powers of two. Their exponents follow a geometric distribution, cut off at the largest
  size, whose mean is the published one. This also gives the median of one GPU, nearly.
* Running times are log-normal with the published median and mean, cut to a day: of
  so few jobs, one that runs for weeks would be most of the load.
* Arrivals are a Poisson process. Its rate does not matter: a load is set afterwards.
"""

from __future__ import annotations

import csv
import math
import random
from dataclasses import dataclass
from importlib import resources

from scheduler.errors import MusterError
from scheduler.simulation.traces import TraceJob

SHORTEST_S, LONGEST_S = 30.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Published figures of one cluster's GPU jobs."""

    cluster: str
    mean_gpus: float
    max_gpus: int
    median_s: float
    mean_s: float


def summaries() -> dict[str, Summary]:
    """All that come with Muster, by the cluster's name."""
    text = resources.files("scheduler.simulation").joinpath("data/clusters.csv").read_text("utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    found = [
        Summary(
            row["cluster"],
            float(row["mean_gpus"]),
            int(row["max_gpus"]),
            float(row["median_s"]),
            float(row["mean_s"]),
        )
        for row in rows
    ]
    return {summary.cluster: summary for summary in found}


def summary_of(cluster: str) -> Summary:
    """One of them. Raises MusterError naming those that there are."""
    known = summaries()
    if cluster not in known:
        raise MusterError(f"cluster {cluster!r} is not known; known are {', '.join(known)}")
    return known[cluster]


def jobs(summary: Summary, count: int, most_gpus: int, seed: int) -> list[TraceJob]:
    """So many jobs, none larger than ``most_gpus``; the same seed makes the same jobs."""
    rng = random.Random(f"{summary.cluster} {seed}")
    sizes, weights = size_weights(summary, most_gpus)
    mu = math.log(summary.median_s)
    sigma = math.sqrt(2 * math.log(summary.mean_s / summary.median_s))
    found, now = [], 0.0
    for _ in range(count):
        now += rng.expovariate(1 / 60)
        gpus = rng.choices(sizes, weights)[0]
        seconds = min(LONGEST_S, max(SHORTEST_S, rng.lognormvariate(mu, sigma)))
        found.append(TraceJob(round(now, 1), gpus, round(seconds)))
    return found


def size_weights(summary: Summary, most_gpus: int) -> tuple[list[int], list[float]]:
    """Sizes and how often each comes. Cut off at ``most_gpus`` after the fit to the mean."""
    sizes = [1 << exponent for exponent in range(summary.max_gpus.bit_length())]
    ratio = _ratio(sizes, summary.mean_gpus)
    kept = [size for size in sizes if size <= most_gpus]
    return kept, [ratio**exponent for exponent in range(len(kept))]


def _ratio(sizes: list[int], mean: float) -> float:
    """The ratio of the geometric distribution with that mean, by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        weights = [middle**exponent for exponent in range(len(sizes))]
        weighed = math.fsum(size * weight for size, weight in zip(sizes, weights, strict=True))
        if weighed / math.fsum(weights) < mean:
            low = middle
        else:
            high = middle
    return low
