"""``muster demo``: a day of a real trace on an embedded cluster, and one real training."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from scheduler.api import ServerThread, create_app
from scheduler.errors import MusterError
from scheduler.service import Service
from scheduler.settings import Settings
from scheduler.simulation import live, picture, traces, training
from scheduler.simulation.clock import Pacer
from scheduler.simulation.cluster import ClusterOptions, EmbeddedCluster
from scheduler.simulation.fleet import LEVELS, Fleet, nodes
from scheduler.simulation.jobs import GangJob, from_trace
from scheduler.simulation.observer import GangSeen, Observer
from scheduler.simulation.scheduler_options import SchedulerOptions

REPLAY_S = 11.0
"""Wall seconds in which the trace is replayed, where the machine is fast enough."""

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


def demo(
    seed: Annotated[
        int, typer.Option(help="Draws the jobs' durations and breaks ties in the scheduler.")
    ] = traces.SEED,
    gangs: Annotated[int | None, typer.Option(min=1, help="Only the first N gangs.")] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Run one placed gang as a real training.")
    ] = True,
    port: Annotated[int, typer.Option(help="Port of the page and the API; 0 = a free one.")] = 0,
    hold: Annotated[bool, typer.Option("--hold", help="Keep the page up until Ctrl-C.")] = False,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo.svg"),
) -> None:
    """Replay a day of gangs on an embedded cluster of 512 GPUs, then train on one of them.

    The last line on standard output is one JSON object; all else goes to standard error.
    """
    console = Console(stderr=True)
    if train and not training.installed():
        raise MusterError("the trainer is not installed here; use --no-train, or `make install`")
    try:
        with _interrupted_by_sigterm(), ExitStack() as stack:
            shown = _start(stack, _jobs(seed, gangs, train), seed, train, port, console)
            _replay(shown, console, stack)
            _finish_training(shown, console)
            _show(shown, console, out)
            if hold:
                _hold(console)
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(130) from None
    typer.echo(json.dumps(shown.result()))
    raise typer.Exit(1 if shown.problems else 0)


def _jobs(seed: int, count: int | None, train: bool) -> list[GangJob]:
    jobs = from_trace(traces.with_durations(traces.philly_day(), seed)[:count])
    if train and not any(len(job.pods) == TRAINING_PODS for job in jobs):
        last = jobs[-1].arrival_s
        jobs.append(GangJob("train", (8,) * TRAINING_PODS, arrival_s=last + 60, run_s=600))
    return jobs


def _start(
    stack: ExitStack,
    jobs: list[GangJob],
    seed: int,
    train: bool,
    port: int,
    console: Console,
) -> Demo:
    fleet = Fleet()
    cluster = EmbeddedCluster(nodes(fleet), ClusterOptions(SchedulerOptions(seed=seed)))
    settings = Settings(levels=LEVELS)
    service = Service(settings, cluster.actuator, clock=cluster.clock, timer=cluster.timer)
    server = stack.enter_context(ServerThread(create_app(service), port=port))
    service.start()
    stack.callback(service.stop)
    shown = Demo(cluster, service, Observer(cluster), jobs, fleet, train)
    cluster.start(service.post, server.url)
    stack.callback(cluster.stop)
    for job in jobs:
        cluster.jobs.submit(job)
    console.print(
        f"An embedded cluster of {fleet.blocks * fleet.racks * fleet.nodes} nodes and "
        f"{fleet.total_gpus} GPUs; Muster answers its scheduler at {server.url}, "
        "which also shows the page."
    )
    return shown


def _replay(shown: Demo, console: Console, stack: ExitStack) -> None:
    loop, observer = shown.cluster.loop, shown.observer
    pacer = Pacer(max(1.0, shown.jobs[-1].arrival_s / REPLAY_S))
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


def _finish_training(shown: Demo, console: Console) -> None:
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


def _show(shown: Demo, console: Console, out: Path) -> None:
    observer = shown.observer
    title = (
        f"The busiest moment, {live.clock_text(observer.busiest_at)}: "
        f"{sum(sum(held.values()) for held in observer.busiest.values())} of "
        f"{shown.fleet.total_gpus} GPUs in use"
    )
    drawn = picture.picture(title, shown.cluster.api.store.of_kind("Node"), observer.busiest)
    console.print(picture.as_text(drawn))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(picture.as_svg(drawn), encoding="utf-8")
    console.print(f"The same as a file: {out}")
    _summarize(shown, console)


def _summarize(shown: Demo, console: Console) -> None:
    observer, result = shown.observer, shown.result()
    waits = [gang.started - gang.arrived for gang in observer.started() if gang.started is not None]
    late = [wait for wait in waits if wait >= 1]
    console.print(
        f"{result['started']} of {result['gangs']} gangs started whole, {len(late)} after waiting "
        f"for room (up to {max(late, default=0) / 60:.0f} min); {result['partial']} partial; "
        f"{result['mean_racks']} racks a gang of several pods."
    )
    if shown.report and shown.trained:
        console.print(
            f"Trained as {shown.trained.name} on {' '.join(shown.report['rank_order'])}: "
            f"loss {shown.report.get('loss', 0.0):.3f}, accuracy {shown.report['accuracy']:.3f}."
        )
    _find_problems(shown)
    for problem in shown.problems:
        console.print(f"PROBLEM: {problem}", style="bold red", markup=False)


def _find_problems(shown: Demo) -> None:
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


def _hold(console: Console) -> None:
    console.print("The page stays up; Ctrl-C ends it.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        return


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """SIGTERM ends everything in the same order as Ctrl-C."""

    def stop(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        sys.stderr.flush()
