"""Asks a node's kubelet who has which devices: by the file that it keeps, or by its socket."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from scheduler.agent.checkpoint import read_checkpoint
from scheduler.agent.pod_resources import Import, import_packages, read_pod_resources
from scheduler.agent.reading import Failed, Held, NotThere


class Source(StrEnum):
    """Where it is read."""

    CHECKPOINT = "checkpoint"
    POD_RESOURCES = "pod-resources"
    AUTO = "auto"
    """The file, or the socket where the file cannot be read."""


@dataclass(frozen=True, slots=True)
class Holders:
    """Who has which devices."""

    held: list[Held]
    named: bool
    """Whether pods are known by name, else by uid."""


def read_holders(
    root: Path, source: Source, packages: Import = import_packages
) -> Holders | NotThere | Failed:
    """What the kubelet says; `root` is where the node's ``/var/lib/kubelet`` is."""
    missed: list[NotThere | Failed] = []
    if source is not Source.POD_RESOURCES:
        found = read_checkpoint(root)
        if isinstance(found, list):
            return Holders(found, named=False)
        missed.append(found)
    if source is not Source.CHECKPOINT:
        found = read_pod_resources(root, packages)
        if isinstance(found, list):
            return Holders(found, named=True)
        missed.append(found)
    failed = next((one for one in missed if isinstance(one, Failed)), None)
    reason = "; ".join(one.reason for one in missed)
    return failed or NotThere(reason, wanted=source is not Source.AUTO)
