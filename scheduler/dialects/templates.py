"""What an owner's replicas add up to, and in which phases its controller makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence
from scheduler.dialects.tables import read_values, replicas
from scheduler.model import Options

__all__ = ["Part", "asks_devices", "job_pods", "options"]


class Part(NamedTuple):
    """Pods of one template."""

    least: int
    """How many of them must be there at once."""
    size: int
    later: bool = False
    """Whether they are made only when others run already."""
    devices: bool = True
    """Whether they ask for more than processors and memory."""


def options(parts: Sequence[Part]) -> Options | None:
    """The minimum of all parts, and how many of them exist at first; None if there are none.

    Room is kept for those that come later, as much as the largest of the first ones takes. A later
    part without devices, such as a launcher beside workers with GPUs, would have a whole GPU seat
    kept for it and might so never fit: it is not counted, and joins when it is there.
    """
    first = [part for part in parts if not part.later]
    large = any(part.devices for part in first)
    later = [part for part in parts if part.later and (part.devices or not large)]
    at_first, in_all = (sum(part.least for part in chosen) for chosen in (first, [*first, *later]))
    if not in_all:
        return None
    return Options(
        min_available=in_all,
        size=sum(part.size for part in parts) if _fixed(parts) else None,
        first=at_first if 0 < at_first < in_all else None,
    )


def _fixed(parts: Sequence[Part]) -> bool:
    return all(part.least == part.size for part in parts)


def asks_devices(template: object) -> bool:
    """Whether a pod template asks for an extended resource, such as GPUs."""
    spec = mapping(mapping(template).get("spec"))
    for container in map(mapping, sequence(spec.get("containers"))):
        resources = mapping(container.get("resources"))
        for field in ("requests", "limits"):
            if any("/" in str(name) for name in mapping(resources.get(field))):
                return True
    return False


def job_pods(spec: Json, path: str) -> int | Fault:
    """Pods that a Job of Kubernetes runs at the same time."""
    most = replicas(values.LARGEST_COUNT)
    found = read_values(spec, {"parallelism": replicas(), "completions": most}, path)
    return found if isinstance(found, Fault) else min(found["parallelism"], found["completions"])
