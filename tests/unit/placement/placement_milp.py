"""The placement as an integer programme, solved by HiGHS: another way to the same counts."""

from __future__ import annotations

import highspy
import numpy as np
from placement_oracle import domain_of

from scheduler.core.placement import Ask, Fabric


class Programme:
    """Binary variables: one per node and one per domain, 1 where it is used."""

    def __init__(self, fabric: Fabric, ask: Ask) -> None:
        self.levels, self.nodes = fabric.domains.shape
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 0.5)
        self.variables: dict[object, int] = {}
        for node in range(self.nodes):
            usable = ask.required is None or fabric.domains[ask.required, node] >= 0
            self._variable(("row", node), usable and ask.fits[node] > 0)
        self._hold_all(ask)
        for node in range(self.nodes):
            self._open_with_node(fabric, node)
        if ask.required is not None:
            self._limit(ask.required, 1)

    def fewest(self) -> tuple[int, ...] | None:
        """Fewest domains per level, broadest first, then nodes; None where nothing is possible."""
        counts = []
        for level in range(self.levels + 1):
            count = self._minimize(level)
            if count is None:
                return None
            self._limit(level, count)
            counts.append(count)
        return tuple(counts)

    def _variable(self, key: object, allowed: bool = True) -> int:
        if key not in self.variables:
            self.variables[key] = len(self.variables)
            self.highs.addVar(0, int(allowed))
            self.highs.changeColIntegrality(self.variables[key], highspy.HighsVarType.kInteger)
        return self.variables[key]

    def _hold_all(self, ask: Ask) -> None:
        caps = np.minimum(ask.fits, ask.count).astype(float)
        self._row(ask.count, highspy.kHighsInf, list(range(self.nodes)), caps)

    def _open_with_node(self, fabric: Fabric, node: int) -> None:
        """A node opens its finest domain, and that the one around it."""
        inner = self._variable(("row", node))
        for level in reversed(range(self.levels)):
            known = (level, domain_of(fabric, level, node)) in self.variables
            outer = self._variable((level, domain_of(fabric, level, node)))
            self._row(0, 1, [outer, inner], np.array([1.0, -1.0]))
            if known:
                return
            inner = outer

    def _of_level(self, level: int) -> list[int]:
        wanted = "row" if level == self.levels else level
        return [number for key, number in self.variables.items() if key[0] == wanted]

    def _limit(self, level: int, count: int) -> None:
        numbers = self._of_level(level)
        self._row(0, count, numbers, np.ones(len(numbers)))

    def _row(self, low: float, high: float, numbers: list[int], values: np.ndarray) -> None:
        self.highs.addRow(low, high, len(numbers), np.array(numbers, dtype=np.int32), values)

    def _minimize(self, level: int) -> int | None:
        size = len(self.variables)
        costs = np.zeros(size)
        costs[self._of_level(level)] = 1
        self.highs.changeColsCost(size, np.arange(size, dtype=np.int32), costs)
        return self._solve("choose") or self._solve("off")

    def _solve(self, presolve: str) -> int | None:
        """Infeasible is believed only without presolve, which has called feasible ones so."""
        self.highs.setOptionValue("presolve", presolve)
        self.highs.clearSolver()
        self.highs.run()
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return None
        assert self.highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return round(self.highs.getObjectiveValue())
