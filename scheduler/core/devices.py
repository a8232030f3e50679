"""Which GPUs of a node a pod would best have, by their links and by what is left behind.

With the stock device plugin the kubelet chooses, so this predicts and scores; it forbids nothing.
It matters inside one pod only: two pods do not see each other's GPUs, so no NVLink joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scheduler.core import devices_many as many
from scheduler.core.devices_annotation import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    InUse,
    Unreadable,
    parse_annotation,
    parse_in_use,
    read_in_use,
    read_topology,
    write_in_use,
    write_topology,
)
from scheduler.core.devices_held import Holder, Told, indexes_now, taken
from scheduler.core.devices_matrix import Link, Matrix, Nic, NodeDevices, weight, weights
from scheduler.core.devices_subsets import (
    MOST_EXACT,
    indexes,
    partition_score,
    same_weight,
    scores,
    sets_of,
)
from scheduler.core.fabric import IntArray

__all__ = [
    "IN_USE_KEY",
    "NOTHING_BESIDE",
    "TOPOLOGY_KEY",
    "Affinity",
    "Choice",
    "Holder",
    "InUse",
    "Link",
    "Matrix",
    "Nic",
    "NodeDevices",
    "Told",
    "Unreadable",
    "Worth",
    "affinity",
    "choose",
    "choose_on",
    "indexes_now",
    "parse_annotation",
    "parse_in_use",
    "predict",
    "read_in_use",
    "read_topology",
    "taken",
    "weight",
    "worth",
    "write_in_use",
    "write_topology",
]


class Affinity(NamedTuple):
    """What lies beside some GPUs of a node."""

    numa: tuple[int, ...]
    """Their NUMA nodes, as far as known, ascending."""
    nics: tuple[str, ...]
    """The network cards nearest to them, in the node's order."""


NOTHING_BESIDE = Affinity((), ())

Worth = tuple[int, int, int]
"""More is better, compared from the left."""


@dataclass(frozen=True, slots=True)
class Choice:
    """GPUs for one pod."""

    gpus: tuple[int, ...]
    """Indexes, ascending."""
    score: int
    """Sum over all pairs of what their link is worth (`weight`)."""
    leaves: int
    """The same for the best partition of what stays free into sets of this size and a rest."""
    numa: tuple[int, ...]
    """NUMA nodes of the GPUs, as far as known, ascending."""
    nics: tuple[str, ...]
    """Network cards nearest to the GPUs, in the node's order."""


def choose(matrix: Matrix, free: Iterable[int], count: int) -> Choice | None:
    """The best `count` of the `free` GPUs; None if there are not so many.

    Choices are compared in this order:

    1. the links of the chosen, pair by pair (never whether they are merely connected);
    2. what the rest gives: its best partition into sets of `count`, then all its links together;
    3. fewest NUMA nodes, then fewest free GPUs left on these;
    4. most network cards nearest to one of the chosen;
    5. the lowest indexes.

    GPUs in MIG mode and indexes that do not exist are not chosen. The weights and the idea of the
    partition are those of the best-effort policy of NVIDIA's go-gpuallocator, which looks at the
    partition first. Exact up to 16 GPUs, O(2^n) once for each matrix and O(C(n, count)) for each
    choice; beyond that `devices_many.grow_best`. Results are kept by matrix, so that nodes of one
    make share them.

    >>> pair = Matrix(4, (Link(0, 1, "NV4"), Link(2, 3, "NV4")))
    >>> choose(pair, {0, 2, 3}, 2).gpus
    (2, 3)
    >>> choose(pair, {0, 2, 3}, 1).gpus
    (0,)
    """
    usable = {gpu for gpu in free if 0 <= gpu < matrix.gpus} - set(matrix.mig)
    if not 1 <= count <= len(usable):
        return None
    return _choice(matrix, sum(1 << gpu for gpu in usable), count)


def predict(
    node_annotations: Mapping[str, str], taken: Iterable[int], count: int
) -> tuple[int, ...] | None:
    """Indexes that a pod of `count` GPUs would best have on a node where `taken` are in use.

    None where the node's topology is not published or not readable, or too few are free.
    """
    choice = choose_on(node_annotations, taken, count)
    return choice.gpus if choice else None


def choose_on(
    node_annotations: Mapping[str, str], taken: Iterable[int], count: int
) -> Choice | None:
    """`predict` with its score and affinity."""
    devices = parse_annotation(node_annotations.get(TOPOLOGY_KEY, ""))
    if devices is None:
        return None
    return choose(devices.matrix, set(range(devices.matrix.gpus)).difference(taken), count)


def worth(node_annotations: Mapping[str, str], taken: Iterable[int], count: int) -> Worth | None:
    """How good a node is for a pod of `count` GPUs; to be compared between nodes with as many free.

    First the links among the GPUs that it would best have, then those between them and the free
    ones that stay, which are lost to others, then what these are worth. None as for `predict`.
    """
    devices = parse_annotation(node_annotations.get(TOPOLOGY_KEY, ""))
    if devices is None:
        return None
    free = set(range(devices.matrix.gpus)).difference(taken, devices.matrix.mig)
    if not 1 <= count <= len(free):
        return None
    return _worth(devices.matrix, sum(1 << gpu for gpu in free), count)


def affinity(node_annotations: Mapping[str, str], gpus: Sequence[int]) -> Affinity:
    """NUMA nodes and network cards of GPUs of a node; nothing where that is not published."""
    devices = parse_annotation(node_annotations.get(TOPOLOGY_KEY, ""))
    if devices is None:
        return NOTHING_BESIDE
    return Affinity(_numa(devices.matrix, gpus), _nics(devices.matrix, gpus))


@lru_cache(maxsize=1 << 14)
def _choice(matrix: Matrix, free: int, count: int) -> Choice:
    if matrix.gpus <= MOST_EXACT:
        best = _best(matrix, free, count)
        chosen = tuple(indexes(best))
        score, leaves = int(scores(matrix)[best]), partition_score(matrix, free ^ best, count)
    else:
        usable = tuple(indexes(free))
        chosen = many.grow_best(matrix, usable, count)
        rest = [gpu for gpu in usable if gpu not in chosen]
        score, leaves = many.score(matrix, chosen), many.cut(matrix, rest, count)
    return Choice(chosen, score, leaves, _numa(matrix, chosen), _nics(matrix, chosen))


@lru_cache(maxsize=1 << 14)
def _worth(matrix: Matrix, free: int, count: int) -> Worth:
    choice = _choice(matrix, free, count)
    rest = [gpu for gpu in indexes(free) if gpu not in choice.gpus]
    parted = int(weights(matrix)[np.ix_(choice.gpus, rest)].sum())
    return choice.score, -parted, choice.leaves


def _best(matrix: Matrix, free: int, count: int) -> int:
    """The best set, by one criterion after the other."""
    sets = sets_of(matrix.gpus, count)
    sets = sets[sets & ~free == 0]
    table = scores(matrix)
    sets = _highest(sets, table[sets])
    if sets.size > 1 and same_weight(matrix, free) is None:
        rests = (free ^ sets).tolist()
        sets = _highest(sets, np.array([partition_score(matrix, rest, count) for rest in rests]))
    sets = _highest(sets, table[free ^ sets])
    sets = _packed(matrix, free, sets)
    sets = _highest(sets, _touched(sets, _near(matrix)).sum(axis=1))
    return _first(sets, matrix.gpus)


def _highest(sets: IntArray, values: IntArray) -> IntArray:
    kept: IntArray = sets[values == values.max()]
    return kept


def _packed(matrix: Matrix, free: int, sets: IntArray) -> IntArray:
    """Fewest NUMA nodes, then fewest free GPUs left on these."""
    nodes = _numa_sets(matrix)
    sets = _highest(sets, -_touched(sets, nodes).sum(axis=1))
    left = np.bitwise_count((free ^ sets)[:, None] & nodes).astype(np.int64)
    return _highest(sets, -(left * _touched(sets, nodes)).sum(axis=1))


def _touched(sets: IntArray, groups: IntArray) -> IntArray:
    """int64 [sets, groups]: 1 where they have a GPU in common."""
    touched: IntArray = ((sets[:, None] & groups) != 0).astype(np.int64)
    return touched


def _numa_sets(matrix: Matrix) -> IntArray:
    """The GPUs of each NUMA node; those of unknown ones are as if on one of their own."""
    found: dict[int | None, int] = {}
    for gpu in range(matrix.gpus):
        node = matrix.numa_of(gpu)
        found[node] = found.get(node, 0) | 1 << gpu
    return np.array(list(found.values()), np.int64)


def _near(matrix: Matrix) -> IntArray:
    """The GPUs nearest to each network card."""
    return np.array([sum(1 << gpu for gpu in nic.near) for nic in matrix.nics], np.int64)


def _first(sets: IntArray, gpus: int) -> int:
    """The set whose indexes come first."""
    for gpu in range(gpus):
        having = sets[sets >> gpu & 1 == 1]
        sets = having if having.size else sets
    return int(sets[0])


def _numa(matrix: Matrix, gpus: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({node for gpu in gpus if (node := matrix.numa_of(gpu)) is not None}))


def _nics(matrix: Matrix, gpus: Sequence[int]) -> tuple[str, ...]:
    return tuple(nic.name for nic in matrix.nics if not set(gpus).isdisjoint(nic.near))
