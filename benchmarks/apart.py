"""Measuring in a process of its own: its memory is its own, and its chatter stays off stdout."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def apart(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a fresh process.

    There, stdout goes to stderr: HiGHS introduces itself, whatever it is told.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context, initializer=os.dup2, initargs=(2, 1)) as pool:
        return pool.submit(function, *args, **kwargs).result()
