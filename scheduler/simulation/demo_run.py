"""The demo's run: the replay of the day, the training, and what came of both."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from scheduler.service import Service
from scheduler.simulation import live, training
from scheduler.simulation.clock import Pacer
from scheduler.simulation.cluster import EmbeddedCluster
from scheduler.simulation.fleet import Fleet
from scheduler.simulation.jobs import GangJob
from scheduler.simulation.observer import GangSeen, Observer

SPEED = 4_400.0
"""Virtual seconds in a wall second where the machine is fast enough: the day takes 11 s."""

REPLAY_DEADLINE_S = 120.0
"""Wall seconds after which the replay ends, whatever still waits."""

TRAINING_PODS = 4
TRAINING_DEADLINE_S = 150.0
LATEST_S = 7 * 86_400.0
"""Virtual seconds after which the replay ends, whatever still waits."""

WAIT_S = 0.1


@dataclass(slots=True)
class Demo:
    """Everything that runs, and what came of it."""

    cluster: EmbeddedCluster
    service: Service
    observer: Observer
    jobs: list[GangJob]
    fleet: Fleet
    train: bool
    training: training.Training | None = None
    trained: GangSeen | None = None
    report: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def glance(self) -> live.Glance:
        """What is shown now."""
        return live.glance(
            self.observer,
            self.cluster.loop.now(),
            len(self.jobs),
            self.fleet.total_gpus,
            self.service.gangs(),
            self.training.progress if self.training else "",
        )

    @property
    def replayed(self) -> bool:
        """Whether all gangs have started."""
        return len(self.observer.started()) == len(self.jobs)

    def result(self) -> dict[str, Any]:
        """The last line of the output."""
        found: dict[str, Any] = {
            "gangs": len(self.jobs),
            "started": len(self.observer.started()),
            "partial": self.observer.partial_moments,
            "pods_bound": self.observer.pods_bound,
            "mean_racks": round(self.observer.mean_racks(), 3),
        }
        if self.train:
            found["train"] = {
                name: self.report.get(name) for name in ("world", "rank_order", "accuracy")
            }
        return found


def replay(shown: Demo, console: Console, stack: ExitStack) -> None:
    """Run the day until all gangs have started; ``stack`` will end what is started meanwhile."""
    loop, observer = shown.cluster.loop, shown.observer
    pacer = Pacer(SPEED)
    end = time.monotonic() + REPLAY_DEADLINE_S
    with live.Display(console) as display:
        while not shown.replayed and (due := loop.next_time()) is not None:
            if due > LATEST_S or time.monotonic() > end:
                break
            _pause(pacer, due, display, shown)
            loop.run_instant()
            observer.check()
            if shown.train and shown.training is None:
                _begin_training(shown, stack)
            display.update(shown.glance)
        display.update(shown.glance, force=True)


def _pause(pacer: Pacer, due: float, display: live.Display, shown: Demo) -> None:
    """Let the wall clock catch up, in short steps so that the display goes on."""
    while (ahead := pacer.ahead(due)) > 0:
        display.update(shown.glance)
        time.sleep(min(ahead, WAIT_S))


def _begin_training(shown: Demo, stack: ExitStack) -> None:
    """Start with the hints of the first gang of the right size that is placed in full."""
    for gang in shown.observer.started():
        if gang.min == TRAINING_PODS and all(gang.hints()):
            shown.trained = gang
            shown.training = training.Training(gang.hints())
            stack.callback(shown.training.stop)
            return


def finish_training(shown: Demo, console: Console) -> None:
    """Wait for the training and judge its report."""
    if not shown.train:
        return
    if shown.training is None or shown.trained is None:
        shown.problems.append("no gang was placed that could be trained")
        return
    _follow_training(shown.training, shown.trained.name, console)
    _judge_training(shown, shown.training)


def _follow_training(run: training.Training, gang: str, console: Console) -> None:
    """Show its progress until it ends: a spinner on a terminal, a line for each news elsewhere."""
    end = time.monotonic() + TRAINING_DEADLINE_S
    said = ""
    with console.status("") as status:
        while not run.ended and time.monotonic() < end:
            news = f"training as gang {gang}: {run.progress}"
            if news != said:
                status.update(news)
                if not console.is_terminal:
                    console.print(news, soft_wrap=True, highlight=False)
            said = news
            time.sleep(WAIT_S)


def _judge_training(shown: Demo, run: training.Training) -> None:
    report = run.report(deadline_s=1.0)
    if isinstance(report, str):
        shown.problems.append(report)
        return
    shown.report = report
    if report.get("world") != TRAINING_PODS:
        shown.problems.append(f"the training had {report.get('world')} ranks, not {TRAINING_PODS}")
    if report.get("rank_order") != run.expected_order():
        shown.problems.append(
            f"the training's ranks were {report.get('rank_order')}, not {run.expected_order()}"
        )


def find_problems(shown: Demo) -> None:
    """Compare what happened with what should have."""
    result = shown.result()
    if result["started"] != result["gangs"]:
        names = ", ".join(gang.name for gang in shown.observer.waiting()[:5])
        missing = result["gangs"] - result["started"]
        shown.problems.append(f"{missing} gangs never started, such as {names}")
    if result["partial"]:
        shown.problems.append(f"{result['partial']} times a gang was seen bound in part")
    pods = sum(len(job.pods) for job in shown.jobs)
    if result["pods_bound"] != pods:
        shown.problems.append(f"{result['pods_bound']} pods were bound, not {pods}")
    failures = _failures(shown.service)
    if failures:
        shown.problems.append(f"the engine failed on {failures:.0f} events; see the log above")


def _failures(service: Service) -> float:
    """Events that the engine failed on with an internal error."""
    samples = [
        sample for found in service.metrics.step_failures.collect() for sample in found.samples
    ]
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))
