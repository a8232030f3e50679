"""torchrun's own numbers, refused by name where they are none.

torchrun reads them from the command line and from `PET_*`, some as late as in the rendezvous, and
answers a bad one with a traceback. Which options are numbers is asked of its parser, so that one
of a later torch is bounded, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial

from trainer import numbers
from trainer.errors import WorldError

Check = Callable[[str], object]
"""Raises ValueError, saying what is wanted."""

_FLAGS = ("standalone", "module", "no_python", "run_path", "virtual_local_rank")
_RENDEZVOUS = (
    "timeout",
    *(f"{name}_timeout" for name in ("read", "join", "last_call", "close", "heartbeat")),
    "keep_alive_interval",
    "keep_alive_max_attempt",
)


def check_flags(env: Mapping[str, str]) -> None:
    """Flags, whose variables torch reads as soon as it makes its parser. Raises WorldError."""
    for name in map(_variable, _FLAGS):
        _refuse(name, env.get(name), partial(numbers.whole, most=1))


def bound(parser: argparse.ArgumentParser, env: Mapping[str, str]) -> None:
    """Bound the parser's numbers, and check those that are its defaults now.

    Raises WorldError, naming the variable.
    """
    for action in parser._actions:
        check = _check_of(action)
        if check is not None:
            read = action.type if callable(action.type) else str
            action.type = partial(_read, check, read)
            _refuse(_variable(action.dest), env.get(_variable(action.dest)), check)


def _variable(dest: str) -> str:
    return f"PET_{dest.upper()}"


def _refuse(name: str, text: str | None, check: Check) -> None:
    if text is None:
        return
    try:
        check(text)
    except ValueError as error:
        raise WorldError(f"{name}={numbers.shown(text)}: {error}") from None


def _read(check: Check, read: Check, text: str) -> object:
    try:
        check(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{numbers.shown(text)}: {error}") from None
    return read(text)


def _check_of(action: argparse.Action) -> Check | None:
    if action.dest in _BY_NAME:
        return _BY_NAME[action.dest]
    return _BY_TYPE.get(action.type) if isinstance(action.type, type) else None


def _ranks(text: str) -> None:
    if text and not all(numbers.is_whole(part) for part in text.split(",")):
        raise ValueError("want ranks, whole numbers joined by commas")


def _streams(text: str) -> None:
    """`0` to `3`, for all ranks or, as `RANK:0`, for some. torch takes no empty text."""
    for part in text.split(","):
        rank, _, stream = part.rpartition(":")
        if not numbers.is_whole(stream, 0, 3) or not numbers.is_whole(rank or "0"):
            raise ValueError("want 0, 1, 2 or 3, or RANK:0 to RANK:3 joined by commas")


def _rendezvous(text: str) -> None:
    """`key=value` joined by commas, of which some are numbers."""
    for pair in filter(None, map(str.strip, text.split(","))):
        key, _, value = map(str.strip, pair.partition("="))
        if key in _RENDEZVOUS and not numbers.is_whole(value, 0, numbers.YEAR_S):
            said = numbers.shown(value)
            raise ValueError(f"{key} is {said}; want a whole number of 0 to {numbers.YEAR_S}")


_BY_NAME: dict[str, Check] = {
    "local_ranks_filter": _ranks,
    "redirects": _streams,
    "tee": _streams,
    "rdzv_conf": _rendezvous,
    "master_port": partial(numbers.whole, most=65_535),
    "shutdown_timeout": partial(numbers.whole, most=numbers.YEAR_S),
}
_BY_TYPE: dict[type, Check] = {
    int: numbers.whole,
    float: partial(numbers.decimal, most=numbers.YEAR_S),
}
