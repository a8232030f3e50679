"""Collects what cannot be read while an object is decoded."""

from __future__ import annotations

from scheduler.core.quoting import quoted
from scheduler.dialects.fields import EMPTY, Json

_LONGEST = 900
"""Bytes of a fault."""
_MORE = "; and more"


class Faults:
    """Reasons with the paths they belong to; reading goes on after each."""

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def add(self, path: str, reason: str) -> None:
        """Note that the field at ``path`` cannot be used."""
        self._reasons.append(f"{path}: {reason}")

    def note(self, reason: str) -> None:
        """Note a reason that names its field itself; "" is none."""
        if reason:
            self._reasons.append(reason)

    def joined(self) -> str:
        """All reasons in one line below a kilobyte; "" if there are none."""
        if not self._reasons:
            return ""
        line = "; ".join(self._reasons)
        if len(line) <= _LONGEST // 4:  # four bytes are the most for one character
            return line
        raw = line.encode("utf-8", "replace")
        return line if len(raw) <= _LONGEST else raw[:_LONGEST].decode("utf-8", "ignore") + _MORE

    def object_at(self, value: object, path: str) -> Json:
        """``value`` as a JSON object; null is an empty one, anything else is a fault."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.add(path, f"{quoted(value)} is not an object")
        return EMPTY

    def objects_in(self, parent: Json, field: str, prefix: str) -> list[Json]:
        """The JSON objects of a list field; null is an empty list."""
        value = parent.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            self.add(f"{prefix}{field}", f"{quoted(value)} is not a list")
            return []
        return [
            item if isinstance(item, dict) else self.object_at(item, f"{prefix}{field}[{at}]")
            for at, item in enumerate(value)
        ]

    def texts_at(self, value: object, path: str) -> tuple[str, ...]:
        """A list of strings; null is an empty list."""
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.add(path, "is not a list of strings")
        return ()

    def text_in(self, parent: Json, field: str, path: str) -> str:
        """A string field; null and absence are ""."""
        value = parent.get(field)
        if value is None or isinstance(value, str):
            return value or ""
        self.add(f"{path}.{field}", f"{quoted(value)} is not a string")
        return ""

    def pairs_at(self, value: object, path: str) -> tuple[tuple[str, str], ...]:
        """A JSON object of strings as sorted pairs."""
        found = self.object_at(value, path)
        for key, item in found.items():
            if not isinstance(key, str) or not isinstance(item, str):
                self.add(f"{path}[{quoted(key)}]", f"{quoted(item)} is not a string")
                return ()
        return tuple(sorted(found.items()))
