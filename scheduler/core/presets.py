"""Node label keys of known providers, and which of them a cluster's nodes carry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["HOSTNAME", "HOST_NAMES", "PRESETS", "ZONE", "Labels", "detect", "last_word", "name_of"]

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
HOST_NAMES = frozenset({HOSTNAME, "hostname", "node", "nodetopology"})
"""What requests call a node as a level; the last one is Koordinator's."""

Labels = Sequence[Mapping[str, str]]
"""The labels of every node."""


def _keys(prefix: str, *names: str | int) -> tuple[str, ...]:
    return tuple(f"{prefix}{name}" for name in names)


PRESETS: Mapping[str, tuple[str, ...]] = {
    "topograph": _keys("fabric.topograph.run/tier-", *range(7, -1, -1)),
    "topograph before 1.0": _keys(
        "network.topology.nvidia.com/", "datacenter", "core", "spine", "block", "leaf"
    ),
    "topograph 0.1": _keys(
        "network.topology.kubernetes.io/", "datacenter", "core", "spine", "block", "leaf"
    ),
    "topograph before 0.1": _keys("topology.kubernetes.io/network-level-", *range(7, 0, -1)),
    "aws": _keys("topology.k8s.aws/network-node-layer-", *range(1, 5)),
    "gke": _keys("cloud.google.com/gce-topology-", "block", "subblock", "host"),
    "gke before 1.31": _keys("topology.gke.io/", "cluster", "rack", "host"),
    "oci": _keys(
        "oci.oraclecloud.com/rdma.", "hpc_island_id", "network_block_id", "local_block_id"
    ),
    "oci without rdma": _keys("oci.oraclecloud.com/host.", "network_block_id", "rack_id"),
    # Nodes with InfiniBand have both; only these tell the superpods apart.
    "coreweave infiniband": _keys("ib.coreweave.cloud/", "fabric", "superpod", "leafgroup"),
    "coreweave": _keys("backend.coreweave.cloud/", "fabric", "leafgroup"),
    "crusoe": _keys("crusoe.ai/", "ib.partition.id", "pod.id"),
    "volcano": _keys("volcano.sh/", "hypercluster", "hypernode", "tor"),
}
"""Broadest first. Topograph counts its tiers and levels from the node up, AWS its layers down."""

_GENERIC = ("block", "rack")
"""What the last word of a key may be, broadest first, where no preset is in use."""


def detect(labels: Labels) -> tuple[str, tuple[str, ...]]:
    """Where the levels come from, for people, and their keys, broadest first; both may be empty.

    The preset on most nodes wins (the first in the table among equals); else any keys that end in
    ``block`` and ``rack``. A broad level that most nodes of the finer ones lack is left out. The
    zone comes first, if every node that has a level has a zone.
    """
    in_use = set().union(*labels)
    name, levels = _preset(labels, in_use)
    if not levels:
        name, levels = "block and rack", _generic(labels, in_use)
    levels = _without_strays(labels, levels)
    if not (ZONE in in_use and _zoned(labels, levels)):
        return (name if levels else ""), levels
    return (name if levels else "zone"), (ZONE, *levels)


def _preset(labels: Labels, in_use: set[str]) -> tuple[str, tuple[str, ...]]:
    """The keys in use of the preset that most nodes carry."""
    found = {name: [key for key in preset if key in in_use] for name, preset in PRESETS.items()}
    best = max(found, key=lambda name: _nodes_with(labels, found[name]))
    return best, tuple(key for key in found[best] if _nodes_with(labels, [key]))


def _generic(labels: Labels, in_use: set[str]) -> tuple[str, ...]:
    """For each generic word the key that most nodes carry, the first by name among equals."""
    levels = []
    for word in _GENERIC:
        counts = {key: _nodes_with(labels, [key]) for key in in_use if last_word(key) == word}
        if any(counts.values()):
            levels.append(min(counts, key=lambda key: (-counts[key], key)))
    return tuple(levels)


def _without_strays(labels: Labels, levels: Sequence[str]) -> tuple[str, ...]:
    """Levels that at least half of the nodes of finer ones have: a label on a few nodes must not
    take all others out of their racks."""
    kept: list[str] = []
    for at, key in enumerate(levels):
        below = [one for one in labels if any(one.get(finer) for finer in levels[at + 1 :])]
        if 2 * _nodes_with(below, [key]) >= len(below):
            kept.append(key)
    return tuple(kept)


def _zoned(labels: Labels, levels: Sequence[str]) -> bool:
    """Whether the zone can stand above the levels without taking nodes out of them."""
    if not levels:
        return any(one.get(ZONE) for one in labels)
    return all(one.get(ZONE) for one in labels if any(one.get(key) for key in levels))


def _nodes_with(labels: Labels, keys: Sequence[str]) -> int:
    """How many nodes have a value for one of the keys."""
    return sum(1 for one in labels if any(one.get(key) for key in keys)) if keys else 0


def name_of(key: str) -> str:
    """What stands after the ``/`` of a label key."""
    return key.rpartition("/")[2]


def last_word(key: str) -> str:
    """``rack`` of ``cloud.provider.com/topology-rack``; the whole name if it ends in a number."""
    name = name_of(key)
    word = re.split(r"[-._]", name)[-1]
    return word if word.isalpha() else name
