"""The network's levels and domains, read from node labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler.core import presets
from scheduler.core.charts import TIER, Charted, charted
from scheduler.core.fabric import Fabric
from scheduler.core.presets import HOST_NAMES, HOSTNAME, last_word, name_of
from scheduler.model import Chart, Node

__all__ = ["Path", "Topology"]

Path = tuple[str, ...]
"""A domain: the label values from the broadest level down to its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Which domain every node is in, for people (label values) and for placement (numbers).

    A node that lacks the label of a level, or has an empty one, is in no domain of that level and
    of all finer ones.
    """

    levels: tuple[str, ...]
    """Label keys, broadest first."""
    names: tuple[str, ...]
    """Node names, sorted: the rows of the fabric."""
    fabric: Fabric
    paths: tuple[tuple[Path, ...], ...]
    """Per level: the path of each domain by its id; ids follow the order of the paths."""
    values: Mapping[str, tuple[str, ...]] = field(repr=False)
    """Node name -> its label value at each level, "" where it has none."""
    other_names: Mapping[str, str] = field(repr=False, default_factory=dict)
    """What topology objects call levels beside their keys -> the key."""
    source: str = "the settings"
    """Where the levels come from, for people; "" if there are none."""

    @classmethod
    def of(
        cls,
        nodes: Iterable[Node],
        stated: Sequence[str],
        charts: Iterable[Chart],
        *,
        hosts: bool = False,
    ) -> Topology:
        """The topology with the levels that are stated, else those of topology objects, else those
        of the labels that nodes carry; with ``hosts``, a node by itself is the finest of them."""
        known = list(nodes)
        said = charted(charts, known)
        source, levels = "the settings", tuple(stated)
        if not levels and said.levels:
            source, levels = said.source, _without_hosts(said.levels)
        elif not levels:
            preset, levels = presets.detect([node.labels for node in known])
            source = f"labels of nodes ({preset})" if levels else ""
        if hosts and HOSTNAME not in levels:
            levels = (*levels, HOSTNAME)
        return cls.build(known, levels, said, source)

    @classmethod
    def build(
        cls,
        nodes: Iterable[Node],
        levels: Sequence[str],
        said: Charted = Charted(),  # noqa: B008 - frozen
        source: str = "the settings",
    ) -> Topology:
        """The topology of these nodes. O(nodes x levels), plus the sort of names and domains."""
        ordered = sorted(nodes, key=lambda node: node.name)
        names = tuple(node.name for node in ordered)
        values = [_values(node, levels, said) for node in ordered]
        domains = np.full((len(levels), len(ordered)), -1, dtype=np.int32)
        paths = tuple(_number(values, level, domains[level]) for level in range(len(levels)))
        by_name = dict(zip(names, values, strict=True))
        fabric = Fabric(domains)
        return cls(tuple(levels), names, fabric, paths, by_name, said.names, source)

    @staticmethod
    def detect(nodes: Iterable[Node]) -> tuple[str, ...]:
        """The levels that the nodes' labels are known for, as :func:`presets.detect`."""
        return presets.detect([node.labels for node in nodes])[1]

    def path(self, node_name: str) -> tuple[str | None, ...]:
        """A node's label value at every level, None where it has none; all None if unknown."""
        values = self.values.get(node_name, ("",) * len(self.levels))
        return tuple(value or None for value in values)

    def domain_path(self, level: int, domain: int) -> Path:
        """The label values of a domain, from the broadest level down to its own."""
        return self.paths[level][domain]

    def level_name(self, key: str) -> str:
        """The shortest text that :meth:`resolve` understands as this level, for people."""
        at = self.levels.index(key)
        spellings = (last_word(key), name_of(key))
        return next((text for text in spellings if self.resolve(text) == at), key)

    def doubts(self) -> list[str]:
        """What looks wrong about the levels, for people; nothing most often. O(domains).

        A level that is not spelt as the labels are, or stated below a finer one, does no harm that
        could be seen: gangs are placed as if it were not there.
        """
        if not self.names:
            return []
        empty = [key for key, paths in zip(self.levels, self.paths, strict=True) if not paths]
        if empty:
            return [f"no node has {empty[0]} beside the labels of all broader levels"]
        pairs = zip(self.levels, self.levels[1:], self.paths, self.paths[1:], strict=False)
        return [
            f"{finer} divides no {outer}, and several of these share one: is the broadest first?"
            for outer, finer, above, below in pairs
            if len(below) <= len(above) and 1 < len({path[-1] for path in below}) < len(below)
        ]

    def resolve(self, level_text: str) -> int | None:
        """The level that a text means, or None if it means none or more than one.

        It may be the label key, the key's name after the ``/``, or that name's last word:
        ``cloud.provider.com/topology-rack``, ``topology-rack``, ``rack``. Names that topology
        objects have for a level come after these.
        """
        for spell in (_whole, name_of, last_word):
            found = [at for at, key in enumerate(self.levels) if spell(key) == level_text]
            if found:
                return found[0] if len(found) == 1 else None
        key = self.other_names.get(level_text) or self._tier_within(level_text)
        if not key and level_text in HOST_NAMES:
            key = HOSTNAME
        return self.levels.index(key) if key in self.levels else None

    def _tier_within(self, level_text: str) -> str:
        """The broadest tier that is not above the one that is named: there may be fewer."""
        wanted = _tier(level_text)
        if wanted is None:
            return ""
        tiers = ((key, _tier(key)) for key in self.levels)
        return next((key for key, tier in tiers if tier is not None and tier <= wanted), "")


def _values(node: Node, levels: Sequence[str], said: Charted) -> tuple[str, ...]:
    if not said.labels and HOSTNAME not in levels:
        return tuple([node.labels.get(level, "") for level in levels])
    return tuple([said.label(node, level) or _own_name(node, level) for level in levels])


def _own_name(node: Node, level: str) -> str:
    return node.name if level == HOSTNAME else ""


def _without_hosts(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Objects often end with the hostname; it costs time, and is there when somebody asks."""
    return levels[:-1] if levels[-1] == HOSTNAME else levels


def _number(
    values: Sequence[tuple[str, ...]], level: int, ids: npt.NDArray[np.int32]
) -> tuple[Path, ...]:
    """Give the domains of one level their ids, in the order of their paths."""
    heads = [value[: level + 1] for value in values]
    paths = sorted(head for head in set(heads) if "" not in head)
    number = {path: at for at, path in enumerate(paths)}
    ids[:] = [number.get(head, -1) for head in heads]
    return tuple(paths)


def _tier(text: str) -> int | None:
    number = text.removeprefix(TIER)
    return int(number) if number != text and number.isdecimal() else None


def _whole(key: str) -> str:
    return key
