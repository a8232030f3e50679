"""Every exception that Muster raises on purpose.

    MusterError
    ├── SettingsError      a setting is unknown or has a value that cannot be used
    ├── DecodeError        bytes that are not the JSON they should be
    ├── ReplayError        a line of a replay file that is not understood (carries the line number)
    ├── ExtenderError      an extender did not answer, or its answer ends the scheduler's cycle
    └── ClusterError       the API server cannot be used (no credentials, no permission, no answer)

An expected "no" (a gang that does not fit, a Binding that is refused) is never an exception; it is
a value with a reason.
"""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "DecodeError",
    "ExtenderError",
    "MusterError",
    "ReplayError",
    "SettingsError",
    "unreadable",
]


class MusterError(Exception):
    """Base of all errors below; its text says what, why and what to do."""


class SettingsError(MusterError):
    """A setting is unknown or its value cannot be used."""


class DecodeError(MusterError):
    """Bytes that are not the JSON object they should be."""


class ReplayError(MusterError):
    """A line of a replay file that is not understood."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a file cannot be read, for people; the caller names the file."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    line = error.object.count(b"\n", 0, error.start) + 1
    return f"line {line} is not UTF-8; save the file as UTF-8 text"


def misread(error: Exception) -> str:
    """What a YAML parser complains of, in one line and with its place."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or not problem:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"


class ExtenderError(MusterError):
    """An extender did not answer, or its answer ends the scheduler's cycle with an error."""


class ClusterError(MusterError):
    """The API server cannot be used."""
