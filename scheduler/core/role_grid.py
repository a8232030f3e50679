"""The ways to put members of several roles on one node together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from scheduler.core.fabric import IntArray
from scheduler.core.role_attempt import RoleProblem


@dataclass(frozen=True, eq=False)
class Grid:
    """All vectors of members, from none to all: the states, and the ways to use a node."""

    problem: RoleProblem

    @cached_property
    def vectors(self) -> IntArray:
        """int64 [S, roles], lexicographic; the last has all members."""
        counts = [role.count + 1 for role in self.problem.roles]
        found: IntArray = np.stack(np.unravel_index(np.arange(prod(counts)), counts), axis=1)
        return found.astype(np.int64)

    @cached_property
    def wanted(self) -> IntArray:
        """int64 [S, R]: what each vector takes of each resource."""
        requests = np.array([role.request for role in self.problem.roles])
        wanted: IntArray = self.vectors @ requests
        return wanted

    @cached_property
    def bare(self) -> IntArray:
        """int64 [S]: members that take no accelerator."""
        return self.vectors @ np.array([not n for n in self.problem.per_member], dtype=np.int64)

    def ways(self, row: int) -> IntArray:
        """Numbers of the vectors that fit on a node together, but for that of nobody: those with
        most members of the largest role first."""
        problem = self.problem
        fits = (self.vectors <= problem.fits[:, row]).all(axis=1)
        fits &= ((self.wanted <= problem.free[row]) | (self.wanted == 0)).all(axis=1)
        found = np.flatnonzero(fits)[1:]
        largest_first = self.vectors[found][:, problem.orders()[0]]
        return found[np.lexsort(largest_first.T[::-1])[::-1]]

    def before(self, ways: IntArray) -> IntArray:
        """int64 [ways, S]: the state that is left when a way is taken; S where it has too many."""
        states = np.arange(len(self.vectors))
        enough = (self.vectors[None] >= self.vectors[ways][:, None]).all(axis=2)
        return np.where(enough, states - ways[:, None], len(states))
