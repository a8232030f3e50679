"""On small clusters the placement is the best of all possible ones, in every key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from placement_oracle import (
    allowed,
    asks,
    brute_force,
    fabrics,
    members_of,
    objective,
    random_puzzle,
)

from scheduler.core import staged
from scheduler.core.placement import Ask, Fabric, NoRoom, Seats, place

thorough = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=["at once", "level by level"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small clusters are solved in one table, unless prices are to be used from the start."""
    if request.param == "level by level":
        monkeypatch.setattr(staged, "PRICED_FROM", 0)
    return request.param


def check(fabric: Fabric, ask: Ask) -> bool:
    """Compare with all ways there are; say whether there is any."""
    best = brute_force(fabric, ask)
    answer = place(fabric, ask)
    if best is None:
        assert isinstance(answer, NoRoom)
        return False
    assert isinstance(answer, Seats)
    members = members_of(answer)
    assert sum(members.values()) == ask.count
    assert allowed(fabric, ask, members)
    assert objective(fabric, ask, members) == best
    return True


@thorough
@given(st.data())
def test_no_way_to_place_the_members_is_better(way: str, data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    event("placed" if check(fabric, data.draw(asks(fabric))) else "no room")


def test_no_way_is_better_in_two_thousand_puzzles(way: str) -> None:
    rng = np.random.default_rng(31)
    placed = sum(check(*random_puzzle(rng)) for _ in range(2000))
    assert placed > 1000
