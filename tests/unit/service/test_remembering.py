"""Memory with a bound."""

from __future__ import annotations

from scheduler.service.remembering import remember


def test_the_oldest_is_forgotten_and_what_is_put_in_again_is_new() -> None:
    memory: dict[str, int] = {}
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        remember(memory, key, value, 2)

    assert memory == {"a": 3, "c": 4}
