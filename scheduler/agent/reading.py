"""What one look at a node's accelerators gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
