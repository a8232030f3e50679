"""Keeps Python's garbage collector from pausing the process while a gang starts."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WHOLE_EVERY_S = 3600.0
"""Seconds after which everything is looked through once more, for cycles that died old."""

MOST_LEFT_OUT = 500_000
"""Objects that are left out until everything is looked through, where that is more than a quarter
of all: what lives for a moment, and in a cycle, may be among them and take memory for nothing. A
gang of 500 leaves some 30,000."""

_OLDEST = 2


@contextmanager
def short_collections(
    clock: Callable[[], float] = time.monotonic, whole_every_s: float = WHOLE_EVERY_S
) -> Iterator[None]:
    """While the block lasts, objects that outlive a full collection are left out of the next ones.

    A full collection looks at every object there is: 90 ms for 5,000 nodes, during which nothing
    is planned, and the first pods of a large gang are what sets it off. Nodes and pods stay for
    long and hold no cycles, so that looking at what is new is enough. Once an hour a collection
    looks at everything, and whenever `MOST_LEFT_OUT` were left out.
    """
    whole_at = clock() + whole_every_s
    whole, found, left_out = True, 0, 0

    def collected(phase: str, info: dict[str, Any]) -> None:
        nonlocal whole, whole_at, found, left_out
        if info["generation"] != _OLDEST:
            return
        if phase == "stop":
            outlived = len(gc.get_objects(generation=_OLDEST))
            found, left_out = (outlived, 0) if whole else (found, left_out + outlived)
            whole = False
            gc.freeze()
        elif clock() >= whole_at or left_out > max(MOST_LEFT_OUT, found // 4):
            whole, whole_at = True, clock() + whole_every_s
            gc.unfreeze()

    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
