"""A watch lets Bindings go first, and loses nothing by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.yielding import LONGEST_S, LOOK_S, yielding


class BrokenError(Exception):
    """The connection is gone."""


@dataclass
class Script:
    """A stream whose lines come at given seconds, and times at which Bindings are under way."""

    comes: Sequence[float]
    crowds: Sequence[tuple[float, float]] = ()
    breaks: bool = False
    blind: bool = False
    """Whether it never knows that more has come."""
    now: float = 0.0
    read: int = 0
    told: list[tuple[int, float]] = field(default_factory=list)

    def lines(self) -> Iterator[bytes]:
        for at, comes in enumerate(self.comes):
            self.now = max(self.now, comes)
            self.read = at + 1
            yield str(at).encode()
        if self.breaks:
            raise BrokenError

    def has_more(self) -> bool:
        if self.read == len(self.comes):
            return self.breaks
        return not self.blind and self.comes[self.read] <= self.now

    def crowded(self) -> bool:
        return any(begin <= self.now < end for begin, end in self.crowds)

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def follow(self) -> list[int]:
        for line in yielding(self, self.crowded, lambda: self.now, self.pause):
            self.told.append((int(line), self.now))
        return [number for number, _ in self.told]


def test_without_a_crowd_each_line_is_told_when_it_comes() -> None:
    script = Script([0.0, 0.5, 2.0])
    assert script.follow() == [0, 1, 2]
    assert [at for _, at in script.told] == [0.0, 0.5, 2.0]


def test_lines_wait_until_the_crowd_is_over() -> None:
    script = Script([0.0, 0.1, 0.2, 5.0], crowds=[(0.0, 0.3)])
    assert script.follow() == [0, 1, 2, 3]
    assert all(0.3 <= at <= 0.3 + LOOK_S for _, at in script.told[:3])


def test_no_line_waits_longer_than_it_may() -> None:
    script = Script([0.0, 0.9, 1.9], crowds=[(0.0, 60.0)])
    script.follow()
    assert script.told[0][1] <= LONGEST_S + LOOK_S


def test_a_crowd_that_does_not_end_holds_the_lines_up_only_half_of_the_time() -> None:
    script = Script([0.0] * 500, crowds=[(0.0, 60.0)], blind=True)
    script.follow()
    assert script.told[-1][1] <= LONGEST_S + LOOK_S


def test_a_crowd_soon_after_another_one_has_its_way_too() -> None:
    script = Script([0.0, 0.4], crowds=[(0.0, 0.3), (0.4, 0.6)])
    script.follow()
    assert script.told[1][1] >= 0.6


@pytest.mark.parametrize("crowds", [(), [(0.0, 60.0)]])
def test_what_came_before_the_stream_broke_is_told(crowds: Sequence[tuple[float, float]]) -> None:
    script = Script([0.0, 0.0, 0.0], crowds=crowds, breaks=True)
    with pytest.raises(BrokenError):
        script.follow()
    assert [number for number, _ in script.told] == [0, 1, 2]


def test_a_reader_that_gives_up_half_way_ends_it_without_a_word() -> None:
    found = yielding(Script([0.0, 0.0, 0.0]), lambda: False)
    assert next(found) == b"0"
    found.close()  # type: ignore[attr-defined]


times = st.lists(st.floats(0, 5), max_size=30).map(sorted)
spans = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), max_size=4)


@given(times, spans, st.booleans())
def test_every_line_is_told_once_in_order_and_in_time(
    comes: list[float], crowds: list[tuple[float, float]], blind: bool
) -> None:
    script = Script(comes, crowds, blind=blind)
    assert script.follow() == list(range(len(comes)))
    for (_, told), came in zip(script.told, comes, strict=True):
        assert told - came <= LONGEST_S + LOOK_S + 1e-9
