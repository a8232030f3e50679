"""Which interface and which adapters a pod's traffic should take, by the machine's facts. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.facts import Interface, Machine

SEGMENT = 9_637_888
"""Bytes of shared memory that NCCL takes for each process of a node."""

_VIRTUAL = re.compile(r"(docker|br-|veth|virbr|cni|flannel|cali|tunl|kube-|dummy)")


@dataclass(frozen=True, slots=True)
class Choice:
    """An interface, and why it; None with a reason where there is none to choose."""

    name: str | None
    why: str
    ipv6: bool = False
    problem: str | None = None


def choose_interface(machine: Machine, master: str | None) -> Choice:
    """The interface that reaches the first pod: by the route, by subnet, or as the only one."""
    if machine.interfaces is None and machine.route_to_master is None:
        return Choice(None, "nothing is known of the interfaces")
    found = _by_route(machine) or _by_subnet(machine, master) or _only(machine)
    if found is None:
        return Choice(None, "no way is known", problem=_no_way(machine, master))
    name, why = found
    ipv6 = _is_ipv6(master) or any(
        interface.only_ipv6 for interface in machine.interfaces or () if interface.name == name
    )
    return Choice(name, why, ipv6)


def _by_route(machine: Machine) -> tuple[str, str] | None:
    name = machine.route_to_master
    if name is None or name == "lo" or name in _down(machine):
        return None
    return name, "the route to the first pod leaves by it"


def _by_subnet(machine: Machine, master: str | None) -> tuple[str, str] | None:
    try:
        address = ipaddress.ip_address(master or "")
    except ValueError:
        return None
    for interface in _candidates(machine):
        if any(address in entry.network for entry in interface.addrs):
            return interface.name, "the first pod is in its subnet"
    return None


def _only(machine: Machine) -> tuple[str, str] | None:
    found = [one for one in _candidates(machine) if not _VIRTUAL.match(one.name)]
    return (found[0].name, "the only one that is up") if len(found) == 1 else None


def _candidates(machine: Machine) -> list[Interface]:
    return [one for one in machine.interfaces or () if one.up and not one.loopback]


def _down(machine: Machine) -> set[str]:
    """Names that the facts do not show as up; empty where they list no interfaces."""
    if machine.interfaces is None or machine.route_to_master is None:
        return set()
    up = {one.name for one in machine.interfaces if one.up}
    return {machine.route_to_master} - up


def _no_way(machine: Machine, master: str | None) -> str | None:
    names = ", ".join(one.name for one in _candidates(machine))
    if machine.route_to_master == "lo":
        return None
    if not names:
        return "no interface but the loopback is up; give the pod a network"
    return (
        f"no route to {master or 'the first pod'} is known, and {names} could all lead there; "
        "choose with --socket-ifname"
    )


def unknown_interfaces(machine: Machine, names: str) -> list[str]:
    """Names of a comma-separated list that are not there or not up."""
    if machine.interfaces is None:
        return []
    up = {interface.name for interface in machine.interfaces if interface.up}
    return [name for name in names.lstrip("=").split(",") if name and name not in up]


def usable_adapters(machine: Machine) -> list[str]:
    return [hca.name for hca in machine.infiniband or () if hca.usable]


def unusable_adapters(machine: Machine) -> list[str]:
    """With the reason, for people."""
    return [
        f"{hca.name} ({hca.state if hca.device else 'no device file'})"
        for hca in machine.infiniband or ()
        if not hca.usable
    ]


def shm_shortage(machine: Machine, processes: int) -> str | None:
    """What is wrong with /dev/shm for so many processes, if anything. One process needs none."""
    if machine.shm_bytes is None or processes < 2:
        return None
    fit = machine.shm_bytes // SEGMENT
    if fit >= processes:
        return None
    return (
        f"shared memory (/dev/shm) has {machine.shm_bytes >> 20} MiB: {fit} segments of "
        f"{SEGMENT} bytes fit, and "
        f"{processes} processes need one each; mount an emptyDir with medium: Memory at /dev/shm "
        "(DataLoader workers need room there, too)"
    )


def _is_ipv6(text: str | None) -> bool:
    try:
        return ipaddress.ip_address(text or "").version == 6
    except ValueError:
        return False


def names(adapters: Sequence[str]) -> str | None:
    """NCCL takes names as prefixes unless a `=` comes first: mlx5_1 would match mlx5_10 too."""
    return "=" + ",".join(adapters) if adapters else None
