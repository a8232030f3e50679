"""The variables that facts may set, each with when, the value, why, and who says so: a table.

Topology becomes rank order and not variables. What is left is what NCCL's guide lists under "System
configuration", which those may set who know the system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from trainer import fabric
from trainer.backend import Devices
from trainer.facts import Machine
from trainer.harms import SYSTEM, TORCH
from trainer.hints import Hint
from trainer.settings import LaunchSettings

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
