"""muster-train: launch, rehearse and train, and show what would be set."""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from trainer.errors import SettingsError, TrainerError
from trainer.interruption import EXIT_CODE, RETRY_CODE
from trainer.settings import (
    LaunchSettings,
    PreflightSettings,
    environment,
    help_of,
)
from trainer.train_settings import TrainSettings

CONFIGURATION_ERROR = 2

app = typer.Typer(
    help="Distributed PyTorch training with ranks in topology order.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    # Rich takes the square brackets around variables and defaults for markup, and drops them.
    rich_markup_mode=None,
)


class Verbatim(TyperCommand):
    """A command whose arguments are read by torchrun's own parser."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []


def _train(name: str) -> Any:
    return typer.Option(help=help_of(TrainSettings, name), show_default=False)


def _preflight(name: str) -> Any:
    return typer.Option(help=help_of(PreflightSettings, name), show_default=False)


def _launch(name: str) -> Any:
    return typer.Option(help=help_of(LaunchSettings, name), show_default=False)


@app.command(
    "launch",
    cls=Verbatim,
    add_help_option=False,
    short_help="Start this pod's workers with torchrun.",
)
def launch_command(ctx: typer.Context) -> None:
    """Start this pod's workers with torchrun: launch [torchrun options] -- SCRIPT args."""
    from trainer.launch import launch

    with _paused_collector():
        import torch.distributed.run  # noqa: F401
    raise typer.Exit(launch(ctx.args))


@app.command(
    "rehearse",
    cls=Verbatim,
    add_help_option=False,
    short_help="Play a whole gang on this machine, from its hints.",
)
def rehearse_command(ctx: typer.Context) -> None:
    """Play a whole gang on this machine: rehearse HINTS.json [torchrun options] -- SCRIPT args.

    HINTS.json is a list with the hint of each pod, or null for a pod without one; docs/trainer.md
    shows one. The options are those of `muster-train launch`.
    """
    from trainer.rehearse import rehearse

    if ctx.args and ctx.args[0] in ("-h", "--help"):
        typer.echo(ctx.get_help())
        return
    if not ctx.args or ctx.args[0].startswith("-"):
        raise SettingsError(
            "rehearse wants a file first: a JSON list with the hint of each pod; see --help"
        )
    with _paused_collector():
        code = rehearse(Path(ctx.args[0]), ctx.args[1:])
    raise typer.Exit(code)


@app.command("train", short_help="Train a small model, or your own on your data.")
def train_command(
    steps: Annotated[int | None, _train("steps")] = None,
    global_batch: Annotated[int | None, _train("global_batch")] = None,
    lr: Annotated[float | None, _train("lr")] = None,
    momentum: Annotated[float | None, _train("momentum")] = None,
    hidden: Annotated[int | None, _train("hidden")] = None,
    seed: Annotated[int | None, _train("seed")] = None,
    checkpoint_dir: Annotated[Path | None, _train("checkpoint_dir")] = None,
    checkpoint_every: Annotated[int | None, _train("checkpoint_every")] = None,
    keep: Annotated[int | None, _train("keep")] = None,
    report: Annotated[Path | None, _train("report")] = None,
    log_every: Annotated[int | None, _train("log_every")] = None,
    threads: Annotated[int | None, _train("threads")] = None,
    init_timeout: Annotated[int | None, _train("init_timeout")] = None,
    timeout: Annotated[int | None, _train("timeout")] = None,
    model: Annotated[str | None, _train("model")] = None,
    data: Annotated[str | None, _train("data")] = None,
    workers: Annotated[int | None, _train("workers")] = None,
    micro_batch: Annotated[int | None, _train("micro_batch")] = None,
    precision: Annotated[str | None, _train("precision")] = None,
    compile: Annotated[bool | None, _train("compile")] = None,
    clip: Annotated[float | None, _train("clip")] = None,
    max_bad_steps: Annotated[int | None, _train("max_bad_steps")] = None,
    deterministic: Annotated[bool | None, _train("deterministic")] = None,
    bucket_mib: Annotated[float | None, _train("bucket_mib")] = None,
    comm_hook: Annotated[str | None, _train("comm_hook")] = None,
    local_every: Annotated[int | None, _train("local_every")] = None,
    local_warmup: Annotated[int | None, _train("local_warmup")] = None,
    cuda_graphs: Annotated[bool | None, _train("cuda_graphs")] = None,
    channels_last: Annotated[bool | None, _train("channels_last")] = None,
    async_save: Annotated[bool | None, _train("async_save")] = None,
    jsonl: Annotated[Path | None, _train("jsonl")] = None,
    curve: Annotated[Path | None, _train("curve")] = None,
    tensorboard: Annotated[Path | None, _train("tensorboard")] = None,
    mlflow: Annotated[str | None, _train("mlflow")] = None,
    profile: Annotated[Path | None, _train("profile")] = None,
    memory_snapshot: Annotated[Path | None, _train("memory_snapshot")] = None,
    flight_dir: Annotated[Path | None, _train("flight_dir")] = None,
) -> None:
    """Train a small model on digits or text, or your own on your data, as a worker or alone."""
    settings = TrainSettings.load(environment(), locals())
    raise typer.Exit(_train_recorded(settings))


def _train_recorded(settings: TrainSettings) -> int:
    """torchrun shows the traceback of a worker that records its errors."""
    with _paused_collector():
        from torch.distributed.elastic.multiprocessing.errors import record

        from trainer import loop  # noqa: F401
    code: int | None = record(_train_once)(settings)
    return code or 0


def _train_once(settings: TrainSettings) -> int:
    from trainer.loop import leave, train
    from trainer.rendezvous import init_process_group
    from trainer.report import publish

    ranks = init_process_group(timeout=timedelta(seconds=settings.init_timeout))
    report = train(settings, ranks)
    leave()
    if report is None:
        return EXIT_CODE
    if ranks.rank == 0:
        publish(report, settings.report)
    return 0


@app.command("env")
def env_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    facts_file: Annotated[
        Path | None,
        typer.Option("--facts", help="JSON file with the machine's facts, instead of the machine."),
    ] = None,
    hint: Annotated[Path | None, _launch("hint")] = None,
    grace: Annotated[int | None, _launch("grace")] = None,
    socket_ifname: Annotated[str | None, _launch("socket_ifname")] = None,
    ib_hca: Annotated[str | None, _launch("ib_hca")] = None,
    backend: Annotated[str | None, _launch("backend")] = None,
    rdma: Annotated[str | None, _launch("rdma")] = None,
    single_switch: Annotated[bool | None, _launch("single_switch")] = None,
    fast_sockets: Annotated[bool | None, _launch("fast_sockets")] = None,
    topo_file: Annotated[Path | None, _launch("topo_file")] = None,
    host_network: Annotated[bool | None, _launch("host_network")] = None,
    flight_recorder: Annotated[int | None, _launch("flight_recorder")] = None,
) -> None:
    """Show what launch would set here and why, and what looks wrong. Starts nothing."""
    env = environment()
    settings = LaunchSettings.load(env, locals())
    raise typer.Exit(_show_env(settings, facts_file, as_json))


def _show_env(settings: LaunchSettings, facts_file: Path | None, as_json: bool) -> int:
    from trainer import describe, facts
    from trainer.plan import plan_here, surroundings

    env = surroundings(environment())
    try:
        given = facts.load(facts_file) if facts_file else None
        chosen, machine = plan_here(settings, env, machine=given)
    except TrainerError as error:
        if not as_json:
            raise
        typer.echo(json.dumps(describe.failure(str(error)), indent=1))
        return CONFIGURATION_ERROR
    found = describe.document(chosen, machine)
    typer.echo(json.dumps(found, indent=1) if as_json else describe.text(chosen, found))
    return CONFIGURATION_ERROR if found["errors"] else 0


@app.command("preflight", short_help="Name who is missing or slow before the training.")
def preflight_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    deadline: Annotated[float | None, _preflight("deadline")] = None,
    timeout: Annotated[float | None, _preflight("timeout")] = None,
    size_mib: Annotated[int | None, _preflight("size_mib")] = None,
    repeats: Annotated[int | None, _preflight("repeats")] = None,
    min_gbps: Annotated[float | None, _preflight("min_gbps")] = None,
    min_share: Annotated[float | None, _preflight("min_share")] = None,
    min_allreduce_gbps: Annotated[float | None, _preflight("min_allreduce_gbps")] = None,
) -> None:
    """Check a gang before it trains: run in every pod, it names what is missing or slow."""
    settings = PreflightSettings.load(environment(), locals())
    raise typer.Exit(_run_preflight(settings, as_json))


def _run_preflight(settings: PreflightSettings, as_json: bool) -> int:
    from trainer import preflight
    from trainer.findings import table
    from trainer.plan import plan_here, surroundings
    from trainer.worker import read_worker

    env = surroundings(environment())
    chosen, machine = plan_here(LaunchSettings.load(env, {}), env)
    below_launcher = read_worker(env) if "LOCAL_RANK" in env else None
    worker = below_launcher or preflight.pod_as_worker(chosen.world)
    decisions = chosen.decisions
    # gloo would otherwise listen where the host's name leads, which may be the loopback interface.
    os.environ.update(decisions.set)
    problems, warnings = preflight.problems_of(decisions), tuple(decisions.warnings)
    found = preflight.run(worker, settings, machine, problems, warnings)
    if worker.rank == 0:
        typer.echo(found.as_json() if as_json else table(found), nl=as_json)
    for problem in found.problems:
        typer.echo(f"muster-train: {problem}", err=True)
    return 0 if found.ok else RETRY_CODE


@contextmanager
def _paused_collector() -> Iterator[None]:
    """Importing makes a million objects that stay; collecting among them costs a tenth of it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _configure_logging() -> None:
    logger = logging.getLogger("muster")
    if logger.handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("muster: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


def run(args: Sequence[str] | None = None) -> int:
    """The command line as a function: its exit code."""
    _configure_logging()
    try:
        app(args, prog_name="muster-train")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except TrainerError as error:
        typer.echo(f"muster-train: {error}", err=True)
        return RETRY_CODE if error.retry else CONFIGURATION_ERROR
    return 0


def main() -> None:
    """Entry point of the muster-train command."""
    _leave(run())


def _leave(code: int) -> None:
    """Taking torch's modules apart at exit takes a second, in every process, to no end. A worker
    that torchrun started as a function still has to hand its result over.
    """
    if "torch" not in sys.modules or multiprocessing.parent_process() is not None:
        sys.exit(code)
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
