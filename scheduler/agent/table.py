"""What a tool or the system says of a node's GPUs, before it becomes a `Matrix`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.core.devices_matrix import SYS, Link, Matrix, Nic, weight


@dataclass(frozen=True, slots=True)
class TableNic:
    """A network card as a column of the table."""

    name: str
    words: tuple[str | None, ...]
    """How each GPU reaches it; None where that is not known."""
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """GPUs, the words between them, NUMA nodes and network cards."""

    gpus: int
    words: Mapping[tuple[int, int], str]
    """(lower index, higher index) -> word; a pair that was not to be read is missing."""
    numa: tuple[int | None, ...]
    nics: tuple[TableNic, ...] = ()
    remarks: tuple[str, ...] = ()
    """What was not as it should be, for the log."""

    def matrix(self, mig: tuple[int, ...] = ()) -> Matrix:
        """The matrix, with the nearest network cards of each GPU worked out."""
        links = (Link(*pair, word) for pair, word in sorted(self.words.items()))
        nics = [nic if nic.numa is not None else self._located(nic) for nic in self.nics]
        near = [_nearest(gpu, self.numa[gpu], nics) for gpu in range(self.gpus)]
        return Matrix(
            self.gpus,
            tuple(links),
            self.numa,
            tuple(
                Nic(nic.name, nic.numa, tuple(gpu for gpu in range(self.gpus) if at in near[gpu]))
                for at, nic in enumerate(nics)
            ),
            mig,
        )

    def _located(self, nic: TableNic) -> TableNic:
        """A card is on the NUMA node of a GPU that reaches it without crossing nodes."""
        for node, word in zip(self.numa, nic.words, strict=True):
            if node is not None and _rank(word) > weight(SYS):
                return TableNic(nic.name, nic.words, node)
        return nic


def _nearest(gpu: int, node: int | None, nics: list[TableNic]) -> set[int]:
    """Positions of the cards that a GPU reaches best.

    Where all are across NUMA nodes by their words, the node decides: on boards whose GPUs hang on
    the CPU's own link and the cards on PCIe, every word is SYS.
    """
    ranks = [_rank(nic.words[gpu]) for nic in nics]
    best = max(ranks, default=0)
    if best > weight(SYS):
        return {at for at, rank in enumerate(ranks) if rank == best}
    return {at for at, nic in enumerate(nics) if node is not None and nic.numa == node}


def _rank(word: str | None) -> int:
    return 0 if word is None else weight(word)
