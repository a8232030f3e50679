"""A picture of the cluster: blocks of racks of nodes of GPUs, each coloured by its gang."""

from __future__ import annotations

import colorsys
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from scheduler.simulation.fleet import BLOCK, RACK
from scheduler.simulation.objects import Object
from scheduler.simulation.observer import GPU, Seating

LETTERS = string.ascii_uppercase + string.ascii_lowercase
SMALL = "·"
"""A GPU of a gang on one node."""
FREE = "□"

CELL, GAP, ROW, HEAD, LEGEND = 12, 2, 16, 20, 18
"""Sizes in the SVG, in pixels."""


@dataclass(frozen=True, slots=True)
class Row:
    """A node: its name and the gang on each of its GPUs, "" for a free one."""

    name: str
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """How a gang is shown."""

    letter: str
    colour: str
    """``#rrggbb``."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    title: str
    blocks: dict[str, dict[str, list[Row]]]
    """Block -> rack -> nodes."""
    marks: dict[str, Mark]
    """Gang -> how it is shown."""


def picture(title: str, nodes: Iterable[Object], seating: Seating) -> Picture:
    """Lay out the nodes; gangs on several nodes get a letter, in order of name."""
    blocks: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for item in nodes:
        metadata = item["metadata"]
        row = _row(item, seating.get(metadata["name"], {}))
        blocks[metadata["labels"][BLOCK]][metadata["labels"][RACK]].append(row)
    return Picture(title, blocks, _marks(seating))


def as_text(shown: Picture) -> RenderableType:
    """For a terminal; about 70 columns for four racks in a block."""
    parts: list[RenderableType] = [Text(shown.title, style="bold")]
    for block, racks in shown.blocks.items():
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for rack in racks:
            table.add_column(f"{block}/{rack}", no_wrap=True)
        table.add_row(*(_rack_text(shown, rows) for rows in racks.values()))
        parts.append(table)
    parts.append(_legend(shown))
    return Group(*parts)


def as_svg(shown: Picture) -> str:
    """A file that stands alone; pointing at a GPU shows node and gang."""
    width, parts, top = 0, [], HEAD + GAP
    for block, racks in shown.blocks.items():
        left = GAP
        for rack, rows in racks.items():
            parts.append(_rack_svg(shown, f"{block}/{rack}", rows, left, top))
            left += max(len(row.gpus) for row in rows) * CELL + 60
        width = max(width, left)
        top += HEAD + max(len(rows) for rows in racks.values()) * ROW + GAP
    parts.append(_legend_svg(shown, top))
    height = top + LEGEND * (len(_lettered(shown)) // 4 + 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="monospace" font-size="11">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="{GAP}" y="15" font-weight="bold">{escape(shown.title)}</text>\n'
        f"{''.join(parts)}</svg>\n"
    )


def _row(item: Object, held: dict[str, int]) -> Row:
    total = int(item["status"]["allocatable"].get(GPU, "0"))
    gangs = [gang for gang, gpus in sorted(held.items()) for _ in range(gpus)]
    return Row(item["metadata"]["name"], tuple(gangs + [""] * (total - len(gangs))))


def _marks(seating: Seating) -> dict[str, Mark]:
    nodes = Counter(gang for held in seating.values() for gang in held)
    several = [gang for gang in sorted(nodes) if nodes[gang] > 1]
    letters = {gang: LETTERS[place % len(LETTERS)] for place, gang in enumerate(several)}
    order = several + [gang for gang in sorted(nodes) if nodes[gang] == 1]
    return {
        gang: Mark(letters.get(gang, SMALL), _colour(place, vivid=gang in letters))
        for place, gang in enumerate(order)
    }


def _colour(place: int, *, vivid: bool) -> str:
    """Neighbours in the order lie a golden angle apart on the colour circle."""
    hue = place * 0.381966 % 1
    red, green, blue = colorsys.hls_to_rgb(hue, 0.62 if vivid else 0.75, 0.75 if vivid else 0.25)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _lettered(shown: Picture) -> list[tuple[str, Mark]]:
    return [(gang, mark) for gang, mark in shown.marks.items() if mark.letter != SMALL]


def _rack_text(shown: Picture, rows: Sequence[Row]) -> Text:
    text = Text()
    for row in rows:
        text.append(f"{row.name} ", style="dim")
        for gang in row.gpus:
            mark = shown.marks.get(gang)
            if mark is None:
                text.append(FREE, style="dim")
            else:
                text.append(mark.letter, style=f"black on {mark.colour}")
        text.append("\n")
    return text


def _legend(shown: Picture) -> RenderableType:
    """In columns, so that no line ends between a letter and its gang."""
    entries = [Text(f"{FREE} free"), Text(f"{SMALL} gang on one node")]
    for gang, mark in _lettered(shown):
        entry = Text(mark.letter, style=f"black on {mark.colour}")
        entries.append(Text.assemble(entry, f"\u00a0{gang}"))
    return Columns(entries, padding=(0, 3))


def _rack_svg(shown: Picture, name: str, rows: Sequence[Row], left: int, top: int) -> str:
    parts = [f'<text x="{left}" y="{top + 14}">{escape(name)}</text>\n']
    for place, row in enumerate(rows):
        y = top + HEAD + place * ROW
        parts.append(f'<text x="{left}" y="{y + 10}" fill="#666666">{escape(row.name)}</text>\n')
        for number, gang in enumerate(row.gpus):
            parts.append(_gpu_svg(shown, row, gang, left + 40 + number * CELL, y))
    return "".join(parts)


def _gpu_svg(shown: Picture, row: Row, gang: str, x: int, y: int) -> str:
    mark = shown.marks.get(gang)
    fill = mark.colour if mark else "#f4f4f4"
    title = escape(f"{row.name}: {gang or 'free'}")
    size = CELL - GAP
    cell = f'<rect x="{x}" y="{y}" width="{size}" height="{size + GAP}" fill="{fill}"'
    letter = ""
    if mark and mark.letter != SMALL:
        letter = f'<text x="{x + 2}" y="{y + 10}" font-size="10">{mark.letter}</text>'
    return f'<g>{cell} stroke="#cccccc"/>{letter}<title>{title}</title></g>\n'


def _legend_svg(shown: Picture, top: int) -> str:
    parts = []
    for place, (gang, mark) in enumerate(_lettered(shown)):
        x, y = GAP + place % 4 * 150, top + place // 4 * LEGEND
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{mark.colour}"/>\n')
        label = escape(f"{mark.letter}  {gang}")
        parts.append(f'<text x="{x + 3}" y="{y + 11}">{label}</text>\n')
    return "".join(parts)
