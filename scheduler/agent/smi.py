"""Reads NVIDIA GPUs through the command ``nvidia-smi``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.agent import pci
from scheduler.agent.reading import Failed, Reading
from scheduler.agent.smi_text import NoTable
from scheduler.agent.table import Table
from scheduler.agent.tools import Run
from scheduler.agent.topology_text import parse
from scheduler.core.devices_matrix import SYS, NodeDevices

SOURCE = "nvidia-smi"

_TABLE = (SOURCE, "topo", "-m")
_FIELDS = ("index,uuid,pci.bus_id,mig.mode.current", "index,uuid,pci.bus_id")
"""Drivers without MIG do not know its field."""


@dataclass(frozen=True, slots=True)
class _Identity:
    uuid: str
    address: str
    mig: bool


def read_smi(run: Run, root: Path) -> Reading | Failed | None:
    """The GPUs that ``nvidia-smi`` shows; None if there is no such program."""
    printed = run(_TABLE)
    if printed is None:
        return None
    if not printed.ok:
        return Failed(f"{' '.join(_TABLE)}: {printed.text}; is the driver loaded?")
    table = parse(printed.text)
    if isinstance(table, NoTable):
        return Failed(f"{' '.join(_TABLE)} printed no table: {table.reason}")
    known = _identities(run, table.gpus)
    if not known:
        remark = "nvidia-smi --query-gpu gives no UUIDs; GPUs in use are known by index alone"
        table = replace(table, remarks=(*table.remarks, remark))
    return _reading(table, known, root)


def _reading(table: Table, known: Sequence[_Identity], root: Path) -> Reading:
    mig = tuple(index for index, gpu in enumerate(known) if gpu.mig)
    cards = table.nics
    if known and not cards:
        cards = pci.nics(root, [gpu.address for gpu in known])
    table = replace(
        table,
        words={pair: _without_mig(word, pair, mig) for pair, word in table.words.items()},
        nics=tuple(replace(card, numa=pci.nic_numa(root, card.name)) for card in cards),
    )
    ids = {name: index for index, gpu in enumerate(known) for name in (gpu.uuid, gpu.address)}
    uuids = tuple(gpu.uuid for gpu in known)
    return Reading(NodeDevices(table.matrix(mig), uuids), ids, SOURCE, table.remarks)


def _without_mig(word: str, pair: tuple[int, int], mig: Sequence[int]) -> str:
    """No NVLink joins a GPU that is split into instances."""
    return SYS if word.startswith("NV") and not set(pair).isdisjoint(mig) else word


def _identities(run: Run, gpus: int) -> list[_Identity]:
    """Of each GPU in order, or nothing if not all are known."""
    for fields in _FIELDS:
        printed = run((SOURCE, f"--query-gpu={fields}", "--format=csv,noheader"))
        if printed is not None and printed.ok:
            lines = [line.split(",") for line in printed.text.splitlines() if line.strip()]
            found = {int(index): _identity(rest) for index, *rest in lines if _whole(index, rest)}
            return [found[index] for index in range(gpus)] if set(found) == set(range(gpus)) else []
    return []


def _whole(index: str, rest: Sequence[str]) -> bool:
    return index.strip().isdecimal() and len(rest) >= len(("uuid", "pci.bus_id"))


def _identity(cells: Sequence[str]) -> _Identity:
    uuid, bus, *mig = (cell.strip() for cell in cells)
    return _Identity(uuid, pci.address(bus), mig[:1] == ["Enabled"])
