"""Readers of the values that declarations are made of; each gives the value or a Fault."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from scheduler.core.quoting import quoted
from scheduler.dialects.fields import Fault, is_label_value, is_object_name, text
from scheduler.model import Communication, Start

LARGEST_COUNT = 1_000_000
"""More members than any cluster can hold."""
LONGEST_DURATION = 366 * 86_400.0
"""A year in seconds; anything longer is a mistake."""

_WHOLE = re.compile(r"0|[1-9][0-9]{0,9}")
_PLAIN_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,9})?")
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{0,9})?(?:ns|us|µs|ms|s|m|h)){1,8}")
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LEVEL = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?"
    r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)


def name(value: object) -> str | Fault:
    """A gang's or role's name: the syntax of a label value, not empty."""
    if isinstance(value, str) and is_label_value(value):
        return value
    return Fault(f"{quoted(value)} is not a name (1 to 63 letters, digits, '-', '_', '.')")


def group_name(value: object) -> str | Fault:
    """The name of a group object or an application, which may be longer than a label value."""
    if isinstance(value, str) and (is_label_value(value) or is_object_name(value)):
        return value
    return Fault(f"{quoted(value)} is not the name of a group")


def namespaced(value: object) -> tuple[str, str] | Fault:
    """``namespace/name``."""
    namespace, _, rest = text(value).partition("/")
    if is_label_value(namespace) and (is_label_value(rest) or is_object_name(rest)):
        return namespace, rest
    return Fault(f"{quoted(value)} is not namespace/name")


def json_value(value: object) -> object | Fault:
    """What a text of JSON says."""
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else _no_json(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _no_json(value)


def _no_json(value: object) -> Fault:
    return Fault(f"{quoted(value)} is not JSON")


def count(value: object) -> int | Fault:
    """A number of members: a whole number from 1 to a million, as text or as a JSON number."""
    number = whole(value)
    if number is not None and 1 <= number <= LARGEST_COUNT:
        return number
    return Fault(f"{quoted(value)} is not a whole number from 1 to {LARGEST_COUNT}")


def whole(value: object) -> int | None:
    """A canonical whole number >= 0 (``7``, not ``007``, ``+7`` or ``7.0``), else None."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is int and value >= 0:
        return value
    return None


def index(value: object) -> int | Fault:
    """A rank index: a canonical whole number from 0."""
    number = whole(value)
    if number is not None and number <= LARGEST_COUNT:
        return number
    return Fault(f"{quoted(value)} is not a whole number from 0 to {LARGEST_COUNT}")


def duration(value: object) -> float | Fault:
    """Seconds, from Go's spelling (``90s``, ``1h30m``) or a plain number of seconds."""
    seconds = _seconds(value)
    if seconds is None:
        return Fault(f"{quoted(value)} is not a duration such as 90s, 10m or 1h30m")
    if not 0 < seconds <= LONGEST_DURATION:
        return Fault(f"{quoted(value)} is not a duration above 0 and up to a year")
    return seconds


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if abs(value) < 10**12 else float("inf")
    if not isinstance(value, str):
        return None
    if _PLAIN_SECONDS.fullmatch(value):
        return float(value)
    if not _DURATION.fullmatch(value):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))


def level(value: object) -> str | Fault:
    """A topology level: its name or a node label key."""
    if isinstance(value, str) and _LEVEL.fullmatch(value):
        return value
    return Fault(f"{quoted(value)} is not the name of a level or a node label key")


def role_minimums(value: object) -> tuple[tuple[str, int], ...] | Fault:
    """A JSON object role -> minimum, sorted by role."""
    example = 'a JSON object of role and minimum such as {"worker": 4}'
    try:
        roles = msgspec.json.decode(value) if isinstance(value, str) else value
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        roles = None
    if not isinstance(roles, Mapping) or not roles:
        return Fault(f"{quoted(value)} is not {example}")
    for role, least in roles.items():
        if isinstance(bad := _role_minimum(role, least), Fault):
            return bad
    return tuple(sorted(roles.items()))


def _role_minimum(role: object, least: object) -> int | Fault:
    if isinstance(fault := name(role), Fault):
        return fault
    number = index(least) if type(least) is int else None
    if number is None or isinstance(number, Fault):
        return Fault(
            f"minimum {quoted(least)} of role {quoted(role)} is not a whole number"
            f" from 0 to {LARGEST_COUNT}"
        )
    return number


def start(value: object) -> Start | Fault:
    """How the gang is put in place."""
    return _STARTS.get(text(value)) or _none_of(value, Start)


def communication(value: object) -> Communication | Fault:
    """How much the members talk to each other."""
    return _COMMUNICATIONS.get(text(value)) or _none_of(value, Communication)


_STARTS = {item.value: item for item in Start}
_COMMUNICATIONS = {item.value: item for item in Communication}


def _none_of(value: object, choices: type[Start] | type[Communication]) -> Fault:
    return Fault(f"{quoted(value)} is not one of {', '.join(choices)}")
