"""A watch that lets the Bindings of a large gang go first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

LONGEST_S = 1.0
"""Longest wait of a line. What waits is mostly what the Bindings' own outcomes say, too."""

LOOK_S = 0.02
"""Between two looks. To be woken for each line would cost what is to be saved."""


class Lines(Protocol):
    """What is read; a Stream is one."""

    def lines(self) -> Iterator[bytes]:
        """Every complete line."""

    def has_more(self) -> bool:
        """Whether something has come that can be read without waiting."""


def yielding(
    stream: Lines,
    crowded: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[bytes]:
    """The lines of a stream in their order; while ``crowded``, they are read and kept.

    They are read all the time, so that the API server never has to wait for its reader, which it
    would shut out. None is kept longer than ``LONGEST_S`` seconds, unless the next has come only in
    part; none is lost when the stream breaks; and after a hold that lasted so long there is none
    for as long again: a crowd that does not end must not make each line wait in its turn.
    """
    kept: list[bytes] = []
    until = next_hold = 0.0

    def may_read_on() -> bool:
        while crowded() and clock() < until:
            if stream.has_more():
                return True
            pause(LOOK_S)
        return False

    try:
        for line in stream.lines():
            if not kept:
                until = clock() + LONGEST_S if clock() >= next_hold else 0.0
            kept.append(line)
            if not may_read_on():
                if until and crowded():
                    next_hold = clock() + LONGEST_S
                yield from _taken(kept)
    except Exception:
        yield from _taken(kept)
        raise
    yield from _taken(kept)


def _taken(kept: list[bytes]) -> Iterator[bytes]:
    taken = kept.copy()
    kept.clear()
    return iter(taken)
