"""JSON bytes of nodes and pods, cut down to the fields that are read.

``managedFields``, images and most of the status make up half of a real object; a decoder that
skips them saves a third of the time. An object whose shape is not the expected one is decoded as a
whole instead, and reads the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.errors import DecodeError

__all__ = ["node_json", "pod_json"]


class _Metadata(msgspec.Struct, gc=False):
    name: Any = None
    namespace: Any = None
    uid: Any = None
    labels: Any = None
    annotations: Any = None
    ownerReferences: Any = None  # noqa: N815 - as in the API
    creationTimestamp: Any = None  # noqa: N815
    deletionTimestamp: Any = None  # noqa: N815


class _PodStatus(msgspec.Struct, gc=False):
    phase: Any = None
    reason: Any = None
    conditions: Any = None
    nominatedNodeName: Any = None  # noqa: N815
    containerStatuses: Any = None  # noqa: N815
    initContainerStatuses: Any = None  # noqa: N815
    allocatedResources: Any = None  # noqa: N815
    resources: Any = None


class _NodeStatus(msgspec.Struct, gc=False):
    allocatable: Any = None
    capacity: Any = None
    conditions: Any = None


class _Pod(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: Any = None
    status: _PodStatus | None = None


class _Node(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: Any = None
    status: _NodeStatus | None = None


_POD = msgspec.json.Decoder(_Pod)
_NODE = msgspec.json.Decoder(_Node)
_WHOLE = msgspec.json.Decoder()


def pod_json(raw: bytes) -> Any:
    """A pod's JSON with the fields that are read. Raises DecodeError for bytes that are no JSON."""
    return _decoded(_POD, raw)


def node_json(raw: bytes) -> Any:
    """A node's JSON with the fields that are read. Raises DecodeError as :func:`pod_json`."""
    return _decoded(_NODE, raw)


def _decoded(decoder: msgspec.json.Decoder[_Pod] | msgspec.json.Decoder[_Node], raw: bytes) -> Any:
    try:
        return _cut(decoder, raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("JSON that is nested too deeply") from error


def _cut(decoder: msgspec.json.Decoder[_Pod] | msgspec.json.Decoder[_Node], raw: bytes) -> Any:
    try:
        found = decoder.decode(raw)
    except msgspec.ValidationError:
        return _WHOLE.decode(raw)
    as_dict = msgspec.structs.asdict
    status = None if found.status is None else as_dict(found.status)
    return {"metadata": as_dict(found.metadata), "spec": found.spec, "status": status}
