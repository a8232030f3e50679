"""What the trainer knows of the machine: plain values, from a file or from the machine itself.

Everything that is decided from facts is decided from these, so that a file with the facts of
another machine gives that machine's decisions (`muster-train env --facts FILE`).
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.errors import FactsError

Address = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class Interface:
    name: str
    up: bool = True
    addrs: tuple[Address, ...] = ()
    """With their prefix lengths."""

    @property
    def loopback(self) -> bool:
        return self.name == "lo" or any(address.ip.is_loopback for address in self.addrs)

    @property
    def only_ipv6(self) -> bool:
        usable = [address for address in self.addrs if not address.ip.is_link_local]
        return bool(usable) and all(address.version == 6 for address in usable)


@dataclass(frozen=True, slots=True)
class Hca:
    """An InfiniBand or RoCE adapter."""

    name: str
    state: str = "ACTIVE"
    device: bool = True
    """There is a device file for it, without which no process can open it."""

    @property
    def usable(self) -> bool:
        return self.device and self.state.rpartition(":")[2].strip().upper() == "ACTIVE"


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator, or a slice of one."""

    index: int
    pci: str | None = None
    uuid: str | None = None
    name: str = ""
    mig: bool = False

    @property
    def gaudi(self) -> bool:
        return re.match(r"(?i).*gaudi|HL-\d", self.name) is not None


@dataclass(frozen=True, slots=True)
class Peer:
    """What another pod of the gang has."""

    index: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Machine:
    """One pod's facts. What is None is not known."""

    hostname: str | None = None
    interfaces: tuple[Interface, ...] | None = None
    route_to_master: str | None = None
    """Interface by which packets to the first pod leave."""
    infiniband: tuple[Hca, ...] | None = None
    shm_bytes: int | None = None
    gpus: tuple[Gpu, ...] | None = None
    nccl: str | None = None
    """Version."""
    peers: tuple[Peer, ...] | None = None
    imex: bool | None = None
    """There is a channel for NVLink between nodes."""
    vendor_files: tuple[str, ...] = field(default=())
    """Files of cloud vendors' network profiles that are there."""

    @property
    def gaudi(self) -> bool:
        return any(gpu.gaudi for gpu in self.gpus or ())


def load(path: Path) -> Machine:
    """Facts in a JSON file. Fields that are not known are ignored.

    Raises FactsError, naming the field, for what cannot be facts.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FactsError(f"--facts {path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise FactsError(f"--facts {path}: cannot be read as JSON: {error}") from error
    if not isinstance(raw, dict):
        raise FactsError(f"--facts {path}: want a JSON object")
    try:
        return parse(raw)
    except FactsError as error:
        raise FactsError(f"--facts {path}: {error}") from None


def parse(raw: Mapping[str, Any]) -> Machine:
    """Facts of a JSON object, every field optional. Raises FactsError, naming the field."""
    return Machine(
        hostname=_optional(raw, "hostname", _text),
        interfaces=_list(raw, "interfaces", _interface),
        route_to_master=_optional(raw, "route_to_master", _text),
        infiniband=_list(raw, "infiniband", _hca),
        shm_bytes=_optional(raw, "shm_bytes", _count),
        gpus=_list(raw, "gpus", _gpu),
        nccl=_optional(raw, "nccl", _text),
        peers=_list(raw, "peers", _peer),
        imex=_optional(raw, "imex", _flag),
        vendor_files=_list(raw, "vendor_files", _text) or (),
    )


def _interface(raw: Any, where: str) -> Interface:
    item = _object(raw, where)
    addresses = _list(item, "addrs", _address, where) or ()
    return Interface(_name(item, where), _flag(item.get("up", True), f"{where}.up"), addresses)


def _hca(raw: Any, where: str) -> Hca:
    item = _object(raw, where)
    return Hca(
        _name(item, where),
        _text(item.get("state", "ACTIVE"), f"{where}.state"),
        _flag(item.get("device", True), f"{where}.device"),
    )


def _gpu(raw: Any, where: str) -> Gpu:
    item = _object(raw, where)
    return Gpu(
        _count(item.get("index", 0), f"{where}.index"),
        _optional(item, "pci", _text, where),
        _optional(item, "uuid", _text, where),
        _optional(item, "name", _text, where) or "",
        _flag(item.get("mig", False), f"{where}.mig"),
    )


def _peer(raw: Any, where: str) -> Peer:
    item = _object(raw, where)
    return Peer(_count(item.get("index"), f"{where}.index"), _count(item.get("gpus"), f"{where}.gpus"))  # fmt: skip # noqa: E501


def _address(raw: Any, where: str) -> Address:
    try:
        return ipaddress.ip_interface(_text(raw, where).partition("%")[0])
    except ValueError:
        raise _wrong(where, "an address such as 10.1.2.3/24", raw) from None


Reader = Callable[[Any, str], Any]


def _optional(raw: Mapping[str, Any], name: str, read: Reader, where: str = "") -> Any:
    value = raw.get(name)
    return None if value is None else read(value, f"{where}.{name}".lstrip("."))


def _list(raw: Mapping[str, Any], name: str, read: Reader, where: str = "") -> Any:
    value, place = raw.get(name), f"{where}.{name}".lstrip(".")
    if value is None:
        return None
    if not isinstance(value, list):
        raise _wrong(place, "a list", value)
    return tuple(read(item, f"{place}[{number}]") for number, item in enumerate(value))


def _object(raw: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise _wrong(where, "an object", raw)
    return raw


def _name(item: Mapping[str, Any], where: str) -> str:
    return _text(item.get("name"), f"{where}.name")


def _text(raw: Any, where: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise _wrong(where, "a non-empty string", raw)
    return raw


def _flag(raw: Any, where: str) -> bool:
    if not isinstance(raw, bool):
        raise _wrong(where, "true or false", raw)
    return raw


def _count(raw: Any, where: str) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < 0:
        raise _wrong(where, "a whole number >= 0", raw)
    return raw


def _wrong(where: str, wanted: str, value: object) -> FactsError:
    return FactsError(f"fact {where}: want {wanted}, got {json.dumps(value, default=str)[:80]}")
