"""Who has which devices, from the file in which the kubelet keeps that over its restarts.

``/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint`` is JSON that names pod uid, resource
and device ids. It needs no socket and no gRPC. The kubelet writes it whenever it gives devices, and
drops pods that are gone only then, so it may name pods of the past.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.agent.reading import Failed

FILE = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


class Held(NamedTuple):
    """Devices of one resource that a pod's container has."""

    pod: str
    """The pod's uid."""
    resource: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoCheckpoint:
    """The file cannot be seen from here."""

    reason: str


def read_checkpoint(root: Path) -> list[Held] | NoCheckpoint | Failed:
    """All that the kubelet has given. `root` is where the node's ``/var/lib/kubelet`` is."""
    file = root / FILE
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return NoCheckpoint(
            f"there is no {file}, so GPUs in use are not published; mount the node's "
            "/var/lib/kubelet/device-plugins below --root"
        )
    except (OSError, UnicodeDecodeError) as error:
        return Failed(f"{file} cannot be read: {error}")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Failed(f"{file} is no JSON: {str(error)[:200]}")
    return list(_held(raw))


def _held(raw: Any) -> Iterator[Held]:
    data = _field(raw, "Data")
    entries = _field(data, "PodDeviceEntries")
    for entry in entries if isinstance(entries, list) else ():
        pod, resource = _field(entry, "PodUID"), _field(entry, "ResourceName")
        if isinstance(pod, str) and pod and isinstance(resource, str):
            yield Held(pod, resource, tuple(_ids(_field(entry, "DeviceIDs"))))


def _ids(raw: Any) -> Iterator[str]:
    """A list, or since Kubernetes 1.20 an object NUMA node -> list."""
    lists = raw.values() if isinstance(raw, dict) else (raw,)
    for ids in lists:
        if isinstance(ids, list):
            yield from (one for one in ids if isinstance(one, str))


def _field(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else None
