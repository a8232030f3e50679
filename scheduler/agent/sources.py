"""Looks at a node's accelerators through whatever is there: NVML, nvidia-smi or rocm-smi."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from scheduler.agent import pci
from scheduler.agent.nvml import read_nvml
from scheduler.agent.reading import Failed, NoDevices, Reading
from scheduler.agent.rocm import read_rocm
from scheduler.agent.smi import read_smi
from scheduler.agent.tools import Run, run

Import = Callable[[], Any]
"""Gives the module ``pynvml``, or None where it is not installed."""


def import_nvml() -> Any:
    """The module ``pynvml`` of nvidia-ml-py, which is optional; None without it."""
    try:
        return import_module("pynvml")
    except ImportError:
        return None


def read_devices(
    root: Path, run: Run = run, import_nvml: Import = import_nvml
) -> Reading | NoDevices | Failed:
    """The accelerators of this node.

    `root` is where the node's ``/sys`` is. The first source that shows a GPU counts; if none does,
    one that failed, or accelerators on the PCI bus that nothing can read, make it `Failed`.
    """
    readers: tuple[Callable[[], Reading | Failed | None], ...] = (
        lambda: _by_nvml(import_nvml, root),
        lambda: read_smi(run, root),
        lambda: read_rocm(run, root),
    )
    failed: Failed | None = None
    for read in readers:
        found = read()
        if isinstance(found, Reading):
            return found
        failed = failed or found
    return _nothing(root, failed)


def _by_nvml(import_nvml: Import, root: Path) -> Reading | Failed | None:
    module = import_nvml()
    return None if module is None else read_nvml(module, root)


def _nothing(root: Path, failed: Failed | None) -> NoDevices | Failed:
    """No source has a GPU: is there none? The tools are on nodes without GPUs too."""
    seen = pci.accelerators(root)
    if failed is not None and (seen or not pci.has_devices(root)):
        return failed
    if count := seen.get(pci.NVIDIA):
        return Failed(
            f"{count} NVIDIA GPUs on the PCI bus, but neither NVML (package nvidia-ml-py, library "
            "libnvidia-ml.so.1) nor nvidia-smi can be used; run in the NVIDIA container runtime "
            "with NVIDIA_VISIBLE_DEVICES=all"
        )
    if count := seen.get(pci.AMD):
        return Failed(
            f"{count} AMD GPUs on the PCI bus, but rocm-smi is not in the search path; "
            "use an image that has it"
        )
    return NoDevices("no GPU here: none on the PCI bus, and no tool shows one")
