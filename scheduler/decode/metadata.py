"""What every object has: name, uid, labels, owner, times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from scheduler.dialects.fields import EMPTY, Json, mapping, sequence, text
from scheduler.errors import DecodeError
from scheduler.model import Owner

__all__ = ["controller", "metadata", "named", "owner", "seconds_since_epoch"]

_LONGEST_TIME = 40
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"


def metadata(obj: object, kind: str) -> Json:
    """The object's metadata, which has a name. Raises DecodeError."""
    if not isinstance(obj, Mapping):
        raise DecodeError(f"{kind}: not a JSON object")
    meta = mapping(obj.get("metadata"))
    if not text(meta.get("name")):
        raise DecodeError(f"{kind}: metadata.name is missing or not a string")
    return meta


def named(meta: Json, field: str, default: str) -> str:
    """A string of the metadata that may not be empty, else the default."""
    return text(meta.get(field)) or default


def owner(meta: Json, labels: Mapping[str, str], annotations: Json) -> Owner | None:
    """The top controller as far as the pod tells: its JobSet, else its controller reference."""
    name = labels.get(_JOBSET_NAME) or text(annotations.get(_JOBSET_NAME))
    uid = labels.get(_JOBSET_UID) or text(annotations.get(_JOBSET_UID))
    if name and uid:
        return Owner("JobSet", name, uid)
    found = controller(meta)
    if not found:
        return None
    return Owner(*(text(found.get(field)) for field in ("kind", "name", "uid")))


def controller(meta: Json) -> Json:
    """The reference to the controller that owns the object; empty if there is none."""
    references = map(mapping, sequence(meta.get("ownerReferences")))
    return next((one for one in references if one.get("controller") is True), EMPTY)


def seconds_since_epoch(value: Any) -> float:
    """An RFC 3339 time in seconds since the epoch; 0.0 for anything else."""
    if not isinstance(value, str) or len(value) > _LONGEST_TIME:
        return 0.0
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
