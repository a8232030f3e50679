"""Nodes that are the same to a placement are exchanged for better linked ones, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import (
    allowed,
    ask_for,
    asks,
    every_way,
    fabric_of,
    fabrics,
    members_of,
    objective,
    random_ask,
    random_cluster,
)

from scheduler.core import linking
from scheduler.core.devices import Worth
from scheduler.core.linking import linked_best
from scheduler.core.placement import Ask, Fabric, Seats, place

FLAT = fabric_of((), (), (), ())
RACKS = fabric_of(("a",), ("a",), ("b",), ("b",))


def chosen(fabric: Fabric, ask: Ask, worth: list[Worth]) -> dict[int, int]:
    seats = place(fabric, ask)
    assert isinstance(seats, Seats)
    return members_of(linked_best(fabric, ask, seats, worth.__getitem__))


def links(*scores: int) -> list[Worth]:
    return [(score, 0, 0) for score in scores]


def test_the_best_linked_of_equal_nodes_is_taken() -> None:
    assert chosen(FLAT, ask_for(1, [1] * 4), links(10, 20, 30, 20)) == {2: 1}
    assert chosen(FLAT, ask_for(2, [1] * 4), links(10, 20, 30, 20)) == {1: 1, 2: 1}


def test_of_equal_links_what_is_left_decides_and_then_the_name() -> None:
    assert chosen(FLAT, ask_for(1, [1] * 4), [(9, 1, 0), (9, 2, 0), (9, 2, 0), (8, 9, 0)]) == {1: 1}


def test_links_move_nobody_to_another_domain_nor_to_a_node_with_more_free() -> None:
    assert chosen(RACKS, ask_for(1, [1] * 4), links(1, 2, 3, 4)) == {1: 1}
    assert chosen(FLAT, ask_for(1, [1, 1, 2, 2]), links(1, 2, 3, 4)) == {1: 1}
    tight = ask_for(1, [1] * 4, free=[1, 2, 2, 2])
    assert chosen(FLAT, tight, links(1, 2, 3, 4)) == {0: 1}


def test_nodes_of_living_members_stay() -> None:
    ask = ask_for(2, [1] * 4, near=[1, 0, 0, 0])
    assert chosen(FLAT, ask, links(1, 1, 1, 2)) == {0: 1, 3: 1}


def test_the_room_to_spare_stays_on_the_last_of_its_nodes() -> None:
    assert chosen(FLAT, ask_for(3, [2] * 4), links(1, 2, 1, 2)) == {1: 2, 3: 1}


def test_nodes_with_more_than_any_node_has_are_left_alone() -> None:
    beyond = ask_for(1, [1] * 4, free=[65, 66, 67, 68])
    assert chosen(FLAT, beyond, links(1, 2, 3, 4)) == {0: 1}
    assert chosen(FLAT, ask_for(1, [1] * 4, free=[64] * 4), links(1, 2, 3, 4)) == {3: 1}


def test_only_so_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "MOST_LOOKS", 2)
    assert chosen(FLAT, ask_for(1, [1] * 4), links(1, 2, 3, 4)) == {2: 1}


def test_nobody_is_looked_at_where_there_is_no_choice() -> None:
    seats = place(FLAT, ask_for(4, [1] * 4))
    assert isinstance(seats, Seats)
    assert linked_best(FLAT, ask_for(4, [1] * 4), seats, lambda row: pytest.fail(str(row))) is seats


@settings(max_examples=300)
@given(st.data())
def test_it_is_as_good_a_placement_with_the_best_links_that_equal_nodes_have(
    data: st.DataObject,
) -> None:
    fabric = data.draw(fabrics())
    ask = data.draw(asks(fabric))
    seats = place(fabric, ask)
    if not isinstance(seats, Seats) or not ask.per_member:
        return
    scores = st.lists(st.integers(0, 3), min_size=fabric.nodes, max_size=fabric.nodes)
    worth = links(*data.draw(scores))

    members = members_of(linked_best(fabric, ask, seats, worth.__getitem__))

    before = members_of(seats)
    assert allowed(fabric, ask, members)
    assert objective(fabric, ask, members)[:-1] == objective(fabric, ask, before)[:-1]
    assert _sum(members, worth) == max(
        _sum(way, worth)
        for way in every_way(ask.count, ask.fits.tolist())
        if allowed(fabric, ask, way) and _profile(fabric, ask, way) == _profile(fabric, ask, before)
    )


def _sum(members: dict[int, int], worth: list[Worth]) -> int:
    return sum(worth[row][0] for row in members)


def _profile(fabric: Fabric, ask: Ask, members: dict[int, int]) -> list[tuple[object, ...]]:
    """How many members are on nodes of each sort; living members' nodes are one each."""
    living = ask.near if ask.near is not None else np.zeros(fabric.nodes)
    return sorted(
        (
            *fabric.domains[:, row].tolist(),
            row if living[row] else -1,
            int(min(ask.fits[row], ask.count)),
            int(ask.free[row]),
            count,
        )
        for row, count in members.items()
    )


def test_large_clusters_are_placed_as_well_as_before() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fabric = random_cluster(rng)
        ask = random_ask(rng, fabric, most=64)
        seats = place(fabric, ask)
        if not isinstance(seats, Seats):
            continue
        worth = rng.integers(0, 9, (fabric.nodes, 3)).tolist()
        members = members_of(linked_best(fabric, ask, seats, lambda row: tuple(worth[row])))  # noqa: B023
        before = members_of(seats)
        assert sum(members.values()) == ask.count
        assert objective(fabric, ask, members)[:-1] == objective(fabric, ask, before)[:-1]
