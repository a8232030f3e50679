"""Keeps Python's garbage collector from pausing the process while a gang starts."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WHOLE_EVERY_S = 3600.0
"""Seconds after which everything is looked through once more, for cycles that died old."""

_OLDEST = 2


@contextmanager
def short_collections(
    clock: Callable[[], float] = time.monotonic, whole_every_s: float = WHOLE_EVERY_S
) -> Iterator[None]:
    """While the block lasts, objects that outlive a full collection are left out of the next ones.

    A full collection looks at every object there is: 90 ms for 5,000 nodes, during which nothing
    is planned, and the first pods of a large gang are what sets it off. Nodes and pods stay for
    long and hold no cycles, so that looking at what is new is enough. Once an hour a collection
    looks at everything.
    """
    whole_at = clock() + whole_every_s

    def collected(phase: str, info: dict[str, Any]) -> None:
        nonlocal whole_at
        if info["generation"] != _OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif clock() >= whole_at:
            whole_at = clock() + whole_every_s
            gc.unfreeze()

    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
