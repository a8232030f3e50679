"""How the GPUs of one node are linked with each other, with NUMA nodes and with NICs, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scheduler.core.fabric import IntArray

MOST_GPUS = 64
"""More than any node has; a larger number is a mistake."""

SYS = "SYS"
_WEIGHTS = {SYS: 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50, "PSB": 60, "XGMI": 100}
_SYNONYMS = {"SOC": SYS, "CPU": "NODE"}
"""Words of old drivers."""
_NVLINK = re.compile(r"NV([1-9][0-9]{0,2})")
_NVLINK_WEIGHT = 100
_MOST_NVLINKS = 18


class Link(NamedTuple):
    """How two GPUs are linked, ``first < second``."""

    first: int
    second: int
    word: str
    """As in ``nvidia-smi topo -m``; ``PSB`` for one board, ``XGMI`` for AMD's links."""


class Nic(NamedTuple):
    """A network card, as far as it matters to GPUs."""

    name: str
    numa: int | None
    near: tuple[int, ...]
    """The GPUs that have no nearer card than this one."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """The inside of a node. Hashable; nodes of one make have equal ones."""

    gpus: int
    links: tuple[Link, ...] = ()
    """A pair that is missing counts as ``SYS``."""
    numa: tuple[int | None, ...] = ()
    """NUMA node of each GPU; empty or None where it is not known."""
    nics: tuple[Nic, ...] = ()
    mig: tuple[int, ...] = ()
    """GPUs that are split into instances, which no link joins and which are not given whole."""

    def numa_of(self, gpu: int) -> int | None:
        """The GPU's NUMA node, if known."""
        return self.numa[gpu] if gpu < len(self.numa) else None


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What the agent says of a node."""

    matrix: Matrix
    uuids: tuple[str, ...] = ()
    """By index; may be empty."""


def weight(word: str) -> int:
    """What a link is worth: NVIDIA's weights of the best-effort policy of its device plugin.

    10 SYS, 20 NODE, 30 PHB, 40 PXB, 50 PIX, 60 same board, 100 for each NVLink up to 1800. An XGMI
    link counts as one NVLink, a word that is not known as SYS.
    """
    if found := _NVLINK.fullmatch(word):
        return _NVLINK_WEIGHT * min(int(found[1]), _MOST_NVLINKS)
    return _WEIGHTS.get(word, _WEIGHTS[SYS])


def canonical(word: str) -> str | None:
    """Today's word for a link, or None for what is no such word."""
    word = _SYNONYMS.get(word, word)
    return word if word in _WEIGHTS or _NVLINK.fullmatch(word) else None


def weaker(one: str, other: str) -> str:
    """The link that is worth less; the first of equals."""
    return one if weight(one) <= weight(other) else other


@lru_cache(maxsize=256)
def weights(matrix: Matrix) -> IntArray:
    """int64 [n, n]: `weight` of each pair, 0 on the diagonal. Read-only."""
    found = np.full((matrix.gpus, matrix.gpus), weight(SYS), np.int64)
    for first, second, word in matrix.links:
        found[first, second] = found[second, first] = weight(word)
    np.fill_diagonal(found, 0)
    found.flags.writeable = False
    return found
