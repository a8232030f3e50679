"""Reads AMD GPUs through the command ``rocm-smi``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scheduler.agent import pci
from scheduler.agent.reading import Failed, Reading
from scheduler.agent.smi_text import NoTable
from scheduler.agent.tools import Run
from scheduler.agent.topology_text import parse
from scheduler.core.devices_matrix import NodeDevices

SOURCE = "rocm-smi"

_TABLE = (SOURCE, "--showtopo")


def read_rocm(run: Run, root: Path) -> Reading | Failed | None:
    """The GPUs that ``rocm-smi`` shows; None if there is no such program.

    AMD's device plugin names GPUs by PCI address. The tool does not print them here; those of the
    driver's devices are taken in order, if there are as many.
    """
    printed = run(_TABLE)
    if printed is None:
        return None
    if not printed.ok:
        return Failed(f"{' '.join(_TABLE)}: {printed.text}; is the driver loaded?")
    table = parse(printed.text)
    if isinstance(table, NoTable):
        return Failed(f"{' '.join(_TABLE)} printed no table: {table.reason}")
    addresses = pci.bound_to(root, "amdgpu")
    if len(addresses) != table.gpus:
        remark = (
            f"{table.gpus} GPUs, but {len(addresses)} devices of the driver amdgpu in sysfs; "
            "GPUs in use are known by index alone"
        )
        return Reading(NodeDevices(table.matrix()), {}, SOURCE, (*table.remarks, remark))
    table = replace(table, nics=pci.nics(root, addresses))
    ids = {one: index for index, one in enumerate(addresses)}
    return Reading(NodeDevices(table.matrix()), ids, SOURCE, table.remarks)
