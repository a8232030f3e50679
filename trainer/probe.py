"""The facts of this machine, read from its files: quick, and without touching a driver.

All paths lie below a root directory, so that a copy of another machine's /sys, /proc and /dev
gives that machine's facts.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trainer.facts import Address, Gpu, Hca, Interface, Machine
from trainer.harms import VENDOR_FILES
from trainer.routes import outgoing

ROOT = Path("/")
HABANA = "0x1da3"


def machine(env: Mapping[str, str], master: str | None = None, root: Path = ROOT) -> Machine:
    """What this pod was given. master: the first pod's address, to which a route is sought."""
    here = root == ROOT
    return Machine(
        hostname=socket.gethostname() if here else _line(root / "etc/hostname"),
        interfaces=tuple(_interfaces(root, here)) or None,
        route_to_master=outgoing(master, root) if master else None,
        infiniband=tuple(_adapters(root)),
        shm_bytes=_shm(root),
        gpus=tuple(_gpus(env, root)),
        nccl=_nccl() if here else None,
        imex=any((root / "dev/nvidia-caps-imex-channels").glob("channel*")),
        vendor_files=tuple(path for path in VENDOR_FILES if (root / path.lstrip("/")).exists()),
    )


def _interfaces(root: Path, here: bool) -> Iterator[Interface]:
    ipv6 = _ipv6(root)
    for folder in _entries(root / "sys/class/net"):
        name, flags = folder.name, _line(folder / "flags") or "0x0"
        ipv4 = [_ipv4(name)] if here else []
        found: list[Address] = [address for address in ipv4 if address]
        yield Interface(name, bool(int(flags, 16) & 1), (*found, *ipv6.get(name, ())))


_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B


def _ipv4(name: str) -> ipaddress.IPv4Interface | None:
    """An interface's first IPv4 address: the kernel shows it in no file by interface."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        try:
            parts = [
                socket.inet_ntoa(fcntl.ioctl(link.fileno(), code, request)[20:24])
                for code in (_SIOCGIFADDR, _SIOCGIFNETMASK)
            ]
        except OSError:
            return None
    return ipaddress.IPv4Interface("/".join(parts))


def _ipv6(root: Path) -> dict[str, list[Address]]:
    """Lines are: address, index, prefix length, scope and flags in hexadecimal, and the name."""
    found: dict[str, list[Address]] = {}
    for line in (_read(root / "proc/net/if_inet6") or "").splitlines():
        digits, _, length, _, _, name = line.split()
        address = ipaddress.IPv6Address(int(digits, 16))
        found.setdefault(name, []).append(ipaddress.IPv6Interface((address, int(length, 16))))
    return found


def _adapters(root: Path) -> Iterator[Hca]:
    """The host's /sys shows adapters also to containers that were not given them."""
    devices = {path.name for path in _entries(root / "dev/infiniband")}
    verbs = {
        _line(folder / "ibdev"): folder.name
        for folder in _entries(root / "sys/class/infiniband_verbs")
    }
    for folder in _entries(root / "sys/class/infiniband"):
        states = [_line(port / "state") or "?" for port in _entries(folder / "ports")]
        state = next((state for state in states if "ACTIVE" in state), (states or ["?"])[0])
        known = verbs.get(folder.name)
        given = known in devices if known else any(name.startswith("uverbs") for name in devices)
        yield Hca(folder.name, state, given)


def _shm(root: Path) -> int | None:
    try:
        found = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _gpus(env: Mapping[str, str], root: Path) -> Iterator[Gpu]:
    if env.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return
    yield from _gaudis(root)
    mig = _slices(env)
    if mig:
        yield from (Gpu(number, uuid=uuid, mig=True) for number, uuid in enumerate(mig))
        return
    files = [re.fullmatch(r"nvidia(\d+)", path.name) for path in _entries(root / "dev")]
    minors = sorted(int(found[1]) for found in files if found)
    known = _nvidia_cards(root)
    for index, minor in enumerate(minors):
        yield known.get(minor, Gpu(index))


def _slices(env: Mapping[str, str]) -> list[str]:
    chosen = env.get("CUDA_VISIBLE_DEVICES") or env.get("NVIDIA_VISIBLE_DEVICES", "")
    return [uuid for uuid in chosen.split(",") if uuid.startswith("MIG-")]


def _nvidia_cards(root: Path) -> dict[int, Gpu]:
    """By the number of the device file, which the driver tells beside model and UUID."""
    found = {}
    for folder in _entries(root / "proc/driver/nvidia/gpus"):
        lines = (_read(folder / "information") or "").splitlines()
        said = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
        with suppress(ValueError):
            minor = int(said.get("Device Minor", ""))
            found[minor] = Gpu(minor, folder.name, said.get("GPU UUID"), said.get("Model", ""))
    return found


def _gaudis(root: Path) -> Iterator[Gpu]:
    for folder in _entries(root / "sys/class/accel"):
        number = re.fullmatch(r"accel(\d+)", folder.name)
        if number and _line(folder / "device/vendor") == HABANA:
            yield Gpu(int(number[1]), name="Gaudi")


def _nccl() -> str | None:
    for package in ("nvidia-nccl-cu13", "nvidia-nccl-cu12"):
        with suppress(PackageNotFoundError):
            return version(package)
    return None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _line(path: Path) -> str | None:
    text = _read(path)
    return text.strip() if text is not None else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
