"""Reads the topology that a vendor's tool prints, whichever it is."""

from __future__ import annotations

from scheduler.agent.rocm_text import is_rocm, parse_rocm
from scheduler.agent.smi_text import NoTable, parse_smi
from scheduler.agent.table import Table

LONGEST = 1 << 20
"""Characters; a real table has less than a hundredth of that."""


def parse(text: str) -> Table | NoTable:
    """What ``nvidia-smi topo -m`` (or ``-mp``) or ``rocm-smi --showtopo`` printed.

    A text that is no such table is a `NoTable` with the reason; nothing is raised.
    """
    if len(text) > LONGEST:
        return NoTable(f"{len(text)} characters are too many for a table of GPUs")
    return parse_rocm(text) if is_rocm(text) else parse_smi(text)
