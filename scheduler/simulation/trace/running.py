"""One workload through several policies, and what is told of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.errors import MusterError
from scheduler.simulation.trace import charts, measures, steptime
from scheduler.simulation.trace.engine_policy import EnginePolicy
from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.measures import Closeness
from scheduler.simulation.trace.replaying import Books, Replay, Sample
from scheduler.simulation.trace.scheduling import (
    GIVE_UP_S,
    Greedy,
    PodByPod,
    Scheduler,
    chooser,
)
from scheduler.simulation.trace.steptime import StepTimes
from scheduler.simulation.trace.workload import Workload

POLICIES = ("muster", "muster-told", "greedy", "binpack", "spread", "random")


@dataclass(frozen=True, slots=True)
class Rules:
    """How a workload is replayed."""

    shape: Shape
    seed: int = 0
    """Of ties, and of what the random policy does."""
    give_up_s: float = GIVE_UP_S
    step_times: Sequence[StepTimes] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy came to."""

    policy: str
    figures: dict[str, Any]
    samples: Sequence[Sample]


def check(policies: Iterable[str], known: Sequence[str]) -> None:
    """Raises MusterError for a policy that this kind of trace does not know."""
    for policy in policies:
        if policy not in known:
            raise MusterError(f"policy {policy!r}: for this trace there are {', '.join(known)}")


def run(
    policy: str,
    workload: Workload,
    rules: Rules,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Replay the workload. ``progress`` gets the number of gangs that have ended."""
    closeness = Closeness()
    books = Books(rules.shape, workload.gangs, closeness.watch)
    Replay(workload.gangs, scheduler_of(policy, rules), books).run(progress)
    figures = measures.summary(books, closeness)
    if rules.step_times:
        figures["step_time"] = {
            times.cluster: steptime.told(times, closeness.spans) for times in rules.step_times
        }
    return Outcome(policy, figures, books.samples)


def scheduler_of(policy: str, rules: Rules) -> Scheduler:
    """A policy with empty books."""
    if policy in ("muster", "muster-told"):
        return EnginePolicy(rules.shape, tells_runtime=policy == "muster-told")
    if policy == "greedy":
        return Greedy(rules.shape)
    choose = chooser(policy, random.Random(f"{policy} {rules.seed}"))
    return PodByPod(rules.shape, choose, rules.give_up_s)


def picture(title: str, outcomes: Sequence[Outcome], shape: Shape) -> str:
    """Use and breakage over time, waits by size, and domains per gang, in one SVG."""
    until = max(outcome.figures["makespan_s"] for outcome in outcomes)

    def over_time(value: Callable[[Sample], float]) -> dict[str, charts.Points]:
        return {
            outcome.policy: charts.thinned(
                [(sample.at, value(sample)) for sample in outcome.samples], until
            )
            for outcome in outcomes
        }

    def broken(sample: Sample) -> float:
        free = shape.total - sample.running - sample.held
        return 100 * sample.broken / free if free else 0.0

    panels = [
        charts.lines(
            "GPUs that run complete gangs",
            " %",
            over_time(lambda sample: 100 * sample.running / shape.total),
            until,
        ),
        charts.lines("Free GPUs on broken-up nodes", " %", over_time(broken), until),
        charts.bars("Mean wait by GPUs of the gang", " min", _waits(outcomes)),
        charts.bars("Domains of a gang of several pods, mean", "", _domains(outcomes)),
    ]
    return charts.page(title, panels, [outcome.policy for outcome in outcomes])


def _waits(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    names = outcomes[0].figures["by_gpus"]
    return {
        name: {
            outcome.policy: outcome.figures["by_gpus"][name]["mean_wait_s"] / 60
            for outcome in outcomes
            if name in outcome.figures["by_gpus"]
        }
        for name in names
    }


def _domains(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    return {
        level: {
            outcome.policy: outcome.figures["closeness"].get(level, 0.0) for outcome in outcomes
        }
        for level in ("nodes", "racks", "blocks")
    }
