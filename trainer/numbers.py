"""Numbers that people and controllers write in variables and options: bounded, or refused.

Every number of a text goes through here. Python itself refuses thousands of digits with an error
of its own, takes digits of other scripts that torch does not, and floats that are no numbers.
"""

from __future__ import annotations

import math
import re

SHOWN = 80
"""Characters of a value that a message repeats."""

MOST = 10**15
"""What any number may be at most, far beyond what anything here counts."""

MOST_COUNT = 1_000_000
"""Of pods, ranks, tries. Lists are made of so many."""

MOST_PROCESSES = 4096
"""Of one pod; a system gives out long before a million."""

YEAR_S = 366 * 24 * 3600

_WHOLE = re.compile(r"[+-]?[0-9]{1,16}")


def shown(value: object) -> str:
    """A value as messages repeat it, quoted where it is text; a long one is cut."""
    text = value if isinstance(value, str) else str(value)
    cut = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return repr(cut) if isinstance(value, str) else cut


def is_whole(text: str, least: int = 0, most: int = MOST_COUNT) -> bool:
    """Whether it is a whole number within the bounds."""
    found = text.strip()
    return bool(_WHOLE.fullmatch(found)) and least <= int(found) <= most


def whole(text: str, least: int = 0, most: int = MOST_COUNT) -> int:
    """A whole number. Raises ValueError, saying what is wanted."""
    if not is_whole(text, least, most):
        raise ValueError(f"want a whole number of {least} to {most}")
    return int(text)


def decimal(text: str, least: float = 0, most: float = MOST) -> float:
    """A number that is finite. Raises ValueError, saying what is wanted."""
    wanted = f"want a number of {least:g} to {most:g}"
    try:
        found = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        raise ValueError(wanted) from None
    if not least <= found <= most:
        raise ValueError(wanted)
    return found
