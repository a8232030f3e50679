"""Makes of nodes, as their GPUs are linked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from scheduler.core.devices import Link, Matrix, Nic, choose


def box(
    gpus: int,
    word: Callable[[int, int], str],
    numa: Iterable[int | None] = (),
    nics: Iterable[Nic] = (),
) -> Matrix:
    """A node where ``word`` says how two GPUs are linked."""
    links = tuple(Link(a, b, word(a, b)) for a, b in combinations(range(gpus), 2))
    return Matrix(gpus, links, tuple(numa), tuple(nics))


def _cube(doubled: set[tuple[int, int]]) -> Callable[[int, int], str]:
    """Two full squares of GPUs whose corners are joined: the hybrid cube mesh."""

    def word(a: int, b: int) -> str:
        if a // 4 != b // 4 and b - a != 4:
            return "SYS"
        return "NV2" if (a, b) in doubled else "NV1"

    return word


ONE_CARD_FOR_TWO = tuple(Nic(f"mlx5_{at}", at // 2, (2 * at, 2 * at + 1)) for at in range(4))

DOUBLED = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs of a V100 board with two NVLinks."""


def dgx1_v100() -> Matrix:
    return box(8, _cube(DOUBLED), (0,) * 4 + (1,) * 4, ONE_CARD_FOR_TWO)


def dgx1_p100() -> Matrix:
    return box(8, _cube(set()), (0,) * 4 + (1,) * 4, ONE_CARD_FOR_TWO)


def nvswitch(gpus: int = 8) -> Matrix:
    half = gpus // 2
    return box(gpus, lambda a, b: "NV18", (0,) * half + (1,) * half)


def dgx_a100() -> Matrix:
    numa = (3, 3, 1, 1, 7, 7, 5, 5)
    nics = [Nic(f"mlx5_{at}", numa[at], (at // 2 * 2, at // 2 * 2 + 1)) for at in range(8)]
    return box(8, lambda a, b: "NV12", numa, nics)


def power9() -> Matrix:
    return box(4, lambda a, b: "NV3" if a // 2 == b // 2 else "SYS", (0, 0, 8, 8))


def bridged() -> Matrix:
    """Four PCIe cards, two bridged pairs that are not neighbours by index."""
    return box(4, lambda a, b: "NV12" if a + b == 3 else "SYS", (0,) * 4)


def pcie() -> Matrix:
    """Two NUMA nodes, two switches on each, two GPUs on each switch."""

    def word(a: int, b: int) -> str:
        return "PIX" if a // 2 == b // 2 else "NODE" if a // 4 == b // 4 else "SYS"

    return box(8, word, (0,) * 4 + (1,) * 4)


def two_hives() -> Matrix:
    return box(8, lambda a, b: "XGMI" if a // 4 == b // 4 else "SYS", (0,) * 4 + (1,) * 4)


def one_after_another(matrix: Matrix, count: int) -> list[tuple[int, ...]]:
    """The GPUs of pods of equal size that come one by one until no more fits."""
    free, given = set(range(matrix.gpus)), []
    while choice := choose(matrix, free, count):
        given.append(choice.gpus)
        free -= set(choice.gpus)
    return given
