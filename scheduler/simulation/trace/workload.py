"""The gangs of a trace, brought to a cluster: pods of which size, and how fast they arrive."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scheduler.errors import MusterError
from scheduler.simulation.traces import TraceJob, pods_of


@dataclass(frozen=True, slots=True)
class Gang:
    """A gang of pods alike, all of which must run at the same time."""

    name: str
    arrival_s: float
    pods: int
    gpus: int
    """GPUs of each pod."""
    duration_s: float
    """From when its last pod is placed."""

    @property
    def total(self) -> int:
        """GPUs in all."""
        return self.pods * self.gpus


@dataclass(frozen=True, slots=True)
class Workload:
    """What is replayed."""

    gangs: tuple[Gang, ...]
    """By arrival."""
    left_out: int
    """Jobs that could never fit into the cluster."""
    stretched: float
    """What the arrivals were multiplied with to reach the load; 1.0: as in the trace."""


def workload(jobs: Iterable[TraceJob], per_pod: int, total: int, load: float | None) -> Workload:
    """Gangs from the jobs of a trace.

    ``per_pod`` is the most GPUs of one pod: a job becomes as few pods alike as hold it.
    ``total`` are the GPUs of the cluster. With a ``load``, arrivals are stretched or compressed by
    one factor, so that GPU-seconds asked for make up that share of what the cluster has from the
    first to the last arrival. Raises MusterError for a trace without a job that fits.
    """
    ordered = sorted(jobs, key=lambda job: job.arrival_s)
    found = [_gang(number, job, per_pod) for number, job in enumerate(ordered)]
    if not found:
        raise MusterError("the trace has no jobs: it is empty, or has nothing but its first line")
    fitting = [gang for gang in found if gang.total <= total]
    if not fitting:
        raise MusterError(f"the trace has no job that fits into {total} GPUs; choose a --shape")
    first = fitting[0].arrival_s
    factor = _factor(fitting, total, load) if load else 1.0
    gangs = tuple(
        replace(gang, arrival_s=round((gang.arrival_s - first) * factor, 3)) for gang in fitting
    )
    return Workload(gangs, len(found) - len(fitting), factor)


def _gang(number: int, job: TraceJob, per_pod: int) -> Gang:
    pods = pods_of(job.gpus, per_pod)
    return Gang(f"g{number:05}", job.arrival_s, len(pods), pods[0], job.duration_s)


def _factor(gangs: Sequence[Gang], total: int, load: float) -> float:
    span = gangs[-1].arrival_s - gangs[0].arrival_s
    asked = math.fsum(gang.total * gang.duration_s for gang in gangs)
    if span <= 0 or asked <= 0:
        raise MusterError(
            "the load of this trace cannot be set: all jobs arrive at once, or none takes time; "
            "choose --as-traced, which leaves arrivals as they are"
        )
    return asked / (total * load * span)
