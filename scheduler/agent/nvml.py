"""Reads NVIDIA GPUs through NVML, by way of ``pynvml`` of the package nvidia-ml-py.

That package is optional, so nothing here imports it; its module is passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from scheduler.agent import pci
from scheduler.agent.reading import Failed, Reading
from scheduler.agent.table import Table
from scheduler.core.devices_matrix import MOST_GPUS, SYS, NodeDevices

SOURCE = "NVML"

Handle = Any

_SWITCH = "switch"
"""The far end of a link that leads to an NVSwitch."""
_IBM = 0x1014
_VENDOR_BITS = 0xFFFF


def read_nvml(nvml: Any, root: Path) -> Reading | Failed | None:
    """The GPUs that the driver shows; None if it shows none or is not there."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return _read(nvml, root)
    except nvml.NVMLError as error:
        return Failed(f"NVML cannot read the GPUs: {error}; look at nvidia-smi and dmesg")
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _read(nvml: Any, root: Path) -> Reading | Failed | None:
    count = nvml.nvmlDeviceGetCount()
    if not count:
        return None
    if count > MOST_GPUS:
        return Failed(f"NVML counts {count} GPUs, more than the {MOST_GPUS} that are supported")
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    addresses = [_address(nvml.nvmlDeviceGetPciInfo(handle)) for handle in handles]
    uuids = tuple(_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles)
    mig = tuple(index for index, handle in enumerate(handles) if _is_mig(nvml, handle))
    table = Table(
        count,
        _words(nvml, handles, addresses, mig),
        pci.numa_nodes(root, addresses),
        pci.nics(root, addresses),
    )
    ids = {name: index for names in (addresses, uuids) for index, name in enumerate(names)}
    return Reading(NodeDevices(table.matrix(mig), uuids), ids, SOURCE)


def _words(
    nvml: Any, handles: Sequence[Handle], addresses: Sequence[str], mig: Sequence[int]
) -> dict[tuple[int, int], str]:
    """The word of each pair: NVLinks if there are any that MIG does not forbid, else PCIe."""
    ends = [
        Counter[str]() if index in mig else Counter(_far_ends(nvml, handle, addresses))
        for index, handle in enumerate(handles)
    ]
    return {
        (one, other): _nvlinks(ends, addresses, one, other)
        or _pcie(nvml, handles[one], handles[other])
        for one, other in combinations(range(len(handles)), 2)
    }


def _nvlinks(ends: Sequence[Counter[str]], addresses: Sequence[str], one: int, other: int) -> str:
    """``NV4`` for four links, straight or through switches; "" for none."""
    straight = min(ends[one][addresses[other]], ends[other][addresses[one]])
    count = straight or min(ends[one][_SWITCH], ends[other][_SWITCH])
    return f"NV{count}" if count else ""


def _far_ends(nvml: Any, handle: Handle, gpus: Sequence[str]) -> Iterator[str]:
    """For each active link: the GPU's address at its other end, or `_SWITCH`."""
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if _tried(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) == 1:
            info = _tried(nvml, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            kind = _tried(nvml, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            if info is not None and _address(info) in gpus:
                yield _address(info)
            elif not _is_cpu(nvml, kind, info):
                # In a virtual machine the switch is hidden, and the far end unknown.
                yield _SWITCH


def _is_cpu(nvml: Any, kind: int | None, info: Any) -> bool:
    """Whether a link leads to a POWER9 processor; old drivers tell it by the vendor alone."""
    of_ibm = info is not None and info.pciDeviceId & _VENDOR_BITS == _IBM
    return kind == nvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU or of_ibm


def _pcie(nvml: Any, one: Handle, other: Handle) -> str:
    words = {
        nvml.NVML_TOPOLOGY_INTERNAL: "PSB",
        nvml.NVML_TOPOLOGY_SINGLE: "PIX",
        nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
        nvml.NVML_TOPOLOGY_NODE: "NODE",
    }
    level = _tried(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return SYS if level is None else words.get(level, SYS)


def _is_mig(nvml: Any, handle: Handle) -> bool:
    mode = _tried(nvml, nvml.nvmlDeviceGetMigMode, handle)
    return mode is not None and mode[0] == 1


def _tried(nvml: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """What a call says, or None where this GPU or driver does not support it."""
    try:
        return call(*arguments)
    except nvml.NVMLError:
        return None


def _address(info: Any) -> str:
    return pci.address(_text(info.busId))


def _text(value: str | bytes) -> str:
    """Older releases return bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
