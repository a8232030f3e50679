"""The size of a job as the environment of its containers states it, in nodes (pods).

``PET_NNODES`` is what torchrun reads: ``N``, or ``min:max`` of an elastic job. ``WORLD_SIZE``
counts processes for the training script and pods for most controllers; which of the two is seen
from ``LOCAL_RANK`` and ``LOCAL_WORLD_SIZE``, which only a process has.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text

__all__ = ["Nodes", "nodes"]


class Nodes(NamedTuple):
    """How many pods a job has: at least, and in all (None: it may grow and shrink)."""

    least: int
    size: int | None


def nodes(spec: Json) -> Nodes | Fault | None:
    """What the pod's environment says; None if nothing there can be known."""
    for env in map(_plain, sequence(spec.get("containers"))):
        found = _of_torchrun(env) or _of_world(env)
        if found is not None:
            return found
    return None


def _plain(container: object) -> dict[str, str]:
    """Variables with a value of their own; one that refers to another is only known later."""
    found = {}
    for variable in map(mapping, sequence(mapping(container).get("env"))):
        name, value = text(variable.get("name")), variable.get("value")
        if name and value is not None and "$(" not in text(value):
            found[name] = text(value) if isinstance(value, str) else quoted(value)
    return found


def _of_torchrun(env: dict[str, str]) -> Nodes | Fault | None:
    stated = env.get("PET_NNODES")
    if stated is None:
        return None
    low, colon, high = stated.partition(":")
    least, most = values.count(low), values.count(high if colon else low)
    if isinstance(least, Fault) or isinstance(most, Fault) or least > most:
        return Fault(f"env PET_NNODES: {quoted(stated)} is not N or min:max")
    return Nodes(least, None if colon else least)


def _of_world(env: dict[str, str]) -> Nodes | Fault | None:
    stated = env.get("WORLD_SIZE")
    if stated is None:
        return None
    size = values.count(stated)
    if isinstance(size, Fault):
        return Fault(f"env WORLD_SIZE: {size.reason}")
    local = values.whole(env.get("LOCAL_WORLD_SIZE"))
    if local is None:
        return None if "LOCAL_RANK" in env else Nodes(size, size)
    pods, rest = divmod(size, local) if local else (0, 1)
    return Nodes(pods, pods) if pods and not rest else None
