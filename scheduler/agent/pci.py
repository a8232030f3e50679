"""Where GPUs and network cards hang on PCIe, from sysfs below a root."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from scheduler.agent.table import TableNic
from scheduler.core.devices_matrix import SYS

DEVICES = "sys/bus/pci/devices"
CARDS = "sys/class/infiniband"
MOST_NICS = 64

NVIDIA = "0x10de"
AMD = "0x1002"
_ACCELERATORS = {
    NVIDIA: ("0x0300", "0x0302", "0x1200"),
    AMD: ("0x0302", "0x0380", "0x1200"),
}
"""PCI classes by vendor; AMD's 0x0300 is most often the graphics of a CPU."""

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_SWITCHED = 2
"""Steps from a switch's common port to a device behind it: the port below, and the device."""


def address(text: str) -> str:
    """A PCI address as sysfs writes it: ``00000000:07:00.0`` is ``0000:07:00.0``."""
    match = _ADDRESS.fullmatch(text.strip().lower())
    return f"{int(match[1], 16):04x}:{match[2]}" if match else text


def accelerators(root: Path) -> dict[str, int]:
    """Vendor (`NVIDIA`, `AMD`) -> accelerators that the system sees."""
    found: dict[str, int] = {}
    for device in _entries(root / DEVICES):
        vendor = _text(device / "vendor")
        if _text(device / "class").startswith(_ACCELERATORS.get(vendor, ("none",))):
            found[vendor] = found.get(vendor, 0) + 1
    return found


def has_devices(root: Path) -> bool:
    """Whether the PCI bus can be seen at all."""
    return any(True for _ in _entries(root / DEVICES))


def bound_to(root: Path, driver: str) -> list[str]:
    """Addresses of the devices of a driver, in their order."""
    names = (entry.name for entry in _entries(root / "sys/bus/pci/drivers" / driver))
    return sorted(name for name in names if _ADDRESS.fullmatch(name))


def numa_node(device: Path) -> int | None:
    """The NUMA node of a device's directory, or None where there is none (-1) or no such file."""
    text = _text(device / "numa_node")
    return int(text) if text.isdecimal() else None


def numa_nodes(root: Path, addresses: Sequence[str]) -> tuple[int | None, ...]:
    """NUMA node of each device."""
    return tuple(numa_node(root / DEVICES / one) for one in addresses)


def nic_numa(root: Path, name: str) -> int | None:
    """NUMA node of an RDMA card."""
    return numa_node(root / CARDS / name / "device")


def nics(root: Path, addresses: Sequence[str]) -> tuple[TableNic, ...]:
    """RDMA cards, without virtual functions, and how each of the GPUs reaches them."""
    cards = [card for card in _entries(root / CARDS) if not _is_virtual(card / "device")]
    gpus = [root / DEVICES / one for one in addresses]
    return tuple(
        TableNic(
            card.name,
            tuple(word_between(gpu, card / "device") for gpu in gpus),
            numa_node(card / "device"),
        )
        for card in sorted(cards, key=lambda card: _natural(card.name))[:MOST_NICS]
    )


def _is_virtual(device: Path) -> bool:
    """Whether it is a virtual function, of which a card may have hundreds."""
    return os.path.lexists(device / "physfn")


def word_between(one: Path, other: Path) -> str | None:
    """How two devices reach each other, as a word of ``nvidia-smi topo -m``; None if not known.

    Their paths tell: below ``pci0000:5d`` (a host bridge) every name is a bridge on the way.
    """
    first, second = _path(one), _path(other)
    if not first or not second:
        return None
    if first[0] != second[0]:
        same = numa_node(one) is not None and numa_node(one) == numa_node(other)
        return "NODE" if same else SYS
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    )
    if shared == 1:
        return "PHB"
    single = max(len(first), len(second)) - shared <= _SWITCHED
    return "PIX" if single else "PXB"


def _path(device: Path) -> list[str]:
    """From the host bridge down to the device."""
    parts = Path(os.path.realpath(device)).parts
    bridge = next((at for at, part in enumerate(parts) if part.startswith("pci")), None)
    return [] if bridge is None else list(parts[bridge:])


def _entries(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(directory.iterdir())
    except OSError:
        return


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _natural(name: str) -> tuple[str | int, ...]:
    """``mlx5_2`` before ``mlx5_10``; texts and numbers alternate, so they always compare."""
    return tuple(int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d+)", name)))
