"""What the tests of all dialects ask: a pod's declaration, an object's terms."""

from __future__ import annotations

from typing import Any

from scheduler import decode
from scheduler.model import Declaration, Group, Options, Pod

Json = dict[str, Any]


def read(pod: Json) -> Pod:
    """The pod, whatever it declares."""
    return decode.pod(pod)


def declared(pod: Json) -> Declaration:
    """The declaration of a pod without faults."""
    found = decode.pod(pod)
    assert found.fault == ""
    assert found.declaration is not None
    return found.declaration


def fault(pod: Json) -> str:
    """Why a pod is faulty; it must be."""
    found = decode.pod(pod)
    assert found.fault, found.declaration
    return found.fault


def group(obj: Json) -> Group:
    """A group object as a value."""
    found = decode.group(obj)
    assert found is not None
    return found


def terms(obj: Json) -> Options:
    """What a group object without faults says."""
    found = group(obj)
    assert found.fault == ""
    assert found.gang
    return found.options


def labelled(pod: Json, keys: Json) -> Json:
    """The pod with labels added; ``None`` takes one away."""
    return _changed(pod, "labels", keys)


def annotated(pod: Json, keys: Json) -> Json:
    """The pod with annotations added, by their whole keys."""
    return _changed(pod, "annotations", keys)


def _changed(pod: Json, field: str, keys: Json) -> Json:
    before = pod["metadata"][field]
    after = {key: value for key, value in {**before, **keys}.items() if value is not None}
    return pod | {"metadata": pod["metadata"] | {field: after}}
