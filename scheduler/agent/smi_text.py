"""Reads what ``nvidia-smi topo -m`` prints, as drivers, terminals and people leave it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scheduler.agent.table import Table, TableNic
from scheduler.core.devices_matrix import MOST_GPUS, canonical, weaker
from scheduler.core.quoting import quoted

MOST_COLUMNS = 512
MOST_REMARKS = 20

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[[0-9;]*m")
"""Terminal escapes; some lose their first character on the way."""
_AFFINITY = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|NUMA|CPU")
_GLUED = re.compile(r"(?=GPU[0-9]|NIC[0-9]|mlx[0-9])")
_GPU = re.compile(r"GPU([0-9]{1,4})")
_LEGEND = re.compile(r"\s*(NIC[0-9]+):\s*(\S+)\s*")
_NODE = re.compile(r"[0-9]{1,5}")
_SELF = "X"


@dataclass(frozen=True, slots=True)
class NoTable:
    """Why a text has no table of GPUs."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Header:
    devices: tuple[str, ...]
    affinity: tuple[str, ...]
    """Titles of the columns behind the devices, such as ``CPU Affinity``."""

    @property
    def gpus(self) -> int:
        return sum(1 for name in self.devices if _GPU.fullmatch(name))


@dataclass(frozen=True, slots=True)
class _Row:
    device: int
    """Its column."""
    words: tuple[str | None, ...]
    """One for each device; None where the row ends early or the word is not known."""
    cpus: str = ""
    numa: str = ""


def parse_smi(text: str) -> Table | NoTable:
    """The table in a text; anything before and after it is skipped.

    It may lack the leading tab, have glued or cut header cells, old words, terminal escapes, empty
    or cut cells and rows, and network cards of any name. A pair that only one row knows is taken
    from that; where two rows differ, the weaker link counts.
    """
    lines = _ESCAPE.sub("", text).splitlines()
    found = _find_header(lines)
    if isinstance(found, NoTable):
        return found
    header, below = found
    remarks: list[str] = []
    rows = _rows(header, below, remarks)
    if not any(row.device < header.gpus for row in rows):
        return NoTable(f"below the header of {header.gpus} GPUs there is no row of a GPU")
    names = _legend(lines)
    return Table(
        header.gpus,
        _links(header, rows),
        _numa(header, rows),
        _nics(header, rows, names),
        tuple([*remarks, *_missing(header, rows)][:MOST_REMARKS]),
    )


def _find_header(lines: Sequence[str]) -> tuple[_Header, Sequence[str]] | NoTable:
    for at, line in enumerate(lines):
        header = _header(line)
        if header is not None:
            fault = _fault(header)
            return NoTable(fault) if fault else (header, lines[at + 1 :])
    return NoTable("no line names the GPUs, such as GPU0 GPU1 …")


def _header(line: str) -> _Header | None:
    """The header in a line, unless it is something else: a row has words, a header has none."""
    affinity = tuple(match[0] for match in _AFFINITY.finditer(line))
    devices = _AFFINITY.split(line, maxsplit=1)[0]
    names = [name for cell in devices.split() for name in _GLUED.split(cell) if name]
    if not names or not _GPU.fullmatch(names[0]) or any(map(_is_word, names)):
        return None
    # What is cut off inside a title leaves a word without a number.
    return _Header(tuple(name for name in names if name != "GPU"), affinity)


def _is_word(cell: str) -> bool:
    return cell == _SELF or canonical(cell) is not None


def _fault(header: _Header) -> str:
    numbers = [int(match[1]) for name in header.devices if (match := _GPU.fullmatch(name))]
    if len(numbers) > MOST_GPUS or len(header.devices) > MOST_COLUMNS:
        return f"{len(numbers)} GPUs in {len(header.devices)} columns are more than any node has"
    if numbers != list(range(len(numbers))):
        shown = ", ".join(map(str, numbers[:20]))
        return f"the header numbers its GPUs {shown}; they must count from 0"
    if len(set(header.devices)) < len(header.devices):
        return "the header names a device twice"
    return ""


def _rows(header: _Header, lines: Iterable[str], remarks: list[str]) -> list[_Row]:
    """All rows up to the next table."""
    found: dict[int, _Row] = {}
    for line in lines:
        if _header(line) is not None and not _is_lone_row(header, line):
            break
        row = _row(header, line, remarks)
        if row is not None:
            found.setdefault(row.device, row)
    return list(found.values())


def _is_lone_row(header: _Header, line: str) -> bool:
    """Whether nothing but a row's name is left of it."""
    return line.strip() in header.devices


def _row(header: _Header, line: str, remarks: list[str]) -> _Row | None:
    for cells in (_by_tabs(line), line.split()):
        if not cells or cells[0] not in header.devices:
            continue
        column = header.devices.index(cells[0])
        words = cells[1 : len(header.devices) + 1]
        if _aligned(words, column):
            cpus, numa = _affinity(header, cells[len(header.devices) + 1 :], tabs="\t" in line)
            return _Row(column, _padded(header, words), cpus, numa)
        remarks.append(f"row {quoted(cells[0])}: its cells do not stand below the header")
        return None
    return None


def _by_tabs(line: str) -> list[str]:
    """Cells between tabs, or nothing where spaces separate them as well."""
    cells = [cell.strip() for cell in line.strip().split("\t")]
    return [] if any(" " in cell for cell in cells) else cells


def _aligned(words: Sequence[str], column: int) -> bool:
    """Whether the cell of the device itself is where it should be, if the row reaches so far."""
    if _SELF in words:
        return words.index(_SELF) == column
    return len(words) <= column


def _padded(header: _Header, words: Sequence[str]) -> tuple[str | None, ...]:
    known = [canonical(word) for word in words]
    return (*known, *[None] * (len(header.devices) - len(known)))


def _affinity(header: _Header, cells: Sequence[str], *, tabs: bool) -> tuple[str, str]:
    """(CPUs, NUMA nodes) of a row."""
    titles = header.affinity
    if not tabs and len(cells) < len(titles) and cells and cells[-1] == "N/A" and len(titles) > 2:
        # Between spaces an empty cell cannot be seen; CPUs are what tends to be empty.
        titles = titles[len(titles) - len(cells) :]
    by_title = dict(zip(titles, cells, strict=False))
    cpus = by_title.get("CPU Affinity", by_title.get("CPU", ""))
    return cpus, by_title.get("NUMA Affinity", by_title.get("NUMA", ""))


def _links(header: _Header, rows: Iterable[_Row]) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for row in rows:
        for column, word in enumerate(row.words[: header.gpus]):
            if word is not None and row.device < header.gpus:
                pair = min(row.device, column), max(row.device, column)
                found[pair] = weaker(found.get(pair, word), word)
    return found


def _nics(header: _Header, rows: Iterable[_Row], names: dict[str, str]) -> tuple[TableNic, ...]:
    words: dict[tuple[int, int], str] = {}
    for row in rows:
        for column, word in enumerate(row.words):
            if word is not None and (row.device < header.gpus) != (column < header.gpus):
                pair = min(row.device, column), max(row.device, column)
                words[pair] = weaker(words.get(pair, word), word)
    return tuple(
        TableNic(
            names.get(header.devices[nic], header.devices[nic]),
            tuple(words.get((gpu, nic)) for gpu in range(header.gpus)),
        )
        for nic in range(header.gpus, len(header.devices))
    )


def _numa(header: _Header, rows: Iterable[_Row]) -> tuple[int | None, ...]:
    """NUMA nodes, or groups of equal CPUs where no row has a node."""
    of = {row.device: row for row in rows}
    ordered = [of.get(gpu) for gpu in range(header.gpus)]
    stated = tuple(_first_number(row.numa) if row else None for row in ordered)
    if any(node is not None for node in stated):
        return stated
    firsts = [_first_number(row.cpus) if row else None for row in ordered]
    # The kernel numbers CPUs node by node.
    rank = {cpu: at for at, cpu in enumerate(sorted({c for c in firsts if c is not None}))}
    return tuple(None if cpu is None else rank[cpu] for cpu in firsts)


def _first_number(cell: str) -> int | None:
    match = _NODE.match(cell)
    return int(match[0]) if match else None


def _legend(lines: Iterable[str]) -> dict[str, str]:
    return {match[1]: match[2] for line in lines if (match := _LEGEND.fullmatch(line))}


def _missing(header: _Header, rows: Iterable[_Row]) -> list[str]:
    there = {row.device for row in rows}
    return [f"row GPU{gpu} is missing" for gpu in range(header.gpus) if gpu not in there]
