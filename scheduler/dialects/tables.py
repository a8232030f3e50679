"""Reading keys by a table: key -> the reader of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json
from scheduler.dialects.laying import lay
from scheduler.model import NO_OPTIONS, Options

__all__ = ["ALL", "Table", "one_of", "read_table", "read_values", "replicas"]

Reader = Callable[[object], Any]
"""Gives the value or a Fault."""

Table = Mapping[str, tuple[str, Reader]]
"""Key -> field of Options and the reader of its value. A field of "" is for values that are checked
and mean nothing to Muster, ALL for readers that give Options."""

ALL = "*"


def read_values(
    keys: Json, readers: Mapping[str, Reader], path: str = ""
) -> dict[str, Any] | Fault:
    """What every reader makes of its key, null where there is none; one Fault names all that fail.

    ``path`` is put before each key in the Fault.
    """
    found = {key: read(keys.get(key)) for key, read in readers.items()}
    faults = [
        f"{path}{key}: {answer.reason}"
        for key, answer in found.items()
        if isinstance(answer, Fault)
    ]
    return Fault("; ".join(faults)) if faults else found


def read_table(keys: Json, table: Table, path: str = "") -> Options | Fault:
    """What the keys of the table ask for; keys that are absent ask for nothing."""
    stated = {key: read for key, (_, read) in table.items() if keys.get(key) is not None}
    if not stated:
        return NO_OPTIONS
    found = read_values(keys, stated, path)
    if isinstance(found, Fault):
        return found
    named = {table[key][0]: value for key, value in found.items()}
    laid = named.pop(ALL, NO_OPTIONS)
    named.pop("", None)
    return lay(laid, Options(**named))


def one_of(*words: str) -> Callable[[object], str | Fault]:
    """A reader of one of these words."""

    def read(value: object) -> str | Fault:
        if isinstance(value, str) and value in words:
            return value
        return Fault(f"{quoted(value)} is not one of {', '.join(words)}")

    return read


def replicas(default: int = 1) -> Callable[[object], int | Fault]:
    """A reader of a number of replicas, which may be 0; null is the default."""

    def read(value: object) -> int | Fault:
        if value is None:
            return default
        number = values.whole(value) if type(value) is int else None
        if number is None or number > values.LARGEST_COUNT:
            return Fault(f"{quoted(value)} is not a number of replicas")
        return number

    return read
