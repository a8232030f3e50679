"""Alibaba's openb trace: nodes and pods, and how they are made into a load.

The load is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent", USENIX ATC 2023, section 6.1: the pods arrive in random order; pods
are left out at random, or added as copies of pods drawn at random, until what has arrived makes up
a given share of all GPUs. Nothing ends. Only nodes with GPUs take part. What counts is the share of
all GPUs that is allocated.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.errors import MusterError
from scheduler.simulation.trace.devices import WHOLE, Devices, Share

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")

Row = dict[str, str]


def read_nodes(lines: Iterable[str], source: str) -> Devices:
    """Nodes with GPUs. Raises MusterError naming the source, the line and the column."""
    rows = [
        (
            row["sn"],
            _count(row, "gpu", where),
            _count(row, "cpu_milli", where),
            _count(row, "memory_mib", where),
            row["model"],
        )
        for where, row in _rows(lines, source, NODE_COLUMNS)
    ]
    kept = sorted(row for row in rows if row[1])
    if not kept:
        raise MusterError(f"{source}: no node has a GPU")
    names, gpus, cpu, memory, models = zip(*kept, strict=True)
    counts = np.array(gpus)
    free = np.where(np.arange(counts.max()) < counts[:, None], WHOLE, 0).astype(np.int64)
    return Devices(names, np.array(models), np.array(cpu), np.array(memory), free)


def read_pods(lines: Iterable[str], source: str) -> list[Share]:
    """Pods in the order of the file; ``gpu_spec``, if there, is ``MODEL|MODEL``.

    Raises MusterError naming the source, the line and the column.
    """
    found = []
    for where, row in _rows(lines, source, POD_COLUMNS):
        gpus, milli = _count(row, "num_gpu", where), _count(row, "gpu_milli", where)
        if gpus and not (0 < milli <= WHOLE if gpus == 1 else milli == WHOLE):
            raise MusterError(f"{where}: gpu_milli {milli} of {gpus} GPUs is not possible")
        models = frozenset(filter(None, (row.get("gpu_spec") or "").split("|")))
        cpu, memory = _count(row, "cpu_milli", where), _count(row, "memory_mib", where)
        found.append(Share(cpu, memory, gpus, milli if gpus else 0, models))
    if not any(share.gpus for share in found):
        raise MusterError(f"{source}: no pod asks for a GPU")
    return found


def arrivals(pods: Sequence[Share], total: int, load: float, rng: random.Random) -> list[Share]:
    """The pods in the order in which they arrive, ``load`` times ``total`` thousandths of GPUs.

    Pods of the trace come first, shuffled; then the copies. A copy that would exceed the load ends
    it; leaving out ends as soon as the load is not exceeded. Raises MusterError if no pod
    asks for a GPU.
    """
    if not any(pod.total for pod in pods):
        raise MusterError("no pod asks for a GPU, so that no load can be made of them")
    order = list(pods)
    rng.shuffle(order)
    asked, target = sum(pod.total for pod in pods), load * total
    while asked > target:
        asked -= order.pop(rng.randrange(len(order))).total
    while asked < target:
        pod = pods[rng.randrange(len(pods))]
        if asked + pod.total > target:
            break
        asked += pod.total
        order.append(pod)
    return order


def _rows(lines: Iterable[str], source: str, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    reader = csv.DictReader(lines)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise MusterError(f"{source}: the first line has no column {', '.join(missing)}")
    for row in reader:
        yield f"{source}, line {reader.line_num}", row


def _count(row: Row, column: str, where: str) -> int:
    text = row[column] or ""
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise MusterError(f"{where}: {column} is {text!r}, not a whole number")
    return int(text)
