"""Regular expressions that others write: read as Go does, matched in linear time by RE2."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20
"""Bytes that one expression may take."""


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, text: str) -> object:
        """What was found anywhere in the text, or None."""


class PatternError(ValueError):
    """The text is no expression, or is one that takes too much memory."""


@lru_cache(maxsize=1024)
def compiled(text: str) -> Pattern:
    """The expression. Raises PatternError."""
    try:
        pattern: Pattern = re2.compile(text, _OPTIONS)
    except re2.error as error:
        raise PatternError(_said(error)) from error
    return pattern


def _said(error: Exception) -> str:
    words = error.args[0] if error.args else ""
    return words.decode(errors="replace") if isinstance(words, bytes) else str(words)
