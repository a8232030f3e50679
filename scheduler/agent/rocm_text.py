"""Reads what ``rocm-smi --showtopo`` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from scheduler.agent.smi_text import NoTable
from scheduler.agent.table import Table
from scheduler.core.devices_matrix import MOST_GPUS, SYS, weaker

XGMI = "XGMI"
LINKS = "Link Type between two GPUs"

_TITLE = re.compile(r"=+\s*(.*?)\s*=+")
_GPU = re.compile(r"GPU([0-9]{1,4})")
_NUMA = re.compile(r"\s*GPU\[([0-9]{1,4})\].*Numa (Node|Affinity):\s*(-?[0-9]{1,5})\s*")


def is_rocm(text: str) -> bool:
    """Whether a text is of this tool."""
    return LINKS in text


def parse_rocm(text: str) -> Table | NoTable:
    """The table in a text. A PCIe link is ``NODE`` within a NUMA node, else ``SYS``."""
    sections = _sections(text.splitlines())
    rows = list(_rows(sections.get(LINKS, ())))
    gpus = 1 + max((gpu for gpu, _ in rows), default=-1)
    if not gpus:
        return NoTable(f"the section {LINKS!r} has no row of a GPU")
    if gpus > MOST_GPUS:
        return NoTable(f"GPU{gpus - 1} is more than any node has")
    numa = _numa(sections.get("Numa Nodes", ()), gpus)
    absent = sorted(set(range(gpus)) - {gpu for gpu, _ in rows})
    remarks = tuple(f"row GPU{gpu} is missing" for gpu in absent)
    return Table(gpus, _words(rows, numa), numa, remarks=remarks)


def _sections(lines: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    title = ""
    for line in lines:
        if match := _TITLE.fullmatch(line.strip()):
            title = match[1]
        else:
            found.setdefault(title, []).append(line)
    return found


def _rows(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    for line in lines:
        cells = line.split()
        match = _GPU.fullmatch(cells[0]) if cells else None
        # The header is all names.
        if match and not any(map(_GPU.fullmatch, cells[1:])):
            yield int(match[1]), cells[1:]


def _words(
    rows: Sequence[tuple[int, list[str]]], numa: Sequence[int | None]
) -> Mapping[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for gpu, cells in rows:
        for other, cell in enumerate(cells[: len(numa)]):
            pair = min(gpu, other), max(gpu, other)
            word = _word(cell, numa[gpu], numa[other])
            if word and gpu != other:
                found[pair] = weaker(found.get(pair, word), word)
    return found


def _word(cell: str, one: int | None, other: int | None) -> str | None:
    if cell == XGMI:
        return XGMI
    if cell != "PCIE":
        return None
    return "NODE" if one is not None and one == other else SYS


def _numa(lines: Sequence[str], gpus: int) -> tuple[int | None, ...]:
    nodes: dict[int, int] = {}
    for match in filter(None, map(_NUMA.fullmatch, lines)):
        # -1: none; the affinity below it may know better.
        if (node := int(match[3])) >= 0:
            nodes.setdefault(int(match[1]), node)
    return tuple(nodes.get(gpu) for gpu in range(gpus))
