"""``muster replay``: a recorded world fed to the engine, its answers and effects printed.

One JSON object a line in and out; docs/replay.md is the format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

from scheduler.errors import DecodeError, ReplayError, SettingsError
from scheduler.settings import Settings
from scheduler.simulation.replay.fields import BadLineError, Json
from scheduler.simulation.replay.session import Session

__all__ = ["replay"]


def replay(
    lines: Iterable[str],
    settings: Settings | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Iterator[str]:
    """The output lines for these input lines.

    ``warn`` is told, with the line number, what is read otherwise than it stands there.

    Raises ReplayError, with the line number, at the first line that is not understood; what came
    before it has been yielded by then.
    """
    session = Session(settings or Settings())
    for number, line in enumerate(lines, 1):
        line = line.removeprefix("\ufeff") if number == 1 else line
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        yield from _guarded(session, number, line)
        for text in session.warnings():
            warn(f"line {number}: {text}")
    yield from _written(session.finish())


def _guarded(session: Session, number: int, line: str) -> Iterator[str]:
    try:
        yield from _written(session.take(_object(line)))
    except (BadLineError, DecodeError, SettingsError) as error:
        raise ReplayError(number, str(error)) from error
    except RecursionError as error:
        raise ReplayError(number, "it is nested too deeply") from error


def _written(items: Iterable[Json]) -> Iterator[str]:
    for item in items:
        yield json.dumps(item, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _object(line: str) -> Json:
    try:
        found = json.loads(line)
        # A lone surrogate is no character: it could be read, but never printed.
        json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadLineError(f"not JSON: {error.msg}, at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"not JSON that can be used: {error}") from error
    if not isinstance(found, dict):
        raise BadLineError("not a JSON object")
    return found
