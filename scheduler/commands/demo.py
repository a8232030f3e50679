"""``muster demo``: a day of a real trace on an embedded cluster, and one real training."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from scheduler.api import ServerThread, create_app
from scheduler.commands import printing
from scheduler.errors import MusterError
from scheduler.service import Service
from scheduler.settings import Settings
from scheduler.simulation import demo_run, live, picture, traces, training
from scheduler.simulation.cluster import ClusterOptions, EmbeddedCluster
from scheduler.simulation.fleet import LEVELS, Fleet, nodes
from scheduler.simulation.jobs import GangJob, from_trace
from scheduler.simulation.observer import Observer
from scheduler.simulation.scheduler_options import SchedulerOptions


def demo(
    seed: Annotated[
        int, typer.Option(help="Draws the jobs' durations and breaks ties in the scheduler.")
    ] = traces.SEED,
    gangs: Annotated[int | None, typer.Option(min=1, help="Only the first N gangs.")] = None,
    train: Annotated[
        bool, typer.Option("--train/--no-train", help="Run one placed gang as a real training.")
    ] = True,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page and the API; 0 = a free one.")
    ] = 0,
    hold: Annotated[bool, typer.Option("--hold", help="Keep the page up until Ctrl-C.")] = False,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("out/demo.svg"),
) -> None:
    """Replay a day of gangs on an embedded cluster of 512 GPUs, then train on one of them.

    The last line on standard output is one JSON object; all else goes to standard error.
    """
    console = Console(stderr=True)
    if train and not training.installed():
        raise MusterError("the trainer is not installed here; use --no-train, or `make install`")
    _make_folder(out)
    try:
        with _interrupted_by_sigterm(), ExitStack() as stack:
            shown = _start(stack, _jobs(seed, gangs, train), seed, train, port, console)
            demo_run.replay(shown, console, stack)
            demo_run.finish_training(shown, console)
            _show(shown, console, out)
            if hold:
                _hold(console)
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(130) from None
    typer.echo(json.dumps(shown.result()))
    raise typer.Exit(1 if shown.problems else 0)


def _make_folder(out: Path) -> None:
    """Find out before the work whether the picture can be written."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            raise MusterError(f"cannot write the picture to {out}: it is a folder; choose --out")
        out.touch()
    except OSError as error:
        text = f"cannot write the picture to {out}: {error.strerror}; choose --out"
        raise MusterError(text) from error


def _jobs(seed: int, count: int | None, train: bool) -> list[GangJob]:
    jobs = from_trace(traces.with_durations(traces.philly_day(), seed)[:count])
    if train and not any(len(job.pods) == demo_run.TRAINING_PODS for job in jobs):
        last = jobs[-1].arrival_s
        jobs.append(GangJob("train", (8,) * demo_run.TRAINING_PODS, arrival_s=last + 60, run_s=600))
    return jobs


def _start(
    stack: ExitStack,
    jobs: list[GangJob],
    seed: int,
    train: bool,
    port: int,
    console: Console,
) -> demo_run.Demo:
    fleet = Fleet()
    cluster = EmbeddedCluster(nodes(fleet), ClusterOptions(SchedulerOptions(seed=seed)))
    settings = Settings(levels=LEVELS)
    service = Service(
        settings,
        cluster.actuator,
        clock=cluster.clock,
        timer=cluster.timer,
        objects=cluster.objects,
    )
    server = stack.enter_context(ServerThread(create_app(service), port=port, options="--port"))
    service.start()
    stack.callback(service.stop)
    shown = demo_run.Demo(cluster, service, Observer(cluster), jobs, fleet, train)
    stack.callback(cluster.stop)
    cluster.start(service.post, server.url)
    for job in jobs:
        cluster.jobs.submit(job)
    console.print(
        f"An embedded cluster of {fleet.blocks * fleet.racks * fleet.nodes} nodes and "
        f"{fleet.total_gpus} GPUs; Muster answers its scheduler at {server.url}, "
        "which also shows the page.",
        soft_wrap=True,
    )
    return shown


def _show(shown: demo_run.Demo, console: Console, out: Path) -> None:
    observer = shown.observer
    title = (
        f"The busiest moment, {live.clock_text(observer.busiest_at)}: "
        f"{sum(sum(held.values()) for held in observer.busiest.values())} of "
        f"{shown.fleet.total_gpus} GPUs in use"
    )
    drawn = picture.picture(title, shown.cluster.api.store.of_kind("Node"), observer.busiest)
    console.print(picture.as_text(drawn))
    out.write_text(picture.as_svg(drawn), encoding="utf-8")
    console.print(f"The same as a file: {out}")
    _summarize(shown, console)


def _summarize(shown: demo_run.Demo, console: Console) -> None:
    observer, result = shown.observer, shown.result()
    waits = [gang.started - gang.arrived for gang in observer.started() if gang.started is not None]
    late = [wait for wait in waits if wait >= 1]
    console.print(
        f"{result['started']} of {result['gangs']} gangs started whole, {waited(late)}; "
        f"{result['partial']} partial; {result['mean_racks']} racks per gang of several pods, on "
        "average.",
        soft_wrap=True,
    )
    if shown.report and shown.trained:
        console.print(
            f"Trained as {shown.trained.name} on {' '.join(shown.report['rank_order'])}: "
            f"loss {shown.report.get('loss', 0.0):.3f}, accuracy {shown.report['accuracy']:.3f}.",
            soft_wrap=True,
        )
    demo_run.find_problems(shown)
    for problem in shown.problems:
        console.print(f"PROBLEM: {problem}", style="bold red", markup=False)


def waited(late: Sequence[float]) -> str:
    """How many gangs waited for room, and how long the last of them did."""
    if not late:
        return "all at once"
    return f"{len(late)} after waiting for room (up to {printing.seconds(max(late))})"


def _hold(console: Console) -> None:
    try:
        console.print("The page stays up; Ctrl-C ends it.")
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
