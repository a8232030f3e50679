"""Filling a cluster whose GPUs are shared: pods arrive, and stay where they were put."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.core.capacity import Ints
from scheduler.simulation.trace.devices import Devices, Share

MOST_CPU, MOST_MILLI = 128_000, 8_000
"""The largest node of the trace: what best fit weighs CPUs and GPUs by."""

Seat = tuple[int, int | None]
"""(node, device); no device: where it fits tightest."""

Pick = Callable[[Share, Ints], Seat]
"""(pod, the nodes where it has room, at least one) -> its seat."""


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of one load."""

    curve: tuple[float, ...]
    """Per cent of all GPUs that are allocated, at 0, 1, 2 … per cent arrived."""
    refused: int
    """Pods that found no room."""

    @property
    def at_end(self) -> float:
        """Per cent allocated when all had arrived."""
        return self.curve[-1]


def fill(devices: Devices, pods: Iterable[Share], pick: Pick) -> Filled:
    """Place pods in order; one that finds no room is turned away for good.

    The curve's value at p per cent is the mean over all pods at whose arrival p per cent, rounded,
    had arrived.
    """
    cells: dict[int, list[int]] = {}
    arrived = used = refused = 0
    for pod in pods:
        arrived += pod.total
        rows = np.flatnonzero(devices.fits(pod))
        if rows.size:
            row, device = pick(pod, rows)
            devices.take(row, pod, device)
            used += pod.total
        else:
            refused += 1
        cells.setdefault(round(100 * arrived / devices.total), []).append(used)
    curve, value = [], 0.0
    for per_cent in range(max(cells, default=0) + 1):
        values = cells.get(per_cent)
        value = 100 * sum(values) / len(values) / devices.total if values else value
        curve.append(round(value, 4))
    return Filled(tuple(curve), refused)


def random_fit(devices: Devices, rng: random.Random) -> Pick:
    """Any node, and any device with room."""

    def pick(pod: Share, rows: Ints) -> Seat:
        row = int(rows[rng.randrange(rows.size)])
        if not pod.shares:
            return row, None
        enough = np.flatnonzero(devices.milli[row] >= pod.milli)
        return row, int(enough[rng.randrange(enough.size)])

    return pick


def best_fit(devices: Devices, rank: Ints) -> Pick:
    """Least CPUs and GPUs left, each as a share of the largest node's; ``rank`` breaks ties.

    The BestFit that Weng et al. compare with: scores are whole per cents.
    """

    def pick(pod: Share, rows: Ints) -> Seat:
        cpu = (devices.cpu[rows] - pod.cpu) / MOST_CPU
        milli = (devices.milli[rows].sum(axis=1) - pod.total) / MOST_MILLI
        score = (100 * (1 - 0.5 * cpu - 0.5 * milli)).astype(np.int64)
        return first(rows, -score, rank), None

    return pick


def tightest_fit(devices: Devices, rank: Ints) -> Pick:
    """Least GPUs left on the node, as the live placement has it for whole GPUs, blind to CPUs."""

    def pick(_: Share, rows: Ints) -> Seat:
        return first(rows, devices.milli[rows].sum(axis=1), rank), None

    return pick


def first(rows: Ints, cost: npt.NDArray[np.generic], rank: Ints) -> int:
    """The row of least cost; among equals the one of lowest rank."""
    best = rows[cost <= cost.min()]
    return int(best[rank[best].argmin()])
