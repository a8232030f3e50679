"""On small clusters the placement is the best of all possible ones, in every key."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from placement_oracle import allowed, asks, brute_force, fabrics, members_of, objective

from scheduler.core import staged
from scheduler.core.placement import NoRoom, Seats, place

thorough = settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=["at once", "level by level"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small clusters are solved in one table, unless prices are to be used from the start."""
    if request.param == "level by level":
        monkeypatch.setattr(staged, "PRICED_FROM", 0)
    return request.param


@thorough
@given(st.data())
def test_no_way_to_place_the_members_is_better(way: str, data: st.DataObject) -> None:
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
