"""How much longer a training step takes when a gang is spread, from measured step times.

The measurements are those published with Sia (Jayaram Subramanya et al., "Sia: Heterogeneity-aware,
goodput-optimized ML-cluster scheduling", SOSP 2023): for six models and several batch sizes the
step time of a placement, on clusters with different networks. They are not part of Muster; point at
a folder with one folder a model, in which are ``placements-CLUSTER.csv`` and
``scalability-CLUSTER.csv``.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scheduler.errors import MusterError

NODE_GPUS = {"aws": 4, "azure": 8, "dgx": 8, "rtx": 8}
"""The clusters, and the GPUs of their nodes."""

Span = tuple[int, int]
"""(GPUs, nodes)"""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times of one cluster."""

    cluster: str
    curves: tuple[dict[Span, float], ...]
    """One for each model and batch size: seconds by span, means over placements of that span."""

    def penalty(self, gpus: int, nodes: int) -> float | None:
        """Step time on so many nodes over that on the fewest; None if it was not measured.

        The geometric mean over models and batch sizes. Where so many nodes were not measured, the
        most that were stand in, so that it is rather too low than too high.
        """
        fewest = -(-gpus // NODE_GPUS[self.cluster])
        if nodes <= fewest:
            return 1.0
        found = [
            math.log(curve[gpus, most] / curve[gpus, fewest])
            for curve in self.curves
            if (gpus, fewest) in curve
            and (most := max((n for g, n in curve if g == gpus and n <= nodes))) > fewest
        ]
        return math.exp(math.fsum(found) / len(found)) if found else None


def read(folder: Path, node_gpus: int) -> list[StepTimes]:
    """The clusters whose nodes have so many GPUs; may be none.

    Raises MusterError naming the file that is missing or cannot be understood.
    """
    models = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not models:
        raise MusterError(f"{folder}: no folder of step times, with one folder a model")
    return [
        StepTimes(cluster, tuple(curve for model in models for curve in _curves(model, cluster)))
        for cluster, gpus in NODE_GPUS.items()
        if gpus == node_gpus
    ]


def told(times: StepTimes, spans: Iterable[Span]) -> dict[str, float]:
    """Penalties of all gangs together; ``known_pct``: gangs whose penalty is known."""
    listed = list(spans)
    known = {span: times.penalty(*span) for span in set(listed)}
    found = [value for span in listed if (value := known[span]) is not None]
    mean = math.fsum(found) / len(found) if found else 1.0
    return {
        "mean": round(mean, 4),
        "worst": round(max(found, default=1.0), 4),
        "known_pct": round(100 * len(found) / len(listed), 1) if listed else 100.0,
    }


def _curves(model: Path, cluster: str) -> list[dict[Span, float]]:
    seen: dict[str, dict[Span, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in ("placements", "scalability"):
        path = model / f"{name}-{cluster}.csv"
        try:
            with path.open(encoding="utf-8") as lines:
                for row in csv.DictReader(lines):
                    seen[row["local_bsz"]][_span(row)].append(float(row["step_time"]))
        except (OSError, KeyError, ValueError, TypeError) as error:
            raise MusterError(f"step times, {path}: {error!r}") from error
    return [{span: sum(of) / len(of) for span, of in curve.items()} for curve in seen.values()]


def _span(row: dict[str, str]) -> Span:
    if "placement" in row:
        return sum(int(digit) for digit in row["placement"]), len(row["placement"])
    return int(row["num_replicas"]), int(row["num_nodes"])
