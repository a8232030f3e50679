"""JSON bytes of nodes and pods, cut down to the fields that are read.

``managedFields``, images and most of the status make up half of a real object; a decoder that
skips them saves a third of the time. An object whose shape is not the expected one is decoded as a
whole instead, and reads the same.

Most changes of a pod are of its status. Of a pod's parts that decide how it is read, only a digest
is made at first: where it is that of last time, the rest need not be decoded at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from scheduler.dialects.muster import PREFIX
from scheduler.errors import DecodeError

__all__ = ["PodGlimpse", "node_json", "pod_glimpse", "pod_json", "whole"]

_DIGEST_BYTES = 16
_PASSING = frozenset({PREFIX + "hint", PREFIX + "woken"})
"""Annotations that Muster itself writes on pods that it knows."""
_RESIZE = b"PodResizePending"
"""Stands among the conditions of a pod whose resize is not granted."""

_ABSENT = Raw(b"")
_Fields = Mapping[str, Raw]


class _Metadata(msgspec.Struct, gc=False):
    name: Any = None
    namespace: Any = None
    uid: Any = None
    labels: Any = None
    annotations: Any = None
    ownerReferences: Any = None  # noqa: N815 - as in the API
    creationTimestamp: Any = None  # noqa: N815
    deletionTimestamp: Any = None  # noqa: N815


class _NodeStatus(msgspec.Struct, gc=False):
    allocatable: Any = None
    capacity: Any = None
    conditions: Any = None


class _Node(msgspec.Struct, gc=False):
    metadata: _Metadata
    spec: Any = None
    status: _NodeStatus | None = None


class _PodMetadata(msgspec.Struct, gc=False):
    name: Raw = _ABSENT
    namespace: Raw = _ABSENT
    uid: Raw = _ABSENT
    labels: Raw = _ABSENT
    annotations: dict[str, Raw] | None = None
    ownerReferences: Raw = _ABSENT  # noqa: N815
    creationTimestamp: Raw = _ABSENT  # noqa: N815
    deletionTimestamp: Any = None  # noqa: N815


class _Container(msgspec.Struct, gc=False):
    name: Raw = _ABSENT
    allocatedResources: Raw = _ABSENT  # noqa: N815
    resources: Raw = _ABSENT


class _PodStatus(msgspec.Struct, gc=False):
    phase: Any = None
    reason: Any = None
    nominatedNodeName: Any = None  # noqa: N815
    conditions: Raw = _ABSENT
    containerStatuses: list[_Container] | None = None  # noqa: N815
    initContainerStatuses: list[_Container] | None = None  # noqa: N815
    allocatedResources: Raw = _ABSENT  # noqa: N815
    resources: Raw = _ABSENT


class _Pod(msgspec.Struct, gc=False):
    metadata: _PodMetadata
    spec: dict[str, Raw] | None = None
    status: _PodStatus | None = None


_POD = msgspec.json.Decoder(_Pod)
_NODE = msgspec.json.Decoder(_Node)
_WHOLE = msgspec.json.Decoder()


class Digest(NamedTuple):
    """Equal only where :func:`scheduler.decode.pods.pod` reads all the same, but for what
    :meth:`PodGlimpse.passing` has."""

    parts: bytes
    """Of metadata and spec; "" if it is not known."""
    held: bytes
    """Of what a kubelet says of the pod's resources."""


class PodGlimpse:
    """A pod's JSON with only its outermost fields decoded."""

    __slots__ = ("_meta", "_spec", "_status", "digest")

    def __init__(self, found: _Pod) -> None:
        self._meta = found.metadata
        self._spec = found.spec or {}
        self._status = found.status or _NO_STATUS
        self.digest = Digest(_digest(self._deciding()), _digest(self._held()))

    def passing(self) -> dict[str, Any]:
        """A pod's JSON with nothing but what may change while the digest stays."""
        annotations = self._meta.annotations or {}
        written = {key: annotations[key] for key in _PASSING if key in annotations}
        node = self._spec.get("nodeName")
        status = self._status
        return {
            "metadata": {
                "annotations": _decoded_each(written),
                "deletionTimestamp": self._meta.deletionTimestamp,
            },
            "spec": {} if node is None else {"nodeName": _WHOLE.decode(node)},
            "status": {
                "phase": status.phase,
                "reason": status.reason,
                "nominatedNodeName": status.nominatedNodeName,
            },
        }

    def whole(self) -> dict[str, Any]:
        """The pod's JSON with all fields that are read. Raises msgspec.DecodeError."""
        meta, status = self._meta, self._status
        return {
            "metadata": {
                "name": _decoded(meta.name),
                "namespace": _decoded(meta.namespace),
                "uid": _decoded(meta.uid),
                "labels": _decoded(meta.labels),
                "annotations": _decoded_each(meta.annotations or {}),
                "ownerReferences": _decoded(meta.ownerReferences),
                "creationTimestamp": _decoded(meta.creationTimestamp),
                "deletionTimestamp": meta.deletionTimestamp,
            },
            "spec": _decoded_each(self._spec),
            "status": {
                "phase": status.phase,
                "reason": status.reason,
                "nominatedNodeName": status.nominatedNodeName,
                "conditions": _decoded(status.conditions),
                "containerStatuses": _containers(status.containerStatuses),
                "initContainerStatuses": _containers(status.initContainerStatuses),
                "allocatedResources": _decoded(status.allocatedResources),
                "resources": _decoded(status.resources),
            },
        }

    def _deciding(self) -> list[bytes | Raw]:
        """Everything that decides how the pod is read, but for what passes and what is held."""
        meta = self._meta
        parts: list[bytes | Raw] = [
            meta.name,
            meta.namespace,
            meta.uid,
            meta.creationTimestamp,
            meta.labels,
            meta.ownerReferences,
        ]
        _add_fields(parts, meta.annotations or {}, _PASSING)
        _add_fields(parts, self._spec, _NODE_NAME)
        return parts

    def _held(self) -> list[bytes | Raw]:
        """What a kubelet says of the room that it has set aside."""
        status = self._status
        parts: list[bytes | Raw] = [status.allocatedResources, status.resources]
        _add_statuses(parts, status.containerStatuses)
        _add_statuses(parts, status.initContainerStatuses)
        if _RESIZE in bytes(status.conditions):
            parts.append(status.conditions)
        return parts


_NO_STATUS = _PodStatus()
_NODE_NAME = frozenset({"nodeName"})
_OPENS = b"\x01"
_ENDS = b"\x00"
"""Bytes that stand in no JSON text."""


def _add_fields(parts: list[bytes | Raw], fields: _Fields, left_out: frozenset[str]) -> None:
    parts.append(_OPENS)
    for key, value in fields.items():
        if key not in left_out:
            parts += (key.encode("utf-8", "surrogatepass"), value)


def _add_statuses(parts: list[bytes | Raw], statuses: list[_Container] | None) -> None:
    parts.append(_OPENS)
    for one in statuses or ():
        if one.allocatedResources or one.resources:
            parts += (one.name, one.allocatedResources, one.resources)


def _digest(parts: list[bytes | Raw]) -> bytes:
    """A digest of the parts and of where each ends; "" if that could not be told."""
    whole = _ENDS.join(parts)
    if whole.count(_ENDS) != len(parts) - 1:
        return b""
    return blake2b(whole, digest_size=_DIGEST_BYTES).digest()


def _decoded(raw: Raw) -> Any:
    return _WHOLE.decode(raw) if raw else None


def _decoded_each(fields: _Fields) -> dict[str, Any]:
    return {key: _WHOLE.decode(value) for key, value in fields.items()}


def _containers(statuses: list[_Container] | None) -> list[dict[str, Any]] | None:
    if statuses is None:
        return None
    return [
        {
            "name": _decoded(one.name),
            "allocatedResources": _decoded(one.allocatedResources),
            "resources": _decoded(one.resources),
        }
        for one in statuses
    ]


def pod_glimpse(raw: bytes) -> PodGlimpse | None:
    """A pod's outermost fields; None where its shape is another. Raises DecodeError."""
    with _errors_translated():
        try:
            return PodGlimpse(_POD.decode(raw))
        except msgspec.ValidationError:
            return None


def pod_json(raw: bytes) -> Any:
    """A pod's JSON with the fields that are read. Raises DecodeError for bytes that are no JSON."""
    glimpse = pod_glimpse(raw)
    if glimpse is not None:
        return whole(glimpse)
    with _errors_translated():
        return _WHOLE.decode(raw)


def whole(glimpse: PodGlimpse) -> dict[str, Any]:
    """All fields that are read of a pod. Raises DecodeError."""
    with _errors_translated():
        return glimpse.whole()


def node_json(raw: bytes) -> Any:
    """A node's JSON with the fields that are read. Raises DecodeError as :func:`pod_json`."""
    with _errors_translated():
        try:
            found = _NODE.decode(raw)
        except msgspec.ValidationError:
            return _WHOLE.decode(raw)
        as_dict = msgspec.structs.asdict
        status = None if found.status is None else as_dict(found.status)
        return {"metadata": as_dict(found.metadata), "spec": found.spec, "status": status}


@contextmanager
def _errors_translated() -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("JSON that is nested too deeply") from error
