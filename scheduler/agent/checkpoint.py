"""Who has which devices, from the file in which the kubelet keeps that over its restarts.

``/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint`` is JSON that names pod uid, resource
and device ids. It needs no socket and no gRPC. The kubelet writes it whenever it gives devices, and
drops pods that are gone only then, so it may name pods of the past.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scheduler.agent.reading import Failed, Held, NotThere

FILE = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
LONGEST = 1 << 24
"""Bytes; a pod takes a few hundred."""


def read_checkpoint(root: Path) -> list[Held] | NotThere | Failed:
    """All that the kubelet has given, by pod uid; `root` is where its ``/var/lib/kubelet`` is."""
    file = root / FILE
    try:
        with file.open("rb") as opened:
            text = opened.read(LONGEST + 1)
    except FileNotFoundError:
        return NotThere(
            f"there is no {file}; mount the node's /var/lib/kubelet/device-plugins below --root"
        )
    except OSError as error:
        return Failed(f"{file} cannot be read: {error}")
    if len(text) > LONGEST:
        return Failed(f"{file} has more than {LONGEST} bytes, which no kubelet writes")
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
