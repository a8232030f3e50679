"""Which GPUs of a node are taken, from what the agent says and from what pods were told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.core.devices_annotation import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    parse_annotation,
    parse_in_use,
)
from scheduler.core.devices_matrix import NodeDevices


class Told(NamedTuple):
    """The GPUs that a pod was told."""

    gpus: tuple[int, ...]
    """Their indexes at that time."""
    uuids: tuple[str, ...] = ()
    """The same ones by UUID, for pods that take what they are told. Empty where none was known."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds GPUs of a node."""

    count: int
    told: Told | None = None
    exact: bool = False
    """Whether it takes what it was told, whatever anybody else says of it."""
    name: str = ""
    """``namespace/name``."""
    started: float = 0.0
    """As :attr:`scheduler.model.Pod.started`."""


def taken(
    node_annotations: Mapping[str, str], holders: Mapping[str, Holder]
) -> frozenset[int] | None:
    """Indexes of the GPUs in use on a node, as they are now; None where that cannot be told.

    `holders` are all pods that hold GPUs there, by uid: the kubelet forgets pods late, so what the
    annotation says of others does not count. What it says of a holder goes before what that was
    told, unless it takes that. Where it does not come out (a prediction that went wrong, a GPU
    shared by pods, one that the node does not have), nothing is known.
    """
    if not holders:
        return frozenset()
    in_use = parse_in_use(node_annotations.get(IN_USE_KEY, ""))
    if in_use is None:
        return None
    table = parse_annotation(node_annotations.get(TOPOLOGY_KEY, ""))
    found: set[int] = set()
    for uid, holder in holders.items():
        gpus = None if holder.exact and holder.told else in_use.of(uid, holder.name, holder.started)
        if gpus is None and holder.told is not None:
            gpus = indexes_now(table, holder.told)
        if gpus is None or len(set(gpus)) != holder.count or not found.isdisjoint(gpus):
            return None
        found.update(gpus)
    within = table is None or all(0 <= gpu < table.matrix.gpus for gpu in found)
    return frozenset(found) if within else None


def indexes_now(table: NodeDevices | None, told: Told) -> tuple[int, ...] | None:
    """Where the GPUs that a pod was told stand in the node's table now, ascending.

    Drivers number GPUs anew when they are loaded, and when one is gone. None where one of them
    is not there; without UUIDs, the old indexes are taken to hold.
    """
    if not told.uuids:
        return told.gpus
    at = {uuid: index for index, uuid in enumerate(table.uuids)} if table is not None else {}
    found = sorted(at[uuid] for uuid in told.uuids if uuid in at)
    return tuple(found) if len(found) == len(told.uuids) else None
