"""What is thrown at the cluster: gangs all at once, or a churn of gangs and single pods."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

SEED = 11
MEMBER_GPUS = 2
CHURN = "churn"
CHURN_SIZES = (4, 8, 16, 32)
CHURN_GANGS_PER_S = 1.5
CHURN_SINGLES_PER_S = 6.0
RUN_S = (4.0, 12.0)
"""Shortest and longest run of a pod in a churn, in seconds."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang, or a single pod where ``size`` is 0. ``at_s`` counts from the load's begin."""

    name: str
    size: int
    at_s: float = 0.0
    run_s: float | None = None
    """How long its pods run; None for ever."""

    @property
    def pods(self) -> int:
        """How many pods it is made of."""
        return self.size or 1

    def pod_names(self) -> list[str]:
        """Its pods by index; the gang's name is in front of the last dash."""
        return [f"{self.name}-{index}" for index in range(self.pods)]


@dataclass(frozen=True, slots=True)
class Load:
    """A load by its name: ``100x16``, or ``churn``."""

    name: str
    arrivals: Sequence[Arrival]

    @property
    def is_churn(self) -> bool:
        """Whether pods run and end meanwhile."""
        return self.name == CHURN

    @property
    def largest(self) -> int:
        """Pods of the largest gang."""
        return max(arrival.size for arrival in self.arrivals)

    @property
    def pods(self) -> int:
        """Pods of all arrivals."""
        return sum(arrival.pods for arrival in self.arrivals)


def load(name: str, prefix: str, churn_s: float) -> Load:
    """The load of that name; its pods' names begin with ``prefix``. ValueError for others."""
    if name == CHURN:
        return Load(name, churn(prefix, churn_s))
    gangs, size = shape(name)
    return Load(name, [Arrival(f"{prefix}-g{at}", size) for at in range(gangs)])


def shape(name: str) -> tuple[int, int]:
    """How many gangs of how many pods: ``100x16`` is (100, 16)."""
    gangs, _, size = name.partition("x")
    if not (gangs.isdecimal() and size.isdecimal() and int(gangs) and int(size)):
        raise ValueError(f"load {name!r} is neither churn nor GANGSxPODS such as 100x16")
    return int(gangs), int(size)


def churn(prefix: str, seconds: float) -> list[Arrival]:
    """Gangs and singles that come by chance, the same for every arm and repeat."""
    rng = random.Random(SEED)
    gangs = [
        Arrival(f"{prefix}-g{at}", rng.choice(CHURN_SIZES), when, rng.uniform(*RUN_S))
        for at, when in enumerate(_times(rng, CHURN_GANGS_PER_S, seconds))
    ]
    singles = [
        Arrival(f"{prefix}-s{at}", 0, when, rng.uniform(*RUN_S))
        for at, when in enumerate(_times(rng, CHURN_SINGLES_PER_S, seconds))
    ]
    return sorted([*gangs, *singles], key=lambda arrival: arrival.at_s)


def _times(rng: random.Random, per_s: float, seconds: float) -> list[float]:
    """As many moments as the rate asks for, at least one, spaced as in a Poisson process."""
    count = max(1, round(per_s * seconds))
    moments = list(accumulate(rng.expovariate(1.0) for _ in range(count + 1)))
    return [seconds * moment / moments[-1] for moment in moments[:-1]]
