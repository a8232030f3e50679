"""How much placements have looked at: what they cost, counted the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

CELLS_A_ROW = 100
"""Cells of a knapsack that take as long as one row, somewhat less than a microsecond."""

SHUT_ROWS_A_ROW = 4
"""Nodes that a placement may not use, and which it only passes over, for one row."""


@dataclass(slots=True)
class Work:
    """A count of rows: nodes that placements may use, and what takes as long as looking at one."""

    most: int | None = None
    """So much, and no placement is begun any more; None: no end."""
    rows: int = 0
    was_cut: bool = False
    """Whether something was left undone for that."""

    def placing(self, nodes: int, usable: int) -> None:
        """Count one placement in a tree of so many nodes, of which it may use some."""
        self.rows += usable + nodes // SHUT_ROWS_A_ROW

    def filling(self, cells: int) -> None:
        """Count a knapsack of so many cells."""
        self.rows += cells // CELLS_A_ROW

    def allows(self, cells: int) -> bool:
        """Whether a knapsack of so many cells may still be filled."""
        return self.most is None or self.rows + cells // CELLS_A_ROW <= self.most

    def is_over(self) -> bool:
        """Whether there is no more to be done; who asks leaves something undone if so."""
        over = self.most is not None and self.rows >= self.most
        self.was_cut = self.was_cut or over
        return over
