"""On small clusters the placement is the best of all possible ones, in every key."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from placement_oracle import (
    allowed,
    asks,
    brute_force,
    domain_of,
    every_way,
    fabrics,
    members_of,
    objective,
    random_puzzle,
)

from scheduler.core import staged
from scheduler.core.placement import Ask, Fabric, NoRoom, Seats, place

thorough = settings(
    max_examples=300,
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


@settings(max_examples=200)
@given(st.data())
def test_of_all_ways_with_as_few_domains_the_one_that_breaks_up_least_is_chosen(
    data: st.DataObject,
) -> None:
    fabric = data.draw(fabrics())
    ask = replace(data.draw(asks(fabric)), near=None, preferred=None)
    ways = [way for way in every_way(ask.count, ask.fits.tolist()) if allowed(fabric, ask, way)]
    answer = place(fabric, ask)
    if isinstance(answer, NoRoom) or not ask.per_member:
        return
    mine = members_of(answer)
    equal = [way for way in ways if _domains(fabric, way) == _domains(fabric, mine)]
    assert broken_up(fabric, ask, mine) == min(broken_up(fabric, ask, way) for way in equal)


def _domains(fabric: Fabric, way: dict[int, int]) -> list[int]:
    levels = range(fabric.levels)
    return [*(len({domain_of(fabric, at, node) for node in way}) for at in levels), len(way)]


def broken_up(fabric: Fabric, ask: Ask, way: dict[int, int]) -> list[int]:
    """Accelerators that stay free beside members: on their nodes, then in their domains, from the
    finest level up. Those can hold no gang that needs the node or the domain whole any more."""
    left = {
        node: int(ask.free[node]) - ask.per_member * way.get(node, 0)
        for node in range(fabric.nodes)
    }
    harm = [sum(left[node] for node in way)]
    for level in reversed(range(fabric.levels)):
        used = {domain_of(fabric, level, node) for node in way}
        harm.append(sum(left[node] for node in left if domain_of(fabric, level, node) in used))
    return harm


def test_no_way_is_better_in_two_thousand_puzzles(way: str) -> None:
    rng = np.random.default_rng(31)
    placed = sum(check(*random_puzzle(rng)) for _ in range(2000))
    assert placed > 1000
