"""Reading API JSON without trusting its shape: whatever is of the wrong kind counts as absent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Json = Mapping[str, Any]

EMPTY: Json = {}

_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN = 253


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something cannot be used, with the name of the field or key."""

    reason: str


def mapping(value: object) -> Json:
    """``value`` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else EMPTY


def sequence(value: object) -> list[Any]:
    """``value`` if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """``value`` if it is a string, else ``""``."""
    return value if isinstance(value, str) else ""


def strings(value: object) -> dict[str, str]:
    """The entries of a JSON object whose values are strings."""
    if not isinstance(value, dict):
        return {}
    try:
        return msgspec.convert(value, dict[str, str])  # several times the speed of a loop
    except msgspec.ValidationError:
        return {key: item for key, item in value.items() if type(item) is str and type(key) is str}


def is_label_value(value: str) -> bool:
    """Whether ``value`` has the syntax of a label value of 1 to 63 characters."""
    return _LABEL_VALUE.fullmatch(value) is not None


def is_object_name(value: str) -> bool:
    """Whether ``value`` has the syntax of an object's name (a DNS subdomain)."""
    return len(value) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(value) is not None
