"""Prints tables and texts: in colours on a terminal, plain everywhere else."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

COLOURS = {
    "running": "green",
    "starting": "cyan",
    "queued": "yellow",
    "forming": "blue",
    "broken": "bold red",
    "invalid": "red",
    "done": "dim",
}
"""Gang state -> colour; NO_COLOR turns all off."""


def as_json(value: Any) -> None:
    """A value for programs, on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def lines(texts: Iterable[Text | str]) -> None:
    """Lines on standard output, never cut or wrapped: whatever reads them can search them."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for text in texts:
        console.print(text)


def state(name: str) -> Text:
    """A gang's state in its colour."""
    return Text(name, style=COLOURS.get(name, ""))


def table(head: Sequence[str], rows: Iterable[Sequence[Text | str]]) -> list[Text]:
    """Columns as kubectl prints them: as wide as needed, three spaces between."""
    cells = [[Text(title, style="bold") for title in head]]
    cells += [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    return [_line(row, widths) for row in cells]


def facts(pairs: Iterable[tuple[str, Text | str]], indent: int = 2) -> list[Text]:
    """Names and values below each other; pairs without a value are left out."""
    shown = [(name, value) for name, value in pairs if str(value)]
    width = max((len(name) for name, _ in shown), default=0)
    return [
        Text(" " * indent).append(name.ljust(width), style="dim").append("  ").append(value)
        for name, value in shown
    ]


def named(names: Sequence[str], most: int = 5, *, wide: bool = False) -> str:
    """Some names, and how many more there are; all of them where the answer may be wide."""
    most = len(names) if wide else most
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def short(level: str) -> str:
    """What stands after the ``/`` of a level's key."""
    return level.rpartition("/")[2]


def seconds(count: float) -> str:
    """A time such as ``42s``, ``7m``, ``3h20m`` or ``2d4h``."""
    total = int(count)
    if total < 120:
        return f"{total}s"
    minutes, hours, days = total // 60, total // 3600, total // 86_400
    if minutes < 120:
        return f"{minutes}m"
    if hours < 48:
        return f"{hours}h{minutes % 60:02d}m"
    return f"{days}d{hours % 24}h"


def _line(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(cells, widths, strict=True):
        line.append(cell).append(" " * (width - cell.cell_len + 3))
    line.rstrip()
    return line
