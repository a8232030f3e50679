"""Prints tables of GPUs as tools, terminals and people do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Cells = list[str]

LEGEND = """
Legend:

  X    = Self
  SYS  = somewhere across NUMA nodes
  NV#  = a bonded set of # NVLinks
"""


@dataclass(frozen=True)
class Shown:
    """A table to print. ``words`` has both GPUs and cards: device i, device j > i -> word."""

    gpus: int
    words: Mapping[tuple[int, int], str]
    cards: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    numa: tuple[str, ...] = ()
    gpu_numa: bool = False
    """Whether there is the column GPU NUMA ID of later drivers."""

    @property
    def devices(self) -> list[str]:
        return [f"GPU{at}" for at in range(self.gpus)] + list(self.cards)

    def word(self, one: int, other: int) -> str:
        if one == other:
            return " X "
        return self.words[min(one, other), max(one, other)]

    def titles(self) -> list[str]:
        stated = ["CPU Affinity"] * bool(self.cpus) + ["NUMA Affinity"] * bool(self.numa)
        return stated + ["GPU NUMA ID"] * self.gpu_numa

    def affinity(self, at: int) -> Cells:
        if at >= self.gpus:
            return []
        stated = [column[at] for column in (self.cpus, self.numa) if column]
        # The driver prints one tab too many here.
        return stated + ["", "N/A"] * self.gpu_numa

    def rows(self) -> list[Cells]:
        every = range(len(self.devices))
        return [
            [name, *(self.word(at, other) for other in every), *self.affinity(at)]
            for at, name in enumerate(self.devices)
        ]


def with_tabs(shown: Shown, *, lead: str = "\t", legend: str = LEGEND) -> str:
    """As the tool prints it."""
    lines = [lead + "\t".join([*shown.devices, *shown.titles()])]
    return "\n".join(lines + ["\t".join(row) for row in shown.rows()]) + "\n" + legend


def with_spaces(shown: Shown, *, indent: str = "") -> str:
    """As it looks when copied from a terminal."""
    titles = ["", *shown.devices, *shown.titles()]
    lines = [[cell for cell in row if cell] for row in (titles, *shown.rows())]
    text = ["".join(f"{cell.strip():<8}  " for cell in line).rstrip() for line in lines]
    return "\n".join(indent + line for line in [" " * 10 + text[0], *text[1:]])


def glued(shown: Shown) -> str:
    """With a header whose GPUs have lost their tabs."""
    names = "".join(shown.devices[: shown.gpus + 1])
    rest = "\t".join([*shown.devices[shown.gpus + 1 :], *shown.titles()])
    header, _, below = with_tabs(shown).partition("\n")
    assert header
    return f"\t    {names}\t{rest}\n{below}"


def underlined(shown: Shown, escape: str = "\x1b") -> str:
    """With a header that is underlined by terminal escapes."""
    header, _, below = with_tabs(shown, lead="").partition("\n")
    return f"\t{escape}[4m{header}{escape}[0m\n{below}"


def cut_off(text: str, rows: int, width: int) -> str:
    """Without some last rows, and the last of the others cut to some cells."""
    lines = text.splitlines()[: 1 + rows]
    return "\n".join([*lines[:-1], "\t".join(lines[-1].split("\t")[:width])])


def rocm(links: Sequence[Sequence[str]], numa: Sequence[int]) -> str:
    """As AMD's tool prints it."""
    names = [f"GPU{at}" for at in range(len(links))]

    def table(title: str, rows: Sequence[Sequence[str]]) -> list[str]:
        lines = ["       " + "".join(f"{name:<13}" for name in names)]
        lines += [
            f"{name:<7}" + "".join(f"{cell:<13}" for cell in row)
            for name, row in zip(names, rows, strict=True)
        ]
        return [f"{f' {title} ':=^90}", *lines, ""]

    weights = [["0" if cell == "0" else "15" for cell in row] for row in links]
    places = [
        f"GPU[{at}]\t\t: (Topology) Numa {what}: {node}"
        for at, node in enumerate(numa)
        for what in ("Node", "Affinity")
    ]
    return "\n".join(
        [
            f"{' ROCm System Management Interface ':=^90}",
            "",
            *table("Weight between two GPUs", weights),
            *table("Link Type between two GPUs", links),
            f"{' Numa Nodes ':=^90}",
            *places,
            f"{' End of ROCm SMI Log ':=^90}",
        ]
    )
