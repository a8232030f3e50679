"""Scores of all sets of a node's GPUs at once. A set is a bit mask: bit i stands for GPU i."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations

import numpy as np

from scheduler.core.devices_matrix import Matrix, weights
from scheduler.core.fabric import IntArray

MOST_EXACT = 16
"""GPUs up to which all sets are looked at: 65,536 of them."""


@lru_cache(maxsize=1024)
def sets_of(gpus: int, size: int) -> IntArray:
    """All sets of `size` of the first `gpus` GPUs, ascending. Read-only."""
    every = np.arange(1 << gpus, dtype=np.int64)
    return _frozen(every[np.bitwise_count(every) == size])


@lru_cache(maxsize=64)
def scores(matrix: Matrix) -> IntArray:
    """int64 [2^n]: the sum over all pairs in each set of what their link is worth. Read-only.

    Complexity: O(2^n) array elements in O(n^2) operations.
    """
    linked = weights(matrix)
    found = np.zeros(1, np.int64)
    for gpu in range(matrix.gpus):
        found = np.concatenate([found, found + _sums(linked[gpu, :gpu])])
    return _frozen(found)


def partition_score(matrix: Matrix, gpus: int, size: int) -> int:
    """The best that the set `gpus` gives when it is cut into sets of `size` and a smaller rest.

    The score of a partition is the sum of the scores of its sets, the rest's included. Complexity:
    O(C(n, size)) where one whole set fits, else that of `partitions`, once for each matrix.
    """
    count = gpus.bit_count()
    if count <= size:
        return int(scores(matrix)[gpus])
    if size == 1:
        return 0
    if (alike := same_weight(matrix, gpus)) is not None:
        whole, rest = divmod(count, size)
        return alike * (whole * pairs(size) + pairs(rest))
    return _best_cut(matrix, gpus, size)


def same_weight(matrix: Matrix, gpus: int) -> int | None:
    """What every link within the set `gpus` is worth, or None if that differs."""
    inside = list(indexes(gpus))
    linked = weights(matrix)[np.ix_(inside, inside)][np.triu_indices(len(inside), 1)]
    return int(linked[0]) if linked.size and (linked == linked[0]).all() else None


def indexes(gpus: int) -> Iterator[int]:
    """The GPUs of a set, ascending."""
    return (gpu for gpu in range(gpus.bit_length()) if gpus >> gpu & 1)


def pairs(count: int) -> int:
    """Pairs among so many."""
    return count * (count - 1) // 2


def _best_cut(matrix: Matrix, gpus: int, size: int) -> int:
    count = gpus.bit_count()
    table = scores(matrix)
    if count < 2 * size:
        part = _within(gpus, matrix.gpus, size)
        return int((table[part] + table[gpus ^ part]).max())
    if count % size == 0:
        return int(partitions(matrix, size)[gpus])
    part = _within(gpus, matrix.gpus, count % size)
    return int((table[part] + partitions(matrix, size)[gpus ^ part]).max())


def _within(gpus: int, total: int, size: int) -> IntArray:
    """Subsets of `gpus` with `size` members."""
    every = sets_of(total, size)
    found: IntArray = every[every & ~gpus == 0]
    return found


@lru_cache(maxsize=32)
def partitions(matrix: Matrix, size: int) -> IntArray:
    """int64 [2^n]: the best score of each set that can be cut into sets of `size`; else -1.

    Dynamic programming after R. Bellman: the highest GPU shares its set with some `size` - 1
    others, and what remains has been solved before. O(n / size) array operations on at most
    C(n, m) C(m - 1, size - 1) elements, which for 16 GPUs is a million. Read-only.
    """
    best = np.full(1 << matrix.gpus, -1, np.int64)
    best[0] = 0
    for count in range(size, matrix.gpus + 1, size):
        sets = sets_of(matrix.gpus, count)
        first = _with_highest(sets, matrix.gpus, size)
        best[sets] = (scores(matrix)[first] + best[sets[:, None] ^ first]).max(axis=1)
    return _frozen(best)


def _with_highest(sets: IntArray, gpus: int, size: int) -> IntArray:
    """int64 [sets, k]: for each of some sets of equal size, its subsets of `size` that contain its
    highest GPU."""
    members = np.nonzero(sets[:, None] >> np.arange(gpus) & 1)[1].reshape(sets.size, -1)
    bits = np.left_shift(1, members)
    others = np.array(list(combinations(range(members.shape[1] - 1), size - 1)), np.int64)
    found = np.repeat(bits[:, -1:], len(others), axis=1)
    for place in others.T:
        found |= bits[:, place]
    return found


def _sums(values: IntArray) -> IntArray:
    """int64 [2^k]: the sum of each subset of k values."""
    found = np.zeros(1, np.int64)
    for value in values:
        found = np.concatenate([found, found + value])
    return found


def _frozen(array: IntArray) -> IntArray:
    array.flags.writeable = False
    return array
