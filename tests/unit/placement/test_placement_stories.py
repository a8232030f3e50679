"""What a person expects of a placement, told one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import ask_for, asks, fabric_of, fabrics, members_of

from scheduler.core.placement import Ask, Fabric, NoRoom, Seats, place

TWO_RACKS = fabric_of(("b1", "r1"), ("b1", "r1"), ("b1", "r2"), ("b1", "r2"))
TWO_BLOCKS = fabric_of(("b1", "r1"), ("b1", "r2"), ("b2", "r3"), ("b2", "r3"), ("b2", "r4"))
NO_TOPOLOGY = fabric_of((), (), ())


def seats(fabric: Fabric, ask: Ask) -> dict[int, int]:
    """Node -> members on it."""
    answer = place(fabric, ask)
    assert isinstance(answer, Seats), answer
    return members_of(answer)


# ── Close together ────────────────────────────────────────────────────────────────────────────────


def test_a_gang_that_fits_in_one_rack_is_not_spread_over_two() -> None:
    assert seats(TWO_RACKS, ask_for(4, [1, 2, 2, 2])) == {2: 2, 3: 2}


def test_two_racks_of_one_block_beat_one_rack_each_of_two_blocks() -> None:
    ask = ask_for(3, [0, 2, 2, 0, 1])
    assert seats(TWO_BLOCKS, ask) == {2: 2, 4: 1}


def test_among_equal_domains_fewer_nodes_are_used() -> None:
    assert seats(TWO_RACKS, ask_for(2, [1, 1, 2, 0])) == {2: 2}


def test_without_levels_only_nodes_count() -> None:
    assert seats(NO_TOPOLOGY, ask_for(3, [1, 2, 3])) == {2: 3}


def test_domains_are_counted_per_level_and_then_nodes() -> None:
    answer = place(TWO_BLOCKS, ask_for(7, [1, 1, 2, 2, 1]))
    assert isinstance(answer, Seats)
    assert answer.domains == (2, 4, 5)


def test_seats_come_in_topology_order_whatever_the_nodes_are_called() -> None:
    fabric = fabric_of(("b2",), ("b1",), (None,), ("b1",))
    answer = place(fabric, ask_for(4, [1, 1, 1, 1]))
    assert isinstance(answer, Seats)
    assert answer.rows.tolist() == [1, 3, 0, 2]


# ── Little broken ─────────────────────────────────────────────────────────────────────────────────


def test_a_small_job_takes_the_node_that_is_broken_already() -> None:
    assert seats(NO_TOPOLOGY, ask_for(2, [8, 3, 8])) == {1: 2}


def test_a_small_job_takes_the_rack_that_is_broken_already() -> None:
    ask = ask_for(1, [2, 2, 2, 1], free=[2, 2, 2, 1])
    assert seats(TWO_RACKS, ask) == {3: 1}
    ask = ask_for(1, [2, 2, 2, 0], free=[2, 2, 2, 0])
    assert seats(TWO_RACKS, ask) == {2: 1}


def test_free_accelerators_count_where_members_do_not_fit_for_lack_of_memory() -> None:
    ask = ask_for(1, [1, 0, 1, 0], free=[4, 8, 4, 0])
    assert seats(TWO_RACKS, ask) == {2: 1}


def test_ties_go_to_the_first_names() -> None:
    assert seats(TWO_RACKS, ask_for(2, [1, 1, 1, 1])) == {0: 1, 1: 1}
    assert seats(NO_TOPOLOGY, ask_for(1, [2, 2, 2])) == {0: 1}


def test_room_to_spare_stays_in_one_piece_on_the_node_that_has_most_left() -> None:
    ask = ask_for(7, [4, 4], free=[10, 9], per_member=2)
    assert seats(fabric_of((), ()), ask) == {0: 3, 1: 4}


def test_room_to_spare_stays_on_the_last_of_equal_nodes() -> None:
    assert seats(NO_TOPOLOGY, ask_for(10, [4, 4, 4])) == {0: 4, 1: 4, 2: 2}


@settings(max_examples=150)
@given(st.data())
def test_all_nodes_but_one_are_filled(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    ask = data.draw(asks(fabric))
    answer = place(fabric, ask)
    if isinstance(answer, Seats):
        assert (answer.counts < np.minimum(ask.fits, ask.count)[answer.rows]).sum() <= 1


# ── Required ──────────────────────────────────────────────────────────────────────────────────────


def test_a_required_rack_holds_all_members() -> None:
    ask = ask_for(3, [2, 2, 2, 0], required=1)
    assert seats(TWO_RACKS, ask) == {0: 2, 1: 1}


def test_without_room_in_any_required_rack_the_best_one_is_named() -> None:
    answer = place(TWO_RACKS, ask_for(4, [1, 0, 1, 2], required=1))
    assert answer == NoRoom(fits_in_best=3, best_domain=(1, 1))


def test_without_room_anywhere_all_that_would_fit_is_counted() -> None:
    assert place(TWO_RACKS, ask_for(9, [1, 0, 1, 2])) == NoRoom(4, None)


def test_with_nothing_free_no_domain_is_the_best() -> None:
    assert place(TWO_RACKS, ask_for(1, [0, 0, 0, 0], required=0)) == NoRoom(0, None)


def test_nodes_without_the_required_label_take_no_part() -> None:
    fabric = fabric_of(("b1", None), ("b1", "r1"))
    assert place(fabric, ask_for(2, [8, 1], required=1)) == NoRoom(1, (1, 0))
    assert seats(fabric, ask_for(2, [8, 1], required=0)) == {0: 2}


# ── Missing labels ────────────────────────────────────────────────────────────────────────────────


def test_nodes_without_labels_are_never_taken_for_neighbours() -> None:
    fabric = fabric_of((None,), (None,), ("r1",), ("r1",))
    assert seats(fabric, ask_for(2, [1, 1, 1, 1])) == {2: 1, 3: 1}
    answer = place(fabric, ask_for(4, [1, 1, 1, 1]))
    assert isinstance(answer, Seats)
    assert answer.domains == (3, 4)


def test_a_labelled_node_is_preferred_among_equals() -> None:
    assert seats(fabric_of((None,), ("r1",)), ask_for(1, [1, 1])) == {1: 1}


def test_preferred_nodes_come_first_even_where_more_domains_are_needed() -> None:
    fabric = fabric_of((None,), ("r1",), ("r2",))
    assert seats(fabric, ask_for(2, [2, 1, 1])) == {0: 2}
    assert seats(fabric, ask_for(2, [2, 1, 1], preferred=0)) == {1: 1, 2: 1}


def test_what_the_preferred_nodes_cannot_hold_goes_to_the_others() -> None:
    fabric = fabric_of((None,), ("r1",), ("r2",), (None,))
    ask = ask_for(4, [3, 1, 1, 2], preferred=0)
    assert seats(fabric, ask) == {1: 1, 2: 1, 3: 2}


# ── Beside living members ─────────────────────────────────────────────────────────────────────────


def test_a_replacement_joins_the_rack_of_the_others() -> None:
    ask = ask_for(1, [1, 1, 1, 1], near=[0, 0, 2, 0], within=None)
    assert seats(TWO_RACKS, ask) == {2: 1}
    ask = ask_for(1, [1, 1, 0, 1], near=[0, 0, 2, 0])
    assert seats(TWO_RACKS, ask) == {3: 1}


def test_a_replacement_that_finds_no_room_in_the_rack_stays_in_the_block() -> None:
    ask = ask_for(1, [4, 1, 0, 0, 1], near=[0, 0, 1, 1, 0])
    assert seats(TWO_BLOCKS, ask) == {4: 1}


def test_room_beside_the_others_is_used_before_a_new_rack_is_opened() -> None:
    ask = ask_for(2, [2, 2, 1, 1], near=[0, 0, 1, 0])
    assert seats(TWO_RACKS, ask) == {2: 1, 3: 1}
    ask = ask_for(3, [2, 2, 1, 1], near=[0, 0, 1, 0])
    assert seats(TWO_RACKS, ask) == {0: 2, 2: 1}


def test_free_accelerators_on_nodes_in_use_are_not_counted_as_left_over() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",), ("r2",))
    ask = ask_for(6, [5, 1, 5, 1], free=[5, 3, 5, 1], near=[1, 0, 1, 0], required=0)
    assert seats(fabric, ask) == {2: 5, 3: 1}


def test_as_few_of_the_nodes_in_use_are_taken_as_will_do() -> None:
    fabric = fabric_of(("r1",), ("r1",), ("r2",))
    assert seats(fabric, ask_for(2, [1, 1, 2], near=[1, 1, 1])) == {2: 2}
    assert seats(fabric, ask_for(2, [1, 1, 2], near=[1, 1, 1], required=0)) == {2: 2}


def test_within_is_a_wall() -> None:
    ask = ask_for(2, [2, 2, 2, 2], within=[False, True, True, False])
    assert seats(TWO_RACKS, ask) == {1: 2}
    ask = ask_for(5, [2, 2, 2, 2], within=[False, True, True, False])
    assert place(TWO_RACKS, ask) == NoRoom(4, None)


# ── Members without accelerators ──────────────────────────────────────────────────────────────────


def test_members_without_accelerators_leave_free_ones_alone() -> None:
    ask = ask_for(2, [9, 9, 1, 1], free=[8, 8, 0, 0], per_member=0)
    assert seats(TWO_RACKS, ask) == {2: 1, 3: 1}


def test_nodes_with_accelerators_in_use_are_avoided_too_where_they_are_known() -> None:
    accelerated = np.array([False, True, True, True])
    ask = Ask(1, np.array([1, 1, 1, 1]), np.zeros(4, np.int64), 0, accelerated=accelerated)
    assert seats(TWO_RACKS, ask) == {0: 1}
    ask = Ask(2, np.array([1, 0, 1, 1]), np.zeros(4, np.int64), 0, accelerated=accelerated)
    assert seats(TWO_RACKS, ask) == {0: 1, 2: 1}


def test_accelerators_are_spared_before_labels_are_minded() -> None:
    fabric = fabric_of(("b1", "r1"), ("b2", None))
    ask = ask_for(1, [1, 1], free=[1, 0], per_member=0, required=0, preferred=1)
    assert seats(fabric, ask) == {1: 1}


# ── Same question, same answer ────────────────────────────────────────────────────────────────────


@settings(max_examples=150)
@given(st.data())
def test_the_same_question_gets_the_same_answer(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    ask = data.draw(asks(fabric))
    first, second = place(fabric, ask), place(Fabric(fabric.domains.copy()), ask)
    if isinstance(first, NoRoom):
        assert first == second
    else:
        assert isinstance(second, Seats)
        assert first.rows.tolist() == second.rows.tolist()
        assert first.counts.tolist() == second.counts.tolist()


def test_asking_changes_nothing_that_was_passed_in() -> None:
    ask = ask_for(3, [1, 2, 2, 2], near=[1, 0, 0, 0], within=[True] * 4, preferred=0)
    before = [ask.fits.copy(), ask.free.copy(), ask.near.copy(), ask.within.copy()]
    place(TWO_RACKS, ask)
    after = [ask.fits, ask.free, ask.near, ask.within]
    assert all((a == b).all() for a, b in zip(before, after, strict=True))


# ── Mistakes ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"count": 0}, "count must be at least 1, not 0"),
        ({"fits": [1]}, r"fits has shape \(1,\), the fabric 4 nodes"),
        ({"near": [1, 1]}, r"near has shape \(2,\), the fabric 4 nodes"),
        ({"required": 2}, "required is level 2 of a fabric with 2"),
        ({"preferred": -1}, "preferred is level -1 of a fabric with 2"),
    ],
)
def test_a_mistaken_ask_is_named(mistake: dict[str, object], message: str) -> None:
    options = {"count": 1, "fits": [1, 1, 1, 1], "free": [1, 1, 1, 1], **mistake}
    with pytest.raises(ValueError, match=message):
        place(TWO_RACKS, ask_for(options.pop("count"), options.pop("fits"), **options))
