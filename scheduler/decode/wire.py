"""JSON bytes of nodes and pods, cut down to the fields that are read.

``managedFields``, images and most of the status make up half of a real object; a decoder that
skips them saves a third of the time. An object whose shape is not the expected one is decoded as a
whole instead, and reads the same.

Most changes of a pod are of its status. Of the parts that decide how a pod is read only a digest is
made at first: where it is that of last time, the rest need not be decoded at all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from scheduler.dialects.muster import PREFIX
from scheduler.errors import DecodeError
from scheduler.settings import BIND_ANNOTATIONS

__all__ = ["Digest", "PodGlimpse", "node_json", "pod_glimpse", "pod_json"]

_HINT = PREFIX + "hint"
_UNREAD = (PREFIX + "woken", *(text.partition("=")[0] for text in BIND_ANNOTATIONS))
"""Annotations that Muster writes on pods it knows, and that say nothing to it."""
_RESIZE = b"PodResizePending"
"""Stands among the conditions of a pod whose resize is not granted."""
_ABSENT = Raw(b"")


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
    startTime: Any = None  # noqa: N815
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
    except _UNREADABLE as error:
        raise _no_json(error) from error


def _cut(decoder: msgspec.json.Decoder[_Pod] | msgspec.json.Decoder[_Node], raw: bytes) -> Any:
    try:
        found = decoder.decode(raw)
    except msgspec.ValidationError:
        return _WHOLE.decode(raw)
    as_dict = msgspec.structs.asdict
    status = None if found.status is None else as_dict(found.status)
    return {"metadata": as_dict(found.metadata), "spec": found.spec, "status": status}


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _no_json(error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError("JSON that is nested too deeply")
    return DecodeError(f"not JSON: {error}")


# ── A pod's outermost fields ──────────────────────────────────────────────────────────────────────


class _GlimpsedMetadata(msgspec.Struct, gc=False):
    name: Raw = _ABSENT
    namespace: Raw = _ABSENT
    uid: Raw = _ABSENT
    labels: Raw = _ABSENT
    annotations: dict[str, Raw] | None = None
    ownerReferences: Raw = _ABSENT  # noqa: N815
    creationTimestamp: Raw = _ABSENT  # noqa: N815
    deletionTimestamp: Any = None  # noqa: N815


class _GlimpsedContainer(msgspec.Struct, gc=False):
    name: Raw = _ABSENT
    allocatedResources: Raw = _ABSENT  # noqa: N815
    resources: Raw = _ABSENT


class _GlimpsedStatus(msgspec.Struct, gc=False):
    phase: Any = None
    reason: Any = None
    nominatedNodeName: Any = None  # noqa: N815
    startTime: Any = None  # noqa: N815
    conditions: Raw = _ABSENT
    containerStatuses: list[_GlimpsedContainer] | None = None  # noqa: N815
    initContainerStatuses: list[_GlimpsedContainer] | None = None  # noqa: N815
    allocatedResources: Raw = _ABSENT  # noqa: N815
    resources: Raw = _ABSENT


class _GlimpsedPod(msgspec.Struct, gc=False):
    metadata: _GlimpsedMetadata
    spec: dict[str, Raw] | None = None
    status: _GlimpsedStatus | None = None


_GLIMPSE = msgspec.json.Decoder(_GlimpsedPod)
_NO_STATUS = _GlimpsedStatus()
_ENDS = b"\x00"
"""Stands in no JSON text."""


class Digest(NamedTuple):
    """Equal only where :func:`scheduler.decode.pods.pod` reads all the same, but for what
    :attr:`PodGlimpse.passing` has.

    The hashes are those of this process and have 64 bits: that two states of one pod share one by
    chance is not to be expected in the age of the world.
    """

    parts: int | None
    """Of metadata and spec; None if it is not known."""
    held: int | None
    """Of what a kubelet says of the pod's resources."""


class PodGlimpse(NamedTuple):
    """What a pod's outermost fields tell."""

    digest: Digest
    passing: dict[str, Any]
    """A pod's JSON with nothing but what may change while the digest stays."""


def pod_glimpse(raw: bytes) -> PodGlimpse | None:
    """A pod's outermost fields; None where its shape is another. Raises DecodeError."""
    try:
        return _glimpsed(_GLIMPSE.decode(raw))
    except msgspec.ValidationError:
        return None
    except _UNREADABLE as error:
        raise _no_json(error) from error


def _glimpsed(found: _GlimpsedPod) -> PodGlimpse:
    meta, spec, status = found.metadata, found.spec or {}, found.status or _NO_STATUS
    annotations = meta.annotations or {}
    node, hint = spec.pop("nodeName", None), annotations.pop(_HINT, None)
    for key in _UNREAD:
        annotations.pop(key, None)
    passing = {
        "metadata": {
            "annotations": {} if hint is None else {_HINT: _WHOLE.decode(hint)},
            "deletionTimestamp": meta.deletionTimestamp,
        },
        "spec": {} if node is None else {"nodeName": _WHOLE.decode(node)},
        "status": {
            "phase": status.phase,
            "reason": status.reason,
            "nominatedNodeName": status.nominatedNodeName,
            "startTime": status.startTime,
        },
    }
    parts = _hashed(
        [
            meta.name,
            meta.namespace,
            meta.uid,
            meta.creationTimestamp,
            meta.labels,
            meta.ownerReferences,
            _keys(annotations),
            *annotations.values(),
            _keys(spec),
            *spec.values(),
        ]
    )
    return PodGlimpse(Digest(parts, _hashed(_held(status))), passing)


def _keys(fields: dict[str, Raw]) -> bytes:
    return "\x01".join((str(len(fields)), *fields)).encode("utf-8", "surrogatepass")


def _held(status: _GlimpsedStatus) -> list[bytes | Raw]:
    """What a kubelet says of the room that it has set aside."""
    parts: list[bytes | Raw] = [status.allocatedResources, status.resources]
    for statuses in (status.containerStatuses, status.initContainerStatuses):
        parts.append(b"\x01")
        for one in statuses or ():
            if one.allocatedResources or one.resources:
                parts += (one.name, one.allocatedResources, one.resources)
    if status.conditions and _RESIZE in bytes(status.conditions):
        parts.append(status.conditions)
    return parts


def _hashed(parts: list[bytes | Raw]) -> int | None:
    """A hash of the parts and of where each ends; None if that could not be told."""
    whole = _ENDS.join(parts)
    return hash(whole) if whole.count(_ENDS) == len(parts) - 1 else None
