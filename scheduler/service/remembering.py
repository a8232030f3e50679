"""Memory with a bound: what was put in first is forgotten first."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(memory: dict[K, V], key: K, value: V, most: int) -> None:
    """Put a value in as the newest, and forget the oldest where there would be over ``most``."""
    memory.pop(key, None)
    while len(memory) >= most:
        del memory[next(iter(memory))]
    memory[key] = value
