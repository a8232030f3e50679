"""torchrun, told what the scheduler and the launcher of the pod know.

`muster-train launch` takes torchrun's options and hands them to torchrun. Around that it
translates the pod's launch environment into torchrun's variables, makes the hint and the few
allowed variables known to the workers, and ends with the exit codes that controllers expect.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainer import harms, hints, launchers, nccl, pod_annotations, ports, probe, reach, world
from trainer.backend import Backend, Devices, choose_backend, devices_of
from trainer.errors import PreflightError, SettingsError, WorldError
from trainer.facts import Machine
from trainer.health import METRICS_DIR, Health
from trainer.hints import FoundHint, Hint
from trainer.interruption import EXIT_CODE
from trainer.routes import outgoing
from trainer.settings import (
    HintSource,
    LaunchSettings,
    PreflightSettings,
    environment,
    flag,
    help_of,
)

log = logging.getLogger("muster.launch")

Env = Mapping[str, str]

SHUTDOWN_MARGIN = 5
"""Seconds of the pod's grace period that are kept for the launcher itself."""

UNSHARED_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
"""Gives each attempt a store of its own. Otherwise restarted workers find the addresses of dead
ones in it, and some restarts fail with connections refused."""

LINGER = 0.5
"""Seconds that a launcher stays after a success. One of them serves the store at which all meet
once more before they leave, and torchrun prints a traceback in those it deserts too early."""

PREFLIGHT_OFFSET = 2
"""The checks meet above torchrun's port: a store that closes and one that opens on the same port
would be taken for each other."""

PORT_SECONDS = 300
"""How long the other pods wait for the first to say which port it took."""

_NO_SCRIPT = "\0"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the environment of torchrun and its workers becomes, and why."""

    world: world.LaunchWorld
    found: FoundHint
    decisions: nccl.Decisions
    backend: Backend
    processes: int
    """Workers of this pod."""
    variables: dict[str, str | None]
    """To set; None: to unset."""
    gang: str | None = None
    """Id of the gang whose ports are to be agreed on, where the pods share their nodes' network
    and nothing says a port.
    """
    profile: str | None = None
    """The cloud vendor's network profile in use."""


def plan(
    settings: LaunchSettings,
    env: Env,
    devices: Devices,
    host: str,
    said: world.LaunchWorld | None = None,
    look: Callable[[str | None], Machine] = lambda _master: Machine(),
) -> Plan:
    """Decide everything before torchrun starts. Reads the hint's file and nothing else.

    said: what the command line told torchrun.
    look: the machine's facts, given the first pod's address.

    Raises WorldError for a launch environment that contradicts itself.
    """
    found = hints.find(HintSource.load(env, settings.hint))
    pods = launchers.read_launch(env, host, found.hint.size if found.hint else None, said)
    gang = _gang_to_agree(settings, pods, found.hint, host)
    if gang is None and pods.static and pods.max_nodes > 1 and pods.master_port is None:
        pods = replace(pods, master_port=world.DEFAULT_PORT)
    processes = local_processes(pods, devices)
    backend = choose_backend(devices, processes, settings.backend, _has_mpi(settings))
    machine = look(pods.meeting_point[0] if pods.meeting_point else None)
    facts = _facts(settings, devices, backend, found.hint, machine, pods, processes, env)
    decisions = nccl.decide(env, facts)
    decisions.errors += [backend.error] if backend.error else []
    decisions.warnings += _deserted(pods)
    torchrun = world.torchrun_variables(pods)
    torchrun["PET_SHUTDOWN_TIMEOUT"] = str(max(1, settings.grace - SHUTDOWN_MARGIN))
    variables: dict[str, str | None] = dict(found.variables)
    variables |= {name: value for name, value in torchrun.items() if not env.get(name)}
    variables |= decisions.set
    return Plan(pods, found, decisions, backend, processes, variables, gang, facts.profile)


def plan_here(
    settings: LaunchSettings,
    env: Env,
    said: world.LaunchWorld | None = None,
    machine: Machine | None = None,
) -> tuple[Plan, Machine]:
    """The plan for this pod, with the facts of this machine or those given."""
    known = machine or probe.machine(env)

    def look(master: str | None) -> Machine:
        if machine is not None or master is None:
            return known
        return replace(known, route_to_master=outgoing(master))

    host = machine.hostname if machine and machine.hostname else launchers.own_name(env)
    return plan(settings, env, devices_of(known), host, said, look), known


def _facts(
    settings: LaunchSettings,
    devices: Devices,
    backend: Backend,
    hint: Hint | None,
    machine: Machine,
    pods: world.LaunchWorld,
    processes: int,
    env: Env,
) -> nccl.Facts:
    adapters = [hca.name for hca in machine.infiniband or ()]
    return nccl.Facts(
        settings=settings,
        devices=devices,
        nccl=backend.name == "nccl",
        hccl=backend.name == "hccl",
        hint=hint,
        machine=machine,
        nodes=pods.max_nodes,
        processes=processes,
        master=pods.meeting_point[0] if pods.meeting_point else None,
        profile=harms.profile(env, machine.vendor_files, adapters),
    )


def _deserted(pods: world.LaunchWorld) -> list[str]:
    """The first pod may call itself localhost, as Kubeflow's does; from the others it is wrong."""
    point = pods.meeting_point
    if point is None or pods.max_nodes == 1 or (pods.static and not pods.node_rank):
        return []
    if point[0] != "localhost" and not point[0].startswith("127."):
        return []
    return [
        f"the first of {pods.nnodes} pods is said to be at {point[0]}, which is this pod itself; "
        "fine on one machine, wrong in a cluster"
    ]


def _has_mpi(settings: LaunchSettings) -> bool:
    if settings.backend != "mpi":
        return False
    import torch.distributed as dist

    return dist.is_mpi_available()


def surroundings(env: Env) -> dict[str, str]:
    """The environment, with what the pod's annotations say where it is silent."""
    path = Path(env.get("MUSTER_ANNOTATIONS_FILE") or pod_annotations.DEFAULT_FILE)
    return {**env, **pod_annotations.variables(pod_annotations.read(path), env)}


def _gang_to_agree(
    settings: LaunchSettings, pods: world.LaunchWorld, hint: Hint | None, host: str
) -> str | None:
    if hint is None or not pods.static or pods.max_nodes == 1 or pods.master_port:
        return None
    on_host = settings.host_network or hint.node == host or hint.node == host.split(".")[0]
    return f"{hint.gang}/{hint.id}" if on_host else None


def launch(args: Sequence[str]) -> int:
    """Run torchrun with these arguments in this process, and return the exit code.

    143 if SIGTERM ended it, else the exit code of the first worker that failed (128 + n for
    signal n). Changes this process's environment. Raises TrainerError.
    """
    _leave_on_sigterm_until_workers_run()
    args = _without_separator(args)
    settings, said = _said(args)
    env = surroundings(environment())
    chosen, machine = plan_here(settings, env, said)
    _announce(chosen)
    if chosen.decisions.errors:
        raise WorldError("; ".join(chosen.decisions.errors))
    _apply(chosen.variables)
    _agree_on_port(chosen)
    if settings.preflight:
        _preflight(chosen, machine)
    _reach_first_pod(settings, chosen.world)
    options = _parser().parse_args(args)
    _prepare(options, chosen.world)
    with _served(settings.metrics_port):
        return _run(options)


def local_processes(pods: world.LaunchWorld, devices: Devices) -> int:
    """Workers of this pod; `gpu` means one a device, `auto` that or one a CPU, as in torchrun."""
    text = pods.nproc_per_node or "1"
    if text.isdecimal():
        return int(text)
    if text in ("gpu", "auto", "xpu") and (devices.cuda or devices.gaudi):
        return devices.cuda or devices.gaudi
    return os.cpu_count() or 1


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


def _reach_first_pod(settings: LaunchSettings, pods: world.LaunchWorld) -> None:
    """torchrun waits, too, but for 15 minutes and without saying for what.

    Raises PreflightError with host, port and seconds.
    """
    point = pods.meeting_point
    if point is None or pods.max_nodes == 1 or not settings.reach_timeout:
        return
    host, port = point[0], int(os.environ.get("PET_MASTER_PORT") or point[1])
    if pods.static and pods.node_rank == 0:
        if not ports.is_free(port):
            raise PreflightError(
                f"port {port} of this pod is taken already, and the gang is to meet there; set "
                "MASTER_PORT in all pods to another"
            )
    elif pods.static or not reach.is_here(host):
        found = reach.wait_for(host, port, settings.reach_timeout)
        log.info("first pod reached at %s:%d after %.1f s", found.address, port, found.seconds)


def _preflight(chosen: Plan, machine: Machine) -> None:
    """Raises PreflightError for what the checks find."""
    from trainer import preflight

    if chosen.world.max_nodes == 1:
        return
    point = chosen.world.meeting_point
    said = int(os.environ.get("PET_MASTER_PORT") or (point[1] if point else 0))
    worker = preflight.pod_as_worker(chosen.world, said + PREFLIGHT_OFFSET)
    limits = PreflightSettings.load(environment(), {})
    found = preflight.run(worker, limits, machine, preflight.problems_of(chosen.decisions))
    if worker.rank == 0:
        sys.stderr.write(preflight.table(found))
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


def _parser() -> argparse.ArgumentParser:
    """torchrun's parser (its defaults come from `PET_*` at this moment) with our options."""
    from torch.distributed.run import get_args_parser

    parser: argparse.ArgumentParser = get_args_parser()
    parser.prog = "muster-train launch"
    group = parser.add_argument_group("muster", "What torchrun does not know.")
    for item in fields(LaunchSettings):
        kind: dict[str, Any] = {"metavar": item.name.upper()}
        if str(item.type) == "bool":
            kind = {"action": "store_const", "const": "true"}
        text = help_of(LaunchSettings, item.name).replace("%", "%%")
        group.add_argument(flag(item.name), dest=_dest(item.name), help=text, **kind)
    return parser


def _dest(name: str) -> str:
    return f"muster_{name}"


def _said(args: Sequence[str]) -> tuple[LaunchSettings, world.LaunchWorld]:
    """What the command line says, and nothing of what `PET_*` or a default says."""
    names = [item.name for item in fields(world.LaunchWorld) if item.name != "launcher"]
    parser = _parser()
    parser.set_defaults(**dict.fromkeys(names))
    options = vars(parser.parse_args(args))
    given = {item.name: options[_dest(item.name)] for item in fields(LaunchSettings)}
    said = world.LaunchWorld("command line", **{name: options[name] for name in names})
    return LaunchSettings.load(environment(), given), said


def _without_separator(args: Sequence[str]) -> list[str]:
    """Drop the `--` before the script, which torchrun does not know; one behind the script is
    the script's own.
    """
    if "--" not in args:
        return list(args)
    at = list(args).index("--")
    before, after = list(args[:at]), list(args[at + 1 :])
    if _parser().parse_args([*before, _NO_SCRIPT]).training_script == _NO_SCRIPT:
        return before + after
    return list(args)


def _prepare(options: argparse.Namespace, pods: world.LaunchWorld) -> None:
    """See to what torchrun would accept and then break on."""
    if options.max_restarts or pods.elastic:
        os.environ.setdefault(UNSHARED_STORE, "1")
    if pods.static and pods.max_nodes > 1 and options.max_restarts:
        log.warning(
            "--max-restarts with a static rendezvous restarts each pod's workers on their own, and "
            "they will not find each other; use --rdzv-backend c10d, or 0 and let the controller "
            "recreate the pods"
        )
    if options.run_path and options.module:
        options.training_script = _module_file(options.training_script)


def _module_file(name: str) -> str:
    """The file that `python -m NAME` runs."""
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        spec = find_spec(f"{name}.__main__")
    if spec is None or spec.origin is None:
        raise WorldError(f"no module named {name} to run")
    return spec.origin


def _run(options: argparse.Namespace) -> int:
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
    from torch.distributed.run import run

    try:
        record(run)(options)
    except SignalException as error:
        log.warning("ended by %s", error.sigval.name)
        return 128 + int(error.sigval)
    except ChildFailedError as error:
        return _failed(error)
    if options.nnodes not in ("1", "1:1"):
        time.sleep(LINGER)
    return 0


def _failed(error: Any) -> int:
    """The exit code of the worker that failed first; 143 stands for an orderly stop."""
    _rank, failure = error.get_first_failure()
    code = failure.exitcode if failure.exitcode >= 0 else 128 - failure.exitcode
    if code == EXIT_CODE:
        log.warning("the workers were stopped by SIGTERM")
    else:
        log.error("%s", error)
    return code or 1


def _leave_on_sigterm_until_workers_run() -> None:
    """Until torchrun has installed its own handlers nothing reacts to SIGTERM: importing takes
    seconds, waiting for the other pods up to minutes inside C++, where no Python handler runs,
    and the kernel ignores default actions for a container's first process. The interpreter
    still writes the signal's number to a descriptor at once, so a thread can end the process.
    """
    signal.signal(signal.SIGTERM, _early)
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(receiver, sender), daemon=True).start()


def _early(_number: int, _frame: object) -> None:
    """Only marks that torchrun's handler is not there yet."""


def _watch(receiver: socket.socket, _sender: socket.socket) -> None:
    while numbers := receiver.recv(64):
        if signal.SIGTERM in numbers and signal.getsignal(signal.SIGTERM) is _early:
            sys.stderr.write("muster: SIGTERM before any worker ran\n")
            sys.stderr.flush()
            os._exit(EXIT_CODE)
