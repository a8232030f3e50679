"""What may stand in a line of a replay, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.core.messages import Outcome

Json = dict[str, Any]

RESULTS = {
    "ok": Outcome.OK,
    "conflict": Outcome.CONFLICT,
    "gone": Outcome.GONE,
    "error": Outcome.ERROR,
    "timeout": Outcome.TIMEOUT,
    "lost": Outcome.TIMEOUT,
}
"""How an effect may end, and what the engine is told then; "lost" is carried out all the same."""


class BadLineError(Exception):
    """What is wrong with a line; the caller knows which one it is."""


def text(op: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = op.get(name, default)
    if not isinstance(value, str):
        raise BadLineError(f"{name}: a text is needed, not {value!r}")
    return value


def names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadLineError("nodes: a list of node names is needed")
    return value


def mapping(value: Any) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadLineError("victims: an object of node -> list is needed")
    return value


def objects(value: Any) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadLineError(f"a list of objects is needed, not {value!r}"[:200])
    return value


def named(obj: Json) -> Any:
    meta = field(obj, "metadata")
    return meta.get("name") if isinstance(meta, dict) else None


def result(op: Json) -> str:
    result = text(op, "result")
    if result not in RESULTS:
        raise BadLineError(f"result: {result!r} is not one of {', '.join(RESULTS)}")
    return result


def field(obj: Any, name: str) -> Any:
    """A field of an extender request, however its name is capitalised."""
    if not isinstance(obj, dict):
        return None
    return next((value for key, value in obj.items() if key.lower() == name.lower()), None)


def victims(value: Any) -> list[str]:
    uids = []
    for item in objects(field(value, "Pods") or []):
        meta = item.get("metadata")
        uid = item.get("UID") or (meta.get("uid") if isinstance(meta, dict) else None)
        uids.append(str(uid))
    return uids
