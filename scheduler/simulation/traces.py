"""Traces of real GPU clusters: what was asked for when, and for how long.

Durations are not in the Philly trace as the Gavel authors prepared it. They are drawn from a
log-normal distribution whose median and 90th percentile are those of the trace's jobs, with a
fixed seed, and cut to between one minute and one day.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from scheduler.errors import MusterError

MEDIAN_S = 1_200.0
P90_S = 13_000.0
SHORTEST_S = 60
LONGEST_S = 86_400
SEED = 20_171_003
"""Seed of the durations in the sample."""

COLUMNS = ["arrival_s", "gpus", "duration_s"]

_Z90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    arrival_s: float
    gpus: int
    """GPUs of the whole gang."""
    duration_s: float = 0.0


def philly_day() -> list[TraceJob]:
    """The sample that comes with Muster; its header says how it was made."""
    text = resources.files("scheduler.simulation").joinpath("data/philly_day.csv").read_text()
    return parse(text.splitlines(), "philly_day.csv")


def parse(lines: Iterable[str], source: str) -> list[TraceJob]:
    """Jobs from CSV lines with the columns above, sorted by arrival; ``#`` lines are comments.

    Raises MusterError naming the source and the line that cannot be used.
    """
    numbered = [(n, line) for n, line in enumerate(lines, 1) if not line.startswith("#")]
    if not numbered or numbered[0][1].split(",") != COLUMNS:
        raise MusterError(f"trace {source}: the first line must be {','.join(COLUMNS)!r}")
    jobs = [_job(row, f"trace {source}, line {n}") for n, row in _rows(numbered[1:])]
    return sorted(jobs, key=lambda job: job.arrival_s)


def parse_gavel(lines: Iterable[str]) -> list[TraceJob]:
    """Jobs from the Gavel authors' TSV: the last two columns are arrival second and GPUs."""
    found = []
    for number, line in enumerate(lines, 1):
        fields = line.rstrip("\n").split("\t")
        if len(fields) < 2:
            raise MusterError(
                f"gavel trace, line {number}: fewer than two columns, separated by tabs; a CSV of "
                f"your own begins with the line {','.join(COLUMNS)}"
            )
        found.append(_job([fields[-2], fields[-1], "0"], f"gavel trace, line {number}"))
    return sorted(found, key=lambda job: job.arrival_s)


def window(jobs: Iterable[TraceJob], start_s: float, end_s: float, divide: float) -> list[TraceJob]:
    """Jobs that arrived in [start_s, end_s), counted from its start, arrivals divided."""
    return [
        replace(job, arrival_s=round((job.arrival_s - start_s) / divide))
        for job in jobs
        if start_s <= job.arrival_s < end_s
    ]


def with_durations(jobs: Sequence[TraceJob], seed: int) -> list[TraceJob]:
    """The same jobs with durations drawn anew, whole seconds; the same seed draws the same."""
    rng = random.Random(seed)
    return [replace(job, duration_s=_duration(rng)) for job in jobs]


def pods_of(gpus: int, per_pod: int) -> list[int]:
    """GPUs of each pod of a gang: as few equal pods as hold it, at most ``per_pod`` each."""
    return [min(gpus, per_pod)] * math.ceil(gpus / per_pod)


def _duration(rng: random.Random) -> int:
    sigma = math.log(P90_S / MEDIAN_S) / _Z90
    seconds = rng.lognormvariate(math.log(MEDIAN_S), sigma)
    return round(min(LONGEST_S, max(SHORTEST_S, seconds)))


def _rows(numbered: list[tuple[int, str]]) -> Iterable[tuple[int, list[str]]]:
    return ((n, next(csv.reader([line]))) for n, line in numbered if line.strip())


def _job(row: list[str], where: str) -> TraceJob:
    if len(row) != len(COLUMNS):
        raise MusterError(f"{where}: {len(row)} columns; expected {','.join(COLUMNS)}")
    arrival, gpus, duration = row
    return TraceJob(
        _seconds(arrival, f"{where}: {COLUMNS[0]}"),
        _gpus(gpus, f"{where}: {COLUMNS[1]}"),
        _seconds(duration, f"{where}: {COLUMNS[2]}"),
    )


def _seconds(stated: str, where: str) -> float:
    try:
        found = float(stated)
    except ValueError as error:
        raise MusterError(f"{where}: {stated[:40]!r} is not a number of seconds") from error
    if not 0 <= found < math.inf:
        raise MusterError(f"{where}: {stated[:40]!r} is out of range; it must be 0 or more")
    return found


def _gpus(stated: str, where: str) -> int:
    try:
        found = int(stated)
    except ValueError as error:
        raise MusterError(f"{where}: {stated[:40]!r} is not a whole number of GPUs") from error
    if found < 1:
        raise MusterError(f"{where}: {stated[:40]!r} is out of range; it must be 1 or more")
    return found
