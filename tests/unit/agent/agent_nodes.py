"""Nodes to look at: a system below a folder, a driver, and tools that print what is wanted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from scheduler.agent.tools import Output

CHECKPOINT = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


class Root:
    """A node's ``/sys`` and ``/var`` below a folder, with the kernel's own kind of links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def device(
        self, path: str, *, vendor: str = "0x10de", kind: str = "0x030200", numa: int = 0
    ) -> str:
        """A PCI device; ``path`` is below ``sys/devices``, as ``pci0000:00/0000:00:01.0/…``."""
        home = self.folder / "sys/devices" / path
        home.mkdir(parents=True, exist_ok=True)
        for name, text in (("vendor", vendor), ("class", kind), ("numa_node", str(numa))):
            (home / name).write_text(f"{text}\n", encoding="ascii")
        self._link("sys/bus/pci/devices", home.name, home)
        return home.name

    def card(self, name: str, path: str, *, numa: int = 0, virtual: bool = False) -> None:
        """An RDMA card."""
        self.device(path, vendor="0x15b3", kind="0x020700", numa=numa)
        home = self.folder / "sys/devices" / path
        if virtual:
            (home / "physfn").symlink_to("..")
        shown = home / "infiniband" / name
        shown.mkdir(parents=True)
        (shown / "device").symlink_to("../..")
        self._link("sys/class/infiniband", name, shown)

    def bind(self, driver: str, address: str) -> None:
        """Give a device to a driver."""
        device = self.folder / "sys/bus/pci/devices" / address
        self._link(f"sys/bus/pci/drivers/{driver}", address, device)

    def checkpoint(self, entries: object) -> None:
        """What the kubelet remembers."""
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {}}
        self.write(CHECKPOINT, json.dumps({"Data": data, "Checksum": 7}))

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _link(self, folder: str, name: str, target: Path) -> None:
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        link = self.folder / folder / name
        link.symlink_to(os.path.relpath(target, link.parent))


def held(uid: str, resource: str, ids: object) -> dict[str, Any]:
    """An entry of the checkpoint."""
    return {"PodUID": uid, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": ids}


def tools(printed: Mapping[str, str | Output]) -> Callable[[Sequence[str]], Output | None]:
    """Runs commands that print what is given for their beginning; others are not installed."""

    def run(command: Sequence[str]) -> Output | None:
        line = " ".join(command)
        for start, text in printed.items():
            if line.startswith(start):
                return text if isinstance(text, Output) else Output(True, text)
        return None

    return run


class NvmlError(Exception):
    """What the driver raises."""


@dataclass
class Gpu:
    """A GPU of a driver."""

    address: str
    uuid: str
    links: list[tuple[int | None, str, int]] = field(default_factory=list)
    """(kind of the far end or None, its address, its vendor) of each active NVLink."""
    mig: bool | None = False
    """None: it cannot be split."""


class Nvml:
    """A driver, as the module ``pynvml`` shows it."""

    NVMLError = NvmlError
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_DEVICE_TYPE_GPU = 0
    NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 255
    NVML_TOPOLOGY_INTERNAL = 0
    NVML_TOPOLOGY_SINGLE = 10
    NVML_TOPOLOGY_MULTIPLE = 20
    NVML_TOPOLOGY_HOSTBRIDGE = 30
    NVML_TOPOLOGY_NODE = 40
    NVML_TOPOLOGY_SYSTEM = 50

    def __init__(
        self, gpus: list[Gpu], ancestor: Callable[[int, int], int | None] = lambda a, b: 50
    ) -> None:
        self.gpus = gpus
        self.ancestor = ancestor
        self.loaded = True
        self.lost: int | None = None
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - the driver's own names
        if not self.loaded:
            raise NvmlError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index == self.lost:
            raise NvmlError("GPU is lost")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return self.gpus[handle].uuid.encode()

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:  # noqa: N802
        return _pci_info(self.gpus[handle].address, 0x10DE)

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:  # noqa: N802
        if (mig := self.gpus[handle].mig) is None:
            raise NvmlError("Not Supported")
        return [int(mig), 0]

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:  # noqa: N802
        if link >= 6 and not self.gpus[handle].links:
            raise NvmlError("Invalid Argument")
        return int(link < len(self.gpus[handle].links))

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:  # noqa: N802
        kind, _, _ = self.gpus[handle].links[link]
        if kind is None:
            raise NvmlError("Function Not Found")
        return kind

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:  # noqa: N802
        _, address, vendor = self.gpus[handle].links[link]
        if not address:
            raise NvmlError("Not Supported")
        return _pci_info(address, vendor)

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:  # noqa: N802
        level = self.ancestor(one, other)
        if level is None:
            raise NvmlError("Not Supported")
        return level


def _pci_info(address: str, vendor: int) -> Any:
    """With the domain in eight digits and letters in upper case, as the driver has them."""
    return SimpleNamespace(busId=f"0000{address.upper()}", pciDeviceId=0x1DB1 << 16 | vendor)
