"""Which backend torch is given, by the devices that are there, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trainer.facts import Machine


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
    gaudi: int = 0
    """Intel Gaudi devices."""
    apart: bool = True
    """No two slices are known to be, or may be, of one GPU."""


@dataclass(frozen=True, slots=True)
class Backend:
    name: str
    """`nccl`, `gloo`, `hccl` or `mpi`."""
    why: str
    torch: str = ""
    """As torch wants it. gloo rides along for tensors on the CPU: flags, checkpoints, barriers."""
    error: str | None = None
    """Why what was asked for cannot be."""


NAMES = {"nccl": "cpu:gloo,cuda:nccl", "gloo": "gloo", "hccl": "cpu:gloo,hpu:hccl", "mpi": "mpi"}


def devices_of(machine: Machine) -> Devices:
    """The summary of a machine's accelerators."""
    gpus = [gpu for gpu in machine.gpus or () if not gpu.gaudi]
    slices = [gpu for gpu in gpus if gpu.mig]
    return Devices(
        cuda=len(gpus),
        mig=bool(slices),
        imex=bool(machine.imex),
        rdma=any(hca.device for hca in machine.infiniband or ()),
        gaudi=len(machine.gpus or ()) - len(gpus),
        apart=len(slices) < 2
        or (all(gpu.pci for gpu in slices) and len({gpu.pci for gpu in slices}) == len(slices)),
    )


def choose_backend(
    devices: Devices, local_world_size: int, asked: str | None = None, has_mpi: bool = False
) -> Backend:
    """The backend by the devices; what was `asked` for where it can work, else with an error."""
    if asked:
        error = _refusal(devices, local_world_size, asked, has_mpi)
        return Backend(asked, "--backend", NAMES[asked], error)
    name, why = _by_devices(devices, local_world_size)
    return Backend(name, why, NAMES[name])


def _by_devices(devices: Devices, processes: int) -> tuple[str, str]:
    if devices.gaudi:
        return "hccl", f"{devices.gaudi} Intel Gaudi devices are visible"
    if devices.cuda == 0:
        return "gloo", "no NVIDIA GPU is visible"
    if devices.mig:
        return "gloo", "MIG slices of one GPU cannot reach each other through NCCL"
    if processes > devices.cuda:
        return "gloo", f"{processes} processes share {devices.cuda} GPUs, which NCCL refuses"
    one = devices.cuda == 1
    return "nccl", f"{devices.cuda} NVIDIA {'GPU is' if one else 'GPUs are'} visible"


def _refusal(devices: Devices, processes: int, asked: str, has_mpi: bool) -> str | None:
    if asked == "mpi" and not has_mpi:
        return "--backend mpi: this torch was built without MPI; leave the option out"
    if asked == "hccl" and not devices.gaudi:
        return "--backend hccl: no Intel Gaudi device is visible"
    if asked != "nccl":
        return None
    if devices.cuda == 0:
        return "--backend nccl: no NVIDIA GPU is visible"
    if processes > devices.cuda:
        kind = "MIG slices" if devices.mig else "GPUs"
        return f"--backend nccl: {processes} processes for {devices.cuda} {kind}; want one each"
    if devices.mig and processes > 1 and not devices.apart:
        return "--backend nccl: MIG slices of one GPU cannot reach each other; use --backend gloo"
    return None


def doubles(machine: Machine) -> list[str]:
    """Devices that are listed more than once, which two processes would fight over."""
    uuids = Counter(gpu.uuid for gpu in machine.gpus or () if gpu.uuid)
    return sorted(uuid for uuid, times in uuids.items() if times > 1)
