"""What placing a pod does to the GPUs that are left, by two measures, and the policies on them.

Both ask what the pods of the workload could do with a node, as expected over their kinds:

* *fragments*: thousandths of GPUs that the next pod cannot use there. This is F of Weng et al.,
  USENIX ATC 2023, section 3: all that is free where the pod does not fit, otherwise what is free on
  devices with too little for it.
* *waste*: thousandths that stay unused when the node is filled up with pods of one kind. It looks
  further: one pod may still fit where the CPUs do not reach for the other seven GPUs.

A pod that asks for no GPU has no say: all GPUs are useless to it, whatever is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from scheduler.core.capacity import Ints
from scheduler.simulation.trace.devices import WHOLE, Devices, Share
from scheduler.simulation.trace.sharing import Pick, Seat, first

Floats = npt.NDArray[np.float64]

COVERAGE = 0.95
"""Kinds of pods are looked at, the most frequent first, until they make up this share of all."""

Judge = Callable[[Floats, Floats], Floats]
"""(growth of fragments, growth of waste), both [m] -> cost [m]."""


class Kinds:
    """The kinds of pods that ask for GPUs, with the share of all pods that each makes up."""

    def __init__(self, pods: Iterable[Share], coverage: float = 1.0) -> None:
        """The most frequent kinds that make up ``coverage`` of all pods, one of them with GPUs."""
        counted = Counter((pod.cpu, pod.gpus, pod.milli) for pod in pods)
        least, kept = coverage * counted.total(), Counter[tuple[int, int, int]]()
        for kind, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
            if kept.total() >= least:
                break
            kept[kind] = count
        asking = [kind for kind in kept if kind[1]] or [kind for kind in counted if kind[1]]
        self.cpu, self.gpus, self.milli = (np.array(column) for column in zip(*asking, strict=True))
        self.count: Ints = np.array([counted[kind] for kind in asking])
        self.total = max(1, kept.total())
        self._sizes, self._size_of = np.unique(self.milli, return_inverse=True)

    def measure(self, cpu: Ints, milli: Ints) -> tuple[Ints, Ints]:
        """Fragments and waste of nodes with so much free: [m], [m, d] -> [m], [m].

        Both times ``total``, so that they are exact. O(m (d S + K)) for K kinds of S sizes.
        """
        total = milli.sum(axis=1)
        enough = milli[:, None, :] >= self._sizes[:, None]
        fit = enough.sum(axis=2)[:, self._size_of] >= self.gpus
        fit &= cpu[:, None] >= self.cpu
        small = np.where(enough, 0, milli[:, None, :]).sum(axis=2)[:, self._size_of]
        fragments = np.where(fit, small, total[:, None]) @ self.count
        seats = (milli[:, None, :] // self._sizes[:, None]).sum(axis=2)[:, self._size_of]
        seats = np.minimum(seats // self.gpus, cpu[:, None] // np.maximum(self.cpu, 1))
        waste = total * self.count.sum() - seats @ (self.gpus * self.milli * self.count)
        return fragments, waste


class Costs:
    """The cost of every kind of pod on every node, kept and renewed only where a node changed.

    Room must only shrink: a node that had none for a kind is not looked at again.
    """

    def __init__(self, devices: Devices, kinds: Kinds, judge: Judge) -> None:
        self._devices = devices
        self._kinds = kinds
        self._judge = judge
        self._changed: list[int] = []
        self._known: dict[Share, tuple[Floats, Ints, int]] = {}

    def of(self, pod: Share, rows: Ints) -> tuple[Floats, Ints]:
        """Cost on these nodes, where it must have room, and the device (-1: the tightest)."""
        if pod in self._known:
            costs, devices, seen = self._known[pod]
            stale = np.unique(np.array(self._changed[seen:], dtype=np.int64))
            stale = stale[np.isin(stale, rows)]
        else:
            costs = np.zeros(len(self._devices.names))
            devices, stale = np.full(costs.size, -1, dtype=np.int64), rows
        if stale.size:
            costs[stale], devices[stale] = self._growth(pod, stale)
        self._known[pod] = costs, devices, len(self._changed)
        return costs[rows], devices[rows]

    def changed(self, row: int) -> None:
        """Something was placed on a node."""
        self._changed.append(row)

    def _growth(self, pod: Share, rows: Ints) -> tuple[Floats, Ints]:
        cpu, milli = self._devices.cpu[rows], self._devices.milli[rows]
        before = self._kinds.measure(cpu, milli)
        if not pod.shares:
            after = self._kinds.measure(cpu - pod.cpu, without(milli, pod))
            return self._cost(before, after), np.full(rows.size, -1, dtype=np.int64)
        costs = np.full(rows.size, np.inf)
        devices = np.full(rows.size, -1, dtype=np.int64)
        for device in range(milli.shape[1]):
            at = np.flatnonzero(milli[:, device] >= pod.milli)
            left = milli[at].copy()
            left[:, device] -= pod.milli
            after = self._kinds.measure(cpu[at] - pod.cpu, left)
            found = self._cost((before[0][at], before[1][at]), after)
            better = found < costs[at]
            costs[at[better]], devices[at[better]] = found[better], device
        return costs, devices

    def _cost(self, before: tuple[Ints, Ints], after: tuple[Ints, Ints]) -> Floats:
        total = self._kinds.total
        return self._judge((after[0] - before[0]) / total, (after[1] - before[1]) / total)


def without(milli: Ints, pod: Share) -> Ints:
    """[m, d]: what is left on each node when the pod takes the tightest devices."""
    if not pod.gpus:
        return milli
    order = np.where(milli >= pod.milli, milli, np.iinfo(np.int64).max).argsort(
        axis=1, kind="stable"
    )
    left = milli.copy()
    rows = np.arange(len(milli))[:, None]
    left[rows, order[:, : pod.gpus]] -= pod.milli
    return left


def gradient_descent(devices: Devices, pods: Iterable[Share], rank: Ints) -> Pick:
    """FGD, the policy of Weng et al.: least growth of fragments; ``rank`` breaks ties."""
    return _pick(Costs(devices, Kinds(pods, COVERAGE), lambda fragments, _: rated(fragments)), rank)


def careful(devices: Devices, pods: Iterable[Share], rank: Ints) -> Pick:
    """Muster's policy for shared GPUs: least growth of fragments, rated as FGD does; among equals
    least growth of waste; ``rank`` breaks what ties are left.
    """

    def judge(fragments: Floats, waste: Floats) -> Floats:
        return rated(fragments) * 1e6 + np.round(waste)

    return _pick(Costs(devices, Kinds(pods, COVERAGE), judge), rank)


def rated(growth: Floats) -> Floats:
    """A sigmoid in whole per cents, 0 the best and 100 the worst, as in the simulator of Weng et
    al.: a difference of less than a twentieth of a GPU is none.
    """
    return 100 - np.floor(100 / (1 + np.exp(growth / WHOLE)))


def _pick(costs: Costs, rank: Ints) -> Pick:
    def pick(pod: Share, rows: Ints) -> Seat:
        cost, devices = costs.of(pod, rows)
        row = first(rows, cost, rank)
        device = int(devices[np.searchsorted(rows, row)])
        costs.changed(row)
        return row, device if device >= 0 else None

    return pick
