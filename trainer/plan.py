"""What the environment of torchrun and its workers is to become: decided before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from trainer import harms, hints, launchers, nccl, pod_annotations, probe, world
from trainer.backend import Backend, Devices, choose_backend, devices_of
from trainer.facts import Machine
from trainer.hints import FoundHint, Hint
from trainer.numbers import is_whole
from trainer.routes import outgoing
from trainer.settings import HintSource, LaunchSettings

Env = Mapping[str, str]

SHUTDOWN_MARGIN = 5
"""Seconds of the pod's grace period that are kept for the launcher itself."""


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


def local_processes(pods: world.LaunchWorld, devices: Devices) -> int:
    """Workers of this pod; `gpu` means one a device, `auto` that or one a CPU, as in torchrun."""
    text = pods.nproc_per_node or "1"
    if is_whole(text, 1):
        return int(text)
    if text in ("gpu", "auto", "xpu") and (devices.cuda or devices.gaudi):
        return devices.cuda or devices.gaudi
    return os.cpu_count() or 1
