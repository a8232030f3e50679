"""Cuts the tree down to the domains and nodes that an optimal placement can use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.core.fabric import BoolArray, Fabric, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """Alternatives, of which an optimum uses exactly one.

    * `level`: the outermost level at which a choice is left (L means: between nodes).
    * `fewest`: how many new domains of that level an optimum needs.
    * `group`: int64 [n] in topology order, the alternative of each node (0, 1, .. by position), -1
      for nodes cut off. The nodes of an alternative lie in one domain of the level above, or in
      domains open already.
    """

    level: int
    fewest: int
    group: IntArray


def narrow(
    fabric: Fabric, caps: IntArray, near: BoolArray, group: IntArray, need: int, above: int
) -> Narrowed:
    """Fix the fewest domains from the broadest level down, as far as counting alone proves them.

    At a level, the fewest domains that hold `need` members are found by taking the largest ones
    first. While one domain is enough, each domain that is large enough is an alternative of its
    own and the next level is looked at. Where it takes b > 1, a domain can be part of an optimum
    only if it and the b - 1 largest others hold `need`; the rest is cut off.

    Parameters: `caps` int64 [n] members that fit, `near` bool [n] nodes in use already, `group`
    int64 [n] the alternatives to start from (-1: not allowed), numbered by position, each of which
    holds `need` and lies in one domain at each of the first `above` levels; all in topology order.
    Complexity: O(L n log n).
    """
    level = fewest = 0
    group = _renumber(np.where(caps > 0, group, -1))
    for level in range(above, fabric.levels + 1):
        step = _Step.at(fabric, level, caps, near, group)
        fewest, kept = step.survivors(need)
        single = fewest == 1 and not step.shared
        owner = np.arange(kept.size) if single else step.group
        numbers = np.where(kept, owner, -1)[fabric.paths[level]]
        group = _renumber(np.where(group >= 0, numbers, -1))
        if fewest > 0 and not single:
            break
    return Narrowed(level, fewest, group)


def relaxed_fewest(
    fabric: Fabric, level: int, caps: IntArray, near: BoolArray, group: IntArray, need: int
) -> IntArray:
    """Per alternative, the fewest new domains of a level that hold `need`, wherever they lie."""
    step = _Step.at(fabric, level, caps, near, group)
    return step.prefixes(need)[0]


def _renumber(group: IntArray) -> IntArray:
    """Number the alternatives 0, 1, .. in the order in which they are met."""
    known = np.flatnonzero(np.bincount(group + 1)[1:])
    numbers = np.full(int(group.max()) + 2, -1, dtype=np.int64)
    numbers[known] = np.arange(known.size)
    return numbers[group]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """The domains of one level: what they hold, whose alternative they are, which are open."""

    caps: IntArray
    group: IntArray
    opened: BoolArray

    @staticmethod
    def at(fabric: Fabric, level: int, caps: IntArray, near: BoolArray, group: IntArray) -> _Step:
        starts = fabric.starts[level]
        return _Step(
            np.add.reduceat(np.where(group >= 0, caps, 0), starts),
            np.maximum.reduceat(group, starts),
            np.logical_or.reduceat(near, starts),
        )

    @property
    def shared(self) -> bool:
        """Whether open domains still have room, so that they share the members with a new one."""
        return bool((self.opened & (self.caps > 0)).any())

    def survivors(self, need: int) -> tuple[int, BoolArray]:
        """The fewest new domains that do, and bool [domains]: those that can be part of that.

        With the fewest, b, a new domain can be part of it if it and the b - 1 largest hold enough.
        """
        fewest, enough = self.prefixes(need)
        best = int(fewest.min())
        useful = (self.caps > 0) & (fewest == best)[self.group]
        new = useful & (self.caps >= enough[self.group]) if best else False
        return best, np.where(self.opened, useful, new)

    def prefixes(self, need: int) -> tuple[IntArray, IntArray]:
        """Per alternative: the fewest new domains that hold `need` together with the open ones,
        and how much a domain must hold to do it with the largest others (where it takes any)."""
        groups = int(self.group.max()) + 1
        lacking = need - self._room_in_open(groups)
        new = np.flatnonzero((self.caps > 0) & ~self.opened)
        new = new[np.lexsort((-self.caps[new], self.group[new]))]
        caps, group = self.caps[new], self.group[new]
        ends = np.cumsum(np.bincount(group, minlength=groups))
        total = np.concatenate(([0], np.cumsum(caps)))
        begins = np.concatenate(([0], ends[:-1]))
        inside = total[1:] - total[begins][group]
        short = np.bincount(group[inside < lacking[group]], minlength=groups)
        others = total[begins + short] - total[begins]
        return np.where(lacking > 0, short + 1, 0), lacking - others

    def _room_in_open(self, groups: int) -> IntArray:
        """Members that fit into the open domains, per alternative."""
        where = self.opened & (self.caps > 0)
        return np.bincount(self.group[where], self.caps[where], groups).astype(np.int64)
