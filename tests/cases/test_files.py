"""The most important cases as files: `muster replay tests/cases/c02_shapes.jsonl` shows one.

A line `#= {…}` in a file says what must be printed by then: at least these keys, in this order.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.simulation.replay import replay

FILES = sorted(Path(__file__).parent.glob("*.jsonl"))


def is_part(wanted: Any, printed: Any) -> bool:
    """Whether all that is wanted is there; an empty object wants an empty one."""
    if not isinstance(wanted, dict) or not isinstance(printed, dict) or not wanted:
        return bool(wanted == printed)
    return all(key in printed and is_part(value, printed[key]) for key, value in wanted.items())


def outputs_by_line(lines: list[str]) -> list[tuple[int, Any]]:
    """What is printed, with the number of the last line that had been read by then."""
    read = 0

    def feed() -> Any:
        nonlocal read
        for line in lines:
            read += 1
            yield line

    return [(read, json.loads(text)) for text in replay(feed())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_prints_what_it_promises(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    printed = outputs_by_line(lines)
    promised = [(at, line[3:]) for at, line in enumerate(lines, 1) if line.startswith("#= ")]
    assert promised, "a file without a promise proves nothing"

    at = 0
    for number, text in promised:
        wanted = json.loads(text)
        while at < len(printed) and not is_part(wanted, printed[at][1]):
            at += 1
        assert at < len(printed), f"line {number}: not printed in time: {text}"
        assert printed[at][0] <= number, f"line {number}: printed too late: {text}"
        at += 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_case_prints_the_same_every_time(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    assert list(replay(lines)) == list(replay(lines))
