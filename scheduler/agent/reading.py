"""What one look at a node's accelerators, and at who has them, gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.core.devices_matrix import NodeDevices


@dataclass(frozen=True, slots=True)
class Reading:
    """The accelerators of the node."""

    devices: NodeDevices
    ids: Mapping[str, int]
    """What device plugins call each GPU (UUID, PCI address) -> its index."""
    source: str
    """Where it comes from, for people."""
    remarks: tuple[str, ...] = ()
    """What was not as it should be."""


@dataclass(frozen=True, slots=True)
class NoDevices:
    """The node has no accelerator that has links."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """There are accelerators, or might be, but they cannot be read now."""

    reason: str
    """What, why, and what to do."""


class Held(NamedTuple):
    """Devices of one resource that a pod's container has."""

    pod: str
    """The pod's uid, or its ``namespace/name``, by where it was read."""
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotThere:
    """What tells who has which devices cannot be seen from here."""

    reason: str
    """What, and what to do."""
    wanted: bool = False
    """Whether it was asked for, so that this is a mistake."""
