"""The few variables that facts may set, the ones that hurt, and the backend.

NCCL's own guide divides its variables: those under "System configuration" may be set by whoever
knows the system; those under "Debugging" "should not be used in production nor retained in
scripts". So topology becomes rank order and not variables, nothing that is already set is
touched (images, vendors' profiles and admins know better), and harmful presets are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainer.hints import Hint
from trainer.settings import LaunchSettings

Env = Mapping[str, str]

GUIDE = "NCCL user guide, Environment variables"
SYSTEM = f"{GUIDE}, System configuration"
DEBUGGING = f"{GUIDE}, Debugging"
TORCH = "PyTorch, ProcessGroupNCCL environment variables"


@dataclass(frozen=True, slots=True)
class Devices:
    """The accelerators that processes of this pod can use."""

    cuda: int
    """NVIDIA devices."""
    mig: bool = False
    """They are slices of a GPU, which cannot reach each other."""
    imex: bool = False
    """There are channels for NVLink between nodes."""
    rdma: bool = False
    """There are InfiniBand or RoCE devices."""


@dataclass(frozen=True, slots=True)
class Backend:
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a rule may look at."""

    settings: LaunchSettings
    devices: Devices
    nccl: bool
    hint: Hint | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Set `variable` to `value(facts)`; None leaves it alone."""

    variable: str
    value: Callable[[Facts], str | None]
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Harm:
    """A preset that is likely a mistake: `when` it has such a value, say `what` it does."""

    variable: str
    what: str
    source: str = DEBUGGING
    when: Callable[[str], bool] = lambda value: value != ""


@dataclass(slots=True)
class Decisions:
    """What to put into the environment, and why."""

    set: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Variables that a rule would have set, and that had a value already."""
    why: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


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
        lambda facts: _exact(facts.settings.socket_ifname) if facts.nccl else None,
        "--socket-ifname",
        SYSTEM,
    ),
    Rule(
        "GLOO_SOCKET_IFNAME",
        lambda facts: facts.settings.socket_ifname,
        "--socket-ifname",
        "PyTorch, torch.distributed, Choosing the network interface to use",
    ),
    Rule(
        "NCCL_IB_HCA",
        lambda facts: _exact(facts.settings.ib_hca) if facts.nccl else None,
        "--ib-hca",
        SYSTEM,
    ),
    Rule(
        "NCCL_CROSS_NIC",
        lambda facts: "1" if facts.nccl and facts.settings.single_switch else None,
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


def _topo_file(facts: Facts) -> str | None:
    path = facts.settings.topo_file
    return str(path) if facts.nccl and path is not None and path.is_file() else None


def _fast_sockets(facts: Facts) -> bool:
    return facts.nccl and facts.settings.fast_sockets and not facts.devices.rdma


def _on(value: str) -> bool:
    return value not in ("", "0")


def _off(value: str) -> bool:
    return value == "0"


_LEVELS = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}


def _no_level(value: str) -> bool:
    return value not in _LEVELS and not value.isdecimal()


HARMS: tuple[Harm, ...] = (
    Harm("NCCL_P2P_DISABLE", "turns NVLink off along with PCIe peer access", when=_on),
    Harm("NCCL_P2P_LEVEL", "is a word NCCL ignores silently", when=_no_level),
    Harm("NCCL_P2P_LEVEL", "overrides a choice that NCCL makes from the hardware"),
    Harm(
        "NCCL_SHM_DISABLE",
        "sends traffic inside a node over the network; a larger /dev/shm is the real remedy",
        when=_on,
    ),
    Harm("NCCL_IB_DISABLE", "sends everything over TCP sockets", when=_on),
    Harm("NCCL_NET_GDR_LEVEL", "overrides a choice that NCCL makes from the hardware"),
    Harm(
        "NCCL_ALGO",
        "since NCCL 2.24 fails for collectives that the listed algorithms cannot do",
    ),
    Harm("NCCL_PROTO", "can corrupt data where it forces LL128 on hardware without it"),
    Harm("NCCL_NVLS_ENABLE", "costs all-reduce speed on Hopper and later", when=_off),
    Harm("NCCL_MNNVL_ENABLE", "loses NVLink between nodes", when=_off),
    Harm("NCCL_MNNVL_ENABLE", "fails where NVLink between nodes is not there", when=_on),
    Harm("NCCL_CUMEM_ENABLE", "also turns NVLink between nodes off", when=_off),
    Harm("NCCL_MIN_NCHANNELS", "takes GPU time and network queues from others"),
    Harm("NCCL_MAX_NCHANNELS", "can starve a fast network"),
    Harm(
        "NCCL_IB_TIMEOUT",
        "waits forever, so a lost peer becomes a hang instead of an error",
        when=lambda value: value.isdecimal() and (int(value) == 0 or int(value) >= 32),
    ),
    Harm(
        "NCCL_IB_GID_INDEX",
        "stops NCCL (2.21 and later) from finding the right index on each node",
        source="NCCL user guide, Troubleshooting, Networking",
    ),
    Harm(
        "NCCL_IB_HCA",
        "has no leading =, so mlx5_1 also matches mlx5_10",
        source=SYSTEM,
        when=lambda value: not re.match(r"\^?=", value) and value != "",
    ),
    Harm("NCCL_GRAPH_FILE", "forces rings and trees that fit one machine only"),
    Harm("NCCL_HOSTID", "makes two machines look like one where it is wrong"),
    Harm(
        "NCCL_ASYNC_ERROR_HANDLING",
        "is the old name of TORCH_NCCL_ASYNC_ERROR_HANDLING",
        source=TORCH,
    ),
    Harm("NCCL_BLOCKING_WAIT", "is the old name of TORCH_NCCL_BLOCKING_WAIT", source=TORCH),
)


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
    decisions.warnings += _harms(env) if facts.nccl else []
    decisions.warnings += _missing(facts)
    return decisions


def _harms(env: Env) -> list[str]:
    said: dict[str, str] = {}
    for harm in HARMS:
        value = env.get(harm.variable, "")
        if value and harm.when(value) and harm.variable not in said:
            said[harm.variable] = (
                f"{harm.variable}={value} {harm.what}; left as it is, but remove it unless your "
                f"platform's own profile sets it [{harm.source}]"
            )
    return list(said.values())


def _missing(facts: Facts) -> list[str]:
    warnings = []
    if facts.nccl and facts.hint and facts.hint.clique and not facts.devices.imex:
        warnings.append(
            f"the node is in NVLink domain {facts.hint.clique}, but the pod has no IMEX channel "
            "(/dev/nvidia-caps-imex-channels); NVLink between nodes will not be used"
        )
    if facts.settings.topo_file is not None and not facts.settings.topo_file.is_file():
        warnings.append(f"--topo-file {facts.settings.topo_file} does not exist; left out")
    if facts.settings.fast_sockets and facts.devices.rdma:
        warnings.append("--fast-sockets left out: the pod has RDMA devices, which do not use them")
    return warnings


def choose_backend(devices: Devices, local_world_size: int) -> Backend:
    """gloo rides along with NCCL for tensors on the CPU: flags, checkpoints, barriers."""
    if devices.cuda == 0:
        return Backend("gloo", "no NVIDIA GPU is visible")
    if devices.mig:
        return Backend("gloo", "MIG slices cannot reach each other through NCCL")
    if local_world_size > devices.cuda:
        return Backend(
            "gloo", f"{local_world_size} processes share {devices.cuda} GPUs, which NCCL refuses"
        )
    return Backend("cpu:gloo,cuda:nccl", f"{devices.cuda} NVIDIA GPUs are visible")


def mounted_devices(env: Env, root: Path = Path("/")) -> Devices:
    """What the pod was given, by its device files: quick, and without touching a driver."""
    dev = root / "dev"
    chosen = env.get("CUDA_VISIBLE_DEVICES", env.get("NVIDIA_VISIBLE_DEVICES", ""))
    hidden = env.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    files = [path for path in dev.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return Devices(
        cuda=0 if hidden else len(files),
        mig=chosen.startswith("MIG-"),
        imex=any((dev / "nvidia-caps-imex-channels").glob("channel*")),
        rdma=any((dev / "infiniband").glob("uverbs*")),
    )


def visible_devices() -> Devices:
    """What torch can use in this process; asks the CUDA driver."""
    import torch

    from trainer.settings import environment

    mounted = mounted_devices(environment())
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Devices(count, mounted.mig, mounted.imex, mounted.rdma)
