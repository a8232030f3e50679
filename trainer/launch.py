"""torchrun, told what the scheduler and the launcher of the pod know.

`muster-train launch` takes torchrun's options and hands them to torchrun. Around that it
translates the pod's launch environment into torchrun's variables, makes the hint and the few
allowed variables known to the workers, and ends with the exit codes that controllers expect.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainer import command_line, first_pod, ports
from trainer.errors import PreflightError, RendezvousError, SettingsError, WorldError
from trainer.facts import Machine
from trainer.health import METRICS_DIR, Health
from trainer.held_store import held_store
from trainer.interruption import EXIT_CODE, leave_on_sigterm_until_workers_run
from trainer.plan import Plan, plan_here, surroundings
from trainer.settings import PreflightSettings, environment

log = logging.getLogger("muster.launch")

LINGER = 0.5
"""Seconds that a launcher stays after a success, so that the store which one of them
[holds](held_store.py) is there until the last has looked whether all are done."""

PREFLIGHT_OFFSET = 2
"""The checks meet above torchrun's port: a store that closes and one that opens on the same port
would be taken for each other."""

PORT_SECONDS = 300
"""How long the other pods wait for the first to say which port it took."""


def linger() -> None:
    """What a launcher of several does after a success; see LINGER."""
    time.sleep(LINGER)


def launch(args: Sequence[str], before_leaving: Callable[[], object] = linger) -> int:
    """Run torchrun with these arguments in this process, and return the exit code.

    ``before_leaving`` is called after a success of several pods, and keeps this one there until the
    others need it no more.

    143 if SIGTERM ended it, else the exit code of the first worker that failed (128 + n for
    signal n). Changes this process's environment. Raises TrainerError, RendezvousError where the
    agents lose each other.
    """
    leave_on_sigterm_until_workers_run()
    args = command_line.without_separator(args)
    settings, said = command_line.said(args)
    env = surroundings(environment())
    chosen, machine = plan_here(settings, env, said)
    _announce(chosen)
    if chosen.decisions.errors:
        raise WorldError("; ".join(chosen.decisions.errors))
    _apply(chosen.variables)
    with _served(settings.metrics_port):
        _agree_on_port(chosen)
        if settings.preflight:
            _preflight(chosen, machine)
        with first_pod.met(settings, chosen) as decision:
            options = command_line.parser().parse_args(args)
            command_line.prepare(options, chosen.world)
            if decision is not None:
                command_line.renumber(options, chosen.world.node_rank or 0, decision)
            return _run(options, before_leaving)


def _announce(chosen: Plan) -> None:
    if chosen.found.problem:
        log.warning("hint ignored: %s", chosen.found.problem)
    for warning in chosen.decisions.warnings:
        log.warning("%s", warning)
    given = " ".join(f"{name}={value}" for name, value in chosen.decisions.set.items())
    log.info(
        "%s, launched by %s; hint: %s; backend: %s, %s; setting %s",
        chosen.world.position,
        chosen.world.launcher,
        chosen.found.origin,
        chosen.backend.name,
        chosen.backend.why,
        given or "nothing",
    )


def _agree_on_port(chosen: Plan) -> None:
    """The first pod picks a free port of the gang's, and the others ask it which."""
    if chosen.gang is None or chosen.world.master_addr is None:
        return
    if chosen.world.node_rank == 0:
        port = ports.Beacon(chosen.gang).store_port
    else:
        port = ports.find(chosen.gang, chosen.world.master_addr, PORT_SECONDS)
    os.environ["PET_MASTER_PORT"] = str(port)
    log.info("port %d, derived from gang %s", port, chosen.gang)


def _preflight(chosen: Plan, machine: Machine) -> None:
    """Raises PreflightError for what the checks find."""
    from trainer import preflight
    from trainer.findings import table

    if chosen.world.max_nodes == 1:
        return
    port = first_pod.agreed_port(chosen.world) + PREFLIGHT_OFFSET
    worker = preflight.pod_as_worker(chosen.world, port)
    limits = PreflightSettings.load(environment(), {})
    problems = preflight.problems_of(chosen.decisions)
    found = preflight.run(worker, limits, machine, problems, tuple(chosen.decisions.warnings))
    if worker.rank == 0:
        sys.stderr.write(table(found))
    if not found.ok:
        raise PreflightError("; ".join(found.problems))


@contextmanager
def _served(port: int) -> Iterator[None]:
    """/healthz and /metrics of this pod while inside."""
    if not port:
        yield
        return
    with TemporaryDirectory(prefix="muster-metrics-") as folder:
        try:
            health = Health(Path(folder), port)
        except OSError as error:
            raise SettingsError(f"--metrics-port {port}: {error}; choose another") from error
        os.environ[METRICS_DIR] = folder
        try:
            yield
        finally:
            health.close()


def _apply(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _run(options: argparse.Namespace, before_leaving: Callable[[], object]) -> int:
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
    from torch.distributed.elastic.rendezvous.api import RendezvousError as NotMetError
    from torch.distributed.run import run

    try:
        with held_store(options):
            record(run)(options)
            if options.nnodes not in ("1", "1:1"):
                before_leaving()
    except SignalException as error:
        log.warning("ended by %s", error.sigval.name)
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        return _failed(error)
    except (DistError, NotMetError) as error:
        raise RendezvousError(
            f"this pod lost the others, or never met them: {_first_line(error)}; the pod that "
            "serves the rendezvous may be gone"
        ) from error
    return 0


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [repr(error)])[0]


def _failed(error: Any) -> int:
    """The exit code of the worker that failed first; 143 stands for an orderly stop."""
    _rank, failure = error.get_first_failure()
    code = failure.exitcode if failure.exitcode >= 0 else 128 - failure.exitcode
    if code == EXIT_CODE:
        log.warning("the workers were stopped by SIGTERM")
    else:
        log.error("%s", error)
    return code or 1
