"""How a value from outside is shown in a message: short, on one line, always printable."""

from __future__ import annotations

import json

TEXT_LIMIT = 1000
"""Characters of a text for people: what matters comes first."""

CUT = "…"
"""Stands at the end of a text of which more was left out."""

_LONGEST = 60
_WORDS = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}


def bounded(text: str) -> str:
    """The text, cut where it would be longer than ``TEXT_LIMIT`` characters."""
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - len(CUT)] + CUT


def quoted(value: object) -> str:
    """``value`` as JSON text of at most 63 characters; objects and lists only by their kind."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        # An integer of many digits cannot even be printed, so its size is looked at first.
        return repr(value) if -(10**30) < value < 10**30 else "a huge number"
    return _WORDS.get(type(value), "a value of an unknown kind")


def _text(value: str) -> str:
    short = value if len(value) <= _LONGEST else value[:_LONGEST] + CUT
    printable = short.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(printable, ensure_ascii=False)
