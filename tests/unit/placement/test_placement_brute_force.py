"""On small clusters the placement is the best of all possible ones, in every key."""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st
from placement_oracle import (
    allowed,
    asks,
    brute_force,
    every_way,
    fabrics,
    members_of,
    objective,
)

from scheduler.core.placement import NoRoom, Seats, place


@settings(max_examples=2000, deadline=None)
@given(st.data())
def test_no_way_to_place_the_members_is_better(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    ask = data.draw(asks(fabric))
    best = brute_force(fabric, ask)
    answer = place(fabric, ask)
    event("placed" if best else "no room")
    if best is None:
        assert isinstance(answer, NoRoom)
        return
    assert isinstance(answer, Seats)
    members = members_of(answer)
    assert sum(members.values()) == ask.count
    assert allowed(fabric, ask, members)
    assert objective(fabric, ask, members) == best
