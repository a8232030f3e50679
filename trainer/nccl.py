"""The few variables that facts may set, and what looks wrong.

NCCL's own guide divides its variables: those under "System configuration" may be set by whoever
knows the system; those under "Debugging" "should not be used in production nor retained in
scripts". So topology becomes rank order and not variables, nothing that is already set is
touched (images, vendors' profiles and admins know better), and harmful presets are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from trainer import fabric, harms
from trainer.backend import Devices, choose_backend, devices_of, doubles
from trainer.facts import Machine
from trainer.harms import HARMS, SYSTEM, TORCH
from trainer.hints import Hint
from trainer.probe import machine as probe_machine
from trainer.settings import LaunchSettings, environment

__all__ = ["HARMS", "RULES", "Decisions", "Devices", "Facts", "choose_backend", "decide"]

Env = Mapping[str, str]

GLOO = "PyTorch, torch.distributed, Choosing the network interface to use"
GAUDI = "Intel Gaudi, Scale-out via host NIC"


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a rule may look at."""

    settings: LaunchSettings
    devices: Devices
    nccl: bool
    hint: Hint | None = None
    machine: Machine = field(default_factory=Machine)
    nodes: int = 1
    """Pods."""
    processes: int = 1
    """Of this pod."""
    master: str | None = None
    """Address of the first pod."""
    profile: str | None = None
    """The vendor's profile in use, which the network's variables are left to."""
    hccl: bool = False

    @property
    def interface(self) -> fabric.Choice:
        return fabric.choose_interface(self.machine, self.master)

    @property
    def chosen_interface(self) -> str | None:
        """One name, only where there are others to reach."""
        alone = self.nodes == 1 and self.machine.route_to_master in (None, "lo")
        return None if alone else self.interface.name

    @property
    def tunes_network(self) -> bool:
        return self.nccl and self.profile is None

    @property
    def lacks_rdma(self) -> bool:
        """Adapters are expected, by the settings or by what /sys shows, and none can be used."""
        if self.machine.infiniband is None:
            return False
        expected = self.settings.rdma != "auto" or bool(self.machine.infiniband)
        return expected and not fabric.usable_adapters(self.machine)


@dataclass(frozen=True, slots=True)
class Rule:
    """Set `variable` to `value(facts)`; None leaves it alone."""

    variable: str
    value: Callable[[Facts], str | None]
    why: str
    source: str


@dataclass(slots=True)
class Decisions:
    """What to put into the environment, and why."""

    set: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Variables that a rule would have set, and that had a value already."""
    why: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def _exact(names: str | None) -> str | None:
    """NCCL takes names as prefixes unless a `=` comes first: eth1 would match eth10 too."""
    return f"={names.lstrip('=')}" if names else None


RULES: tuple[Rule, ...] = (
    Rule(
        "NCCL_DEBUG",
        lambda facts: "WARN" if facts.nccl else None,
        "errors are explained in the log, at no cost",
        SYSTEM,
    ),
    Rule(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        lambda facts: "3" if facts.nccl else None,
        "a failed collective ends the process, so the gang restarts instead of hanging; "
        "the flight recorder does not work with 1, which torchrun would set",
        TORCH,
    ),
    Rule(
        "TORCH_FR_BUFFER_SIZE",
        lambda facts: (
            str(facts.settings.flight_recorder) if facts.settings.flight_recorder else None
        ),
        "the last collectives of each rank are remembered",
        TORCH,
    ),
    Rule(
        "TORCH_NCCL_DUMP_ON_TIMEOUT",
        lambda facts: "1" if facts.nccl and facts.settings.flight_recorder else None,
        "the flight recorder is written out when a collective times out",
        TORCH,
    ),
    Rule(
        "NCCL_SOCKET_IFNAME",
        lambda facts: _exact(_interfaces(facts)) if facts.tunes_network else None,
        "exact name of the interface that reaches the first pod, or --socket-ifname",
        SYSTEM,
    ),
    Rule(
        "NCCL_SOCKET_FAMILY",
        lambda facts: "AF_INET6" if facts.tunes_network and _only_ipv6(facts) else None,
        "the interface that reaches the first pod speaks IPv6",
        SYSTEM,
    ),
    Rule(
        "GLOO_SOCKET_IFNAME",
        lambda facts: facts.settings.socket_ifname or facts.chosen_interface,
        "the interface that reaches the first pod, or --socket-ifname; otherwise gloo takes "
        "whatever the host's name resolves to",
        GLOO,
    ),
    Rule(
        "HCCL_SOCKET_IFNAME",
        lambda facts: _interfaces(facts) if facts.hccl else None,
        "the interface that reaches the first pod, or --socket-ifname",
        GAUDI,
    ),
    Rule(
        "NCCL_IB_HCA",
        lambda facts: _adapters(facts) if facts.tunes_network else None,
        "exact names of the adapters that are active and have a device file, or --ib-hca",
        SYSTEM,
    ),
    Rule(
        "NCCL_IB_DISABLE",
        lambda facts: "1" if facts.tunes_network and facts.lacks_rdma else None,
        "no adapter can be opened, so sockets it is, said openly instead of found out later",
        SYSTEM,
    ),
    Rule(
        "NCCL_CROSS_NIC",
        lambda facts: "1" if facts.tunes_network and facts.settings.single_switch else None,
        "--single-switch: any NIC reaches any other, so rings may change rails",
        SYSTEM,
    ),
    Rule(
        "NCCL_TOPO_FILE",
        lambda facts: _topo_file(facts),
        "--topo-file: the virtual machine hides its PCI tree",
        SYSTEM,
    ),
    Rule(
        "NCCL_SOCKET_NTHREADS",
        lambda facts: "4" if _fast_sockets(facts) else None,
        "--fast-sockets: one thread cannot fill 100 Gb/s",
        SYSTEM,
    ),
    Rule(
        "NCCL_NSOCKS_PERTHREAD",
        lambda facts: "4" if _fast_sockets(facts) else None,
        "--fast-sockets: 4 x 4 stays below NCCL's limit of 64 sockets",
        SYSTEM,
    ),
)


def _interfaces(facts: Facts) -> str | None:
    return facts.settings.socket_ifname or facts.chosen_interface


def _only_ipv6(facts: Facts) -> bool:
    return facts.chosen_interface is not None and facts.interface.ipv6


def _adapters(facts: Facts) -> str | None:
    if facts.settings.ib_hca:
        return _exact(facts.settings.ib_hca)
    return fabric.names(fabric.usable_adapters(facts.machine))


def _topo_file(facts: Facts) -> str | None:
    path = facts.settings.topo_file
    return str(path) if facts.nccl and path is not None and path.is_file() else None


def _fast_sockets(facts: Facts) -> bool:
    return facts.tunes_network and facts.settings.fast_sockets and not facts.devices.rdma


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
