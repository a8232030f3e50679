"""From API JSON to the model, pure and tolerant.

Whatever an object holds, decoding it never raises, except DecodeError for something that is no
object with a name. What cannot be used is named in ``Pod.fault``, ``Node.warnings`` or
``Group.fault``, and harms no other object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler import dialects
from scheduler.decode import wire
from scheduler.decode.nodes import node
from scheduler.decode.pods import moved, pod, resized
from scheduler.model import Chart, Group, Node, Pod

__all__ = ["chart", "group", "node", "node_bytes", "pod", "pod_bytes"]


def group(obj: Mapping[str, Any]) -> Group | None:
    """A PodGroup-like object as a value, or None if it is of no kind that is read."""
    return dialects.group(obj) if isinstance(obj, Mapping) else None


def chart(obj: Mapping[str, Any]) -> Chart | None:
    """A topology object as a value, or None if it is of no kind that is read."""
    return dialects.chart(obj) if isinstance(obj, Mapping) else None


def node_bytes(raw: bytes) -> Node:
    """A node from its JSON. Raises DecodeError if it is no JSON object with a name."""
    return node(wire.node_json(raw))


def pod_bytes(raw: bytes, before: Pod | None = None) -> Pod:
    """A pod from its JSON. Raises DecodeError if it is no JSON object with a name.

    With ``before``, the value that was read of it last, only what has changed is read anew; the
    result is the same.
    """
    glimpse = wire.pod_glimpse(raw)
    if glimpse is None:
        return pod(wire.pod_json(raw))
    digest, passing = glimpse
    if before is None or None in digest or before.digest[:1] != digest[:1]:
        return pod(wire.pod_json(raw), digest)
    if before.digest == digest:
        return moved(before, passing)
    return resized(before, wire.pod_json(raw), digest)
