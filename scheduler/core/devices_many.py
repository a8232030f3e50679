"""Nodes with more GPUs than all sets can be tried for: a choice that is good but not proven."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.core.devices_matrix import Matrix, weights

Gpus = tuple[int, ...]


def grow_best(matrix: Matrix, free: Sequence[int], count: int) -> Gpus:
    """From each free GPU the set that grows by the best linked one; of these sets the best.

    Ties go to the set whose rest is linked best, then to the lowest indexes. O(n^2 count).
    """
    grown = sorted({_grown(matrix, free, count, seed) for seed in free})
    return max(grown, key=lambda gpus: (score(matrix, gpus), score(matrix, _without(free, gpus))))


def cut(matrix: Matrix, gpus: Sequence[int], size: int) -> int:
    """Score of a partition into sets of `size` and a rest, each grown from the lowest GPU."""
    total, left = 0, tuple(gpus)
    while left:
        part = _grown(matrix, left, min(size, len(left)), left[0])
        total += score(matrix, part)
        left = _without(left, part)
    return total


def score(matrix: Matrix, gpus: Sequence[int]) -> int:
    """Sum over all pairs of what their link is worth."""
    return int(weights(matrix)[np.ix_(list(gpus), list(gpus))].sum()) // 2


def _grown(matrix: Matrix, free: Sequence[int], count: int, seed: int) -> Gpus:
    linked = weights(matrix)
    gain = np.full(matrix.gpus, -1, np.int64)
    gain[list(free)] = linked[seed, list(free)]
    chosen = [seed]
    gain[seed] = -1
    while len(chosen) < count:
        best = int(gain.argmax())
        chosen.append(best)
        gain = np.where(gain < 0, gain, gain + linked[best])
        gain[best] = -1
    return tuple(sorted(chosen))


def _without(gpus: Sequence[int], taken: Gpus) -> Gpus:
    return tuple(gpu for gpu in gpus if gpu not in taken)
