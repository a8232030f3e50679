"""The placement as an integer programme, solved by HiGHS: an independent proof of its counts."""

from __future__ import annotations

import highspy
import numpy as np
import numpy.typing as npt

from scheduler.core.placement import Ask, Fabric

Numbers = npt.NDArray[np.int32]


class Programme:
    """Binary variables, 1 where used: one per node, then one per domain of each level.

    A node in no domain of a level is a domain of its own there. A node opens its domain of the
    finest level, and every domain the one around it.
    """

    def __init__(self, fabric: Fabric, ask: Ask) -> None:
        self.levels, self.nodes = fabric.domains.shape
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("log_to_console", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 0.5)
        self.size = 0
        caps = np.minimum(ask.fits, ask.count)
        if ask.required is not None:
            caps = np.where(fabric.domains[ask.required] >= 0, caps, 0)
        self.columns = [*self._domains(fabric), self._add_nodes(caps)]
        self._rows(ask.count, highspy.kHighsInf, self.columns[-1][None], caps[None])
        for outer, inner in zip(self.columns, self.columns[1:], strict=False):
            pairs = np.unique(np.stack([outer, inner], axis=1), axis=0)
            self._rows(0, 1, pairs, np.tile([1, -1], (len(pairs), 1)))
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

    def _domains(self, fabric: Fabric) -> list[Numbers]:
        """Per level, the column of the domain of each node."""
        columns = []
        for ids in fabric.domains:
            own = ids.max(initial=-1) + 1 + np.arange(self.nodes)
            _, number = np.unique(np.where(ids >= 0, ids, own), return_inverse=True)
            columns.append(self._add(np.ones(number.max() + 1))[number])
        return columns

    def _add_nodes(self, caps: npt.NDArray[np.int64]) -> Numbers:
        return self._add((caps > 0).astype(float))

    def _add(self, upper: npt.NDArray[np.float64]) -> Numbers:
        """Add integer variables between 0 and an upper bound."""
        numbers = np.arange(self.size, self.size + upper.size, dtype=np.int32)
        self.size += upper.size
        self.highs.addVars(upper.size, np.zeros(upper.size), upper)
        integer = np.full(upper.size, int(highspy.HighsVarType.kInteger), dtype=np.uint8)
        self.highs.changeColsIntegrality(upper.size, numbers, integer)
        return numbers

    def _rows(self, low: float, high: float, columns: Numbers, values: npt.ArrayLike) -> None:
        """Add one row per row of `columns` (and of `values`)."""
        count, width = columns.shape
        self.highs.addRows(
            count,
            np.full(count, low, dtype=float),
            np.full(count, high, dtype=float),
            columns.size,
            np.arange(0, columns.size, width, dtype=np.int32),
            columns.ravel().astype(np.int32),
            np.asarray(values, dtype=float).ravel(),
        )

    def _limit(self, level: int, count: int) -> None:
        columns = np.unique(self.columns[level])[None]
        self._rows(0, count, columns, np.ones(columns.shape))

    def _minimize(self, level: int) -> int | None:
        costs = np.zeros(self.size)
        costs[self.columns[level]] = 1
        self.highs.changeColsCost(self.size, np.arange(self.size, dtype=np.int32), costs)
        answer = self._solve("choose")
        return self._solve("off") if answer is None else answer

    def _solve(self, presolve: str) -> int | None:
        """Infeasible is believed only without presolve, which has called feasible ones so."""
        self.highs.setOptionValue("presolve", presolve)
        self.highs.clearSolver()
        self.highs.run()
        if self.highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return None
        assert self.highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return round(self.highs.getObjectiveValue())
