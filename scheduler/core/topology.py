"""The network's levels and domains, read from node labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scheduler.core.fabric import Fabric
from scheduler.model import Node

__all__ = ["PRESETS", "Path", "Topology"]

Path = tuple[str, ...]
"""A domain: the label values from the broadest level down to its own."""

ZONE = "topology.kubernetes.io/zone"

PRESETS: Mapping[str, tuple[str, ...]] = {
    "topograph": tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(7, -1, -1)),
    "topograph before 1.0": tuple(
        f"network.topology.nvidia.com/{level}"
        for level in ("datacenter", "core", "spine", "block", "leaf")
    ),
    "aws": tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in range(1, 5)),
    "gke": tuple(
        f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host")
    ),
    "gke before 1.31": tuple(f"topology.gke.io/{level}" for level in ("cluster", "rack", "host")),
    "oci": tuple(
        f"oci.oraclecloud.com/rdma.{level}"
        for level in ("hpc_island_id", "network_block_id", "local_block_id")
    ),
    "coreweave": ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/leafgroup"),
    "coreweave infiniband": tuple(
        f"ib.coreweave.cloud/{level}" for level in ("fabric", "superpod", "leafgroup")
    ),
    "crusoe": ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"),
}
"""Label keys of known providers, broadest first. Topograph counts its tiers from the node up."""

_GENERIC = ("block", "rack")
"""What the last word of a key may be, broadest first, where no preset is in use."""


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

    @classmethod
    def build(cls, nodes: Iterable[Node], levels: Sequence[str]) -> Topology:
        """The topology of these nodes. O(nodes x levels), plus the sort of names and domains."""
        ordered = sorted(nodes, key=lambda node: node.name)
        names = tuple(node.name for node in ordered)
        values = [_values(node, levels) for node in ordered]
        domains = np.full((len(levels), len(ordered)), -1, dtype=np.int32)
        paths = tuple(_number(values, level, domains[level]) for level in range(len(levels)))
        by_name = dict(zip(names, values, strict=True))
        return cls(tuple(levels), names, Fabric(domains), paths, by_name)

    @staticmethod
    def detect(nodes: Iterable[Node]) -> tuple[str, ...]:
        """The levels in use, broadest first; empty if nodes carry no label that is known.

        The preset on most nodes wins (the first in the table among equals); else any keys that end
        in ``block`` and ``rack``. The zone comes first, if every node that has a level has a zone.
        """
        labels = [node.labels for node in nodes]
        in_use = set().union(*labels)
        levels = _preset(labels, in_use) or _generic(labels, in_use)
        return (ZONE, *levels) if ZONE in in_use and _zoned(labels, levels) else levels

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
        spellings = (_word(key), _name(key))
        return next((text for text in spellings if self.resolve(text) == at), key)

    def resolve(self, level_text: str) -> int | None:
        """The level that a text means, or None if it means none or more than one.

        It may be the label key, the key's name after the ``/``, or that name's last word:
        ``cloud.provider.com/topology-rack``, ``topology-rack``, ``rack``.
        """
        for spell in (_whole, _name, _word):
            found = [at for at, key in enumerate(self.levels) if spell(key) == level_text]
            if found:
                return found[0] if len(found) == 1 else None
        return None


def _values(node: Node, levels: Sequence[str]) -> tuple[str, ...]:
    return tuple([node.labels.get(level, "") for level in levels])


def _number(
    values: Sequence[tuple[str, ...]], level: int, ids: npt.NDArray[np.int32]
) -> tuple[Path, ...]:
    """Give the domains of one level their ids, in the order of their paths."""
    heads = [value[: level + 1] for value in values]
    paths = sorted(head for head in set(heads) if "" not in head)
    number = {path: at for at, path in enumerate(paths)}
    ids[:] = [number.get(head, -1) for head in heads]
    return tuple(paths)


_Labels = Sequence[Mapping[str, str]]


def _preset(labels: _Labels, in_use: set[str]) -> tuple[str, ...]:
    """The keys in use of the preset that most nodes carry."""
    found = [[key for key in preset if key in in_use] for preset in PRESETS.values()]
    best = max(found, key=lambda keys: _nodes_with(labels, keys))
    return tuple(key for key in best if _nodes_with(labels, [key]))


def _generic(labels: _Labels, in_use: set[str]) -> tuple[str, ...]:
    """For each generic word the key that most nodes carry, the first by name among equals."""
    levels = []
    for word in _GENERIC:
        counts = {key: _nodes_with(labels, [key]) for key in in_use if _word(key) == word}
        if any(counts.values()):
            levels.append(min(counts, key=lambda key: (-counts[key], key)))
    return tuple(levels)


def _zoned(labels: _Labels, levels: Sequence[str]) -> bool:
    """Whether the zone can stand above the levels without taking nodes out of them."""
    if not levels:
        return any(one.get(ZONE) for one in labels)
    return all(one.get(ZONE) for one in labels if any(one.get(key) for key in levels))


def _nodes_with(labels: _Labels, keys: Sequence[str]) -> int:
    """How many nodes have a value for one of the keys."""
    return sum(1 for one in labels if any(one.get(key) for key in keys)) if keys else 0


def _whole(key: str) -> str:
    return key


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _word(key: str) -> str:
    """``rack`` of ``cloud.provider.com/topology-rack``; the whole name if it ends in a number."""
    name = _name(key)
    word = re.split(r"[-._]", name)[-1]
    return word if word.isalpha() else name
