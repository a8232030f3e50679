"""The hint: what a member is told of its place, as one JSON annotation of at most 4 KB."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from scheduler.core import cliques
from scheduler.core.devices import NOTHING_BESIDE, Affinity, Told
from scheduler.model import Node

KEY = "muster.scheduler/hint"
VERSION = 1
LIMIT = 4096
LONGEST_ID = 320
"""Characters of a generation: a uid, or what stands for one where a pod has none."""
CLIQUE = cliques.KEY
VISIBLE = "muster.scheduler/visible-devices"
"""Annotation with the GPUs that a member may use, where it asks for an exact assignment."""

_NETWORK = ("nics", "levels", "path")
_DROPPED = ((), _NETWORK[:1], _NETWORK[:2], _NETWORK, (*_NETWORK, "gpus", "numa", "uuids"))
"""What is emptied where a hint would be too long, step by step. GPUs go with their UUIDs: indexes
alone would be taken for good."""

SPOT: tuple[tuple[str, str], ...] = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
"""Node labels by which clouds mark machines that may be taken away."""


def make(
    *,
    gang: str,
    generation: str,
    rank: int,
    size: int,
    least: int,
    role: str,
    node: Node,
    levels: Sequence[str],
    path: Sequence[str | None],
    gpus: Sequence[int] | None = None,
    uuids: Sequence[str] = (),
    beside: Affinity = NOTHING_BESIDE,
) -> dict[str, Any]:
    """The hint of one member that is placed on ``node``."""
    return {
        "v": VERSION,
        "gang": gang,
        "id": generation,
        "rank": rank,
        "size": size,
        "min": least,
        "role": role,
        "node": node.name,
        "levels": list(levels),
        "path": list(path),
        "clique": cliques.clique_of(node.labels) or None,
        "gpus": None if gpus is None else list(gpus),
        **({"uuids": list(uuids)} if uuids else {}),
        **{name: list(known) for name, known in beside._asdict().items() if known},
        "spot": is_spot(node),
    }


def text(hint: Mapping[str, Any]) -> str:
    """The annotation's text; what makes it too long is left out, the rank stays."""
    for dropped in _DROPPED:
        kept = {key: ([] if key in dropped else value) for key, value in hint.items()}
        written = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        if len(written.encode()) <= LIMIT:
            return written
    return json.dumps({"v": VERSION, "rank": hint["rank"], "size": hint["size"]})


def read(annotation: str) -> dict[str, Any]:
    """The hint that a pod carries, or {} if it cannot be read or is of a later version."""
    try:
        hint = json.loads(annotation)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(hint, dict) or hint.get("v") != VERSION:
        return {}
    return hint


def rank_of(annotation: str) -> int | None:
    """The rank in a pod's hint, if there is a usable one."""
    rank = read(annotation).get("rank") if annotation else None
    return rank if isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 else None


def generation_of(annotation: str) -> str:
    """The generation in a pod's hint; "" if there is none that can be passed on.

    Pods may come with a hint that somebody made up, and whatever is taken over from it is written
    into those of the other members: no half of a surrogate pair, and nothing long.
    """
    found = read(annotation).get("id") if annotation else None
    usable = isinstance(found, str) and len(found) <= LONGEST_ID and found.isprintable()
    return found if isinstance(found, str) and usable else ""


@lru_cache(maxsize=1 << 14)
def told_of(annotation: str) -> Told | None:
    """The GPUs in a pod's hint, if there are usable ones."""
    found = read(annotation)
    gpus, uuids = found.get("gpus"), found.get("uuids", [])
    if not isinstance(gpus, list) or not all(type(index) is int for index in gpus):
        return None
    if not isinstance(uuids, list) or len(uuids) not in (0, len(gpus)):
        return None
    return Told(tuple(gpus), tuple(uuids)) if all(type(one) is str for one in uuids) else None


def is_spot(node: Node) -> bool:
    """Whether the cloud may take the machine away at short notice."""
    return any(node.labels.get(key) == value for key, value in SPOT)
