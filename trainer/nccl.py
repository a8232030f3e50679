"""The few variables that facts may set, and what looks wrong.

NCCL's own guide divides its variables: those under "System configuration" may be set by whoever
knows the system; those under "Debugging" "should not be used in production nor retained in
scripts". So topology becomes rank order and not variables, nothing that is already set is
touched (images, vendors' profiles and admins know better), and harmful presets are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainer import fabric, harms
from trainer.backend import Devices, choose_backend, devices_of, doubles
from trainer.harms import HARMS
from trainer.probe import machine as probe_machine
from trainer.rules import RULES, Facts
from trainer.settings import environment

__all__ = ["HARMS", "RULES", "Decisions", "Devices", "Facts", "choose_backend", "decide"]

Env = Mapping[str, str]


@dataclass(slots=True)
class Decisions:
    """What to put into the environment, and why."""

    set: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Variables that a rule would have set, and that had a value already."""
    why: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def decide(env: Env, facts: Facts) -> Decisions:
    """Which variables to set, which to leave as they are, and what looks wrong. Pure."""
    decisions = Decisions()
    for rule in RULES:
        value = rule.value(facts)
        if value is None:
            continue
        target = decisions.kept if env.get(rule.variable) else decisions.set
        target[rule.variable] = env.get(rule.variable) or value
        decisions.why[rule.variable] = f"{rule.why} [{rule.source}]"
    decisions.warnings += harms.found(env) if facts.nccl else []
    decisions.warnings += [text for text in _doubts(env, facts) if text]
    decisions.errors += [text for text in _faults(facts) if text]
    return decisions


def _doubts(env: Env, facts: Facts) -> list[str | None]:
    settings = facts.settings
    return [
        _no_imex(facts),
        f"--topo-file {settings.topo_file} does not exist; left out"
        if settings.topo_file is not None and not settings.topo_file.is_file()
        else None,
        "--fast-sockets left out: the pod has RDMA devices, which do not use them"
        if settings.fast_sockets and facts.devices.rdma
        else None,
        _no_rdma(env, facts) if settings.rdma != "required" else None,
        fabric.shm_shortage(facts.machine, facts.processes) if facts.nccl else None,
        facts.interface.problem if facts.nodes > 1 and not settings.socket_ifname else None,
        _preset_interface(env, facts),
    ]


def _faults(facts: Facts) -> list[str | None]:
    wrong = fabric.unknown_interfaces(facts.machine, facts.settings.socket_ifname or "")
    twice = doubles(facts.machine)
    return [
        f"--socket-ifname names {', '.join(wrong)}, which is not an interface that is up here"
        if wrong
        else None,
        _no_rdma({}, facts) if facts.settings.rdma == "required" else None,
        f"GPU {twice[0]} is listed twice; two processes would share it" if twice else None,
        _missing_adapters(facts),
    ]


def _no_imex(facts: Facts) -> str | None:
    if not (facts.nccl and facts.hint and facts.hint.clique) or facts.devices.imex:
        return None
    return (
        f"the node is in NVLink domain {facts.hint.clique}, but the pod has no IMEX channel "
        "(/dev/nvidia-caps-imex-channels); NVLink between nodes will not be used"
    )


def _no_rdma(env: Env, facts: Facts) -> str | None:
    if not (facts.tunes_network and facts.lacks_rdma):
        return None
    seen = fabric.unusable_adapters(facts.machine)
    preset = env.get("NCCL_IB_DISABLE", "")
    return (
        f"no InfiniBand or RoCE adapter can be used ({', '.join(seen) or 'the pod has none'}), so "
        "traffic between nodes goes over TCP sockets, far slower; give the pod an RDMA device "
        "(/dev/infiniband, a device plugin's resource)"
        + (f"; NCCL_IB_DISABLE={preset} is left as it is" if preset else "")
    )


def _missing_adapters(facts: Facts) -> str | None:
    """NCCL would find none of them, and fail."""
    if not facts.settings.ib_hca or facts.machine.infiniband is None:
        return None
    known = {hca.name for hca in facts.machine.infiniband}
    asked = [name.partition(":")[0] for name in facts.settings.ib_hca.lstrip("=").split(",")]
    wrong = [name for name in asked if name not in known]
    return f"--ib-hca names {', '.join(wrong)}, which is not there" if wrong else None


def _preset_interface(env: Env, facts: Facts) -> str | None:
    value = env.get("GLOO_SOCKET_IFNAME", "")
    wrong = fabric.unknown_interfaces(facts.machine, value)
    if not wrong:
        return None
    return f"GLOO_SOCKET_IFNAME={value}: {', '.join(wrong)} is not an interface that is up here"


def mounted_devices(env: Env) -> Devices:
    """What the pod was given, by its device files: quick, and without touching a driver."""
    return devices_of(probe_machine(env))


def visible_devices() -> Devices:
    """What torch can use in this process; asks the CUDA driver."""
    import torch

    mounted = mounted_devices(environment())
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    gaudi = mounted.gaudi if hasattr(torch, "hpu") else 0
    return replace(mounted, cuda=count, gaudi=gaudi)
