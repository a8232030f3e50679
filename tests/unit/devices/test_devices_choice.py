"""Which GPUs a pod would best have, on the makes of nodes that people run."""

from __future__ import annotations

import device_boxes as boxes
import pytest

from scheduler.core.devices import Choice, Link, Matrix, Nic, choose, weight


def chosen(matrix: Matrix, free: set[int] | range, count: int) -> tuple[int, ...]:
    choice = choose(matrix, free, count)
    assert choice is not None
    return choice.gpus


@pytest.mark.parametrize(
    ("word", "worth"),
    [
        ("SYS", 10),
        ("NODE", 20),
        ("PHB", 30),
        ("PXB", 40),
        ("PIX", 50),
        ("PSB", 60),
        ("NV1", 100),
        ("NV12", 1200),
        ("NV18", 1800),
        ("NV36", 1800),
        ("XGMI", 100),
        ("NV", 10),
        ("NV0", 10),
        ("WARP", 10),
        ("", 10),
    ],
)
def test_what_a_link_is_worth(word: str, worth: int) -> None:
    assert weight(word) == worth


# ── hybrid cube meshes: the vendor's own static choices come out ──


def test_v100_pairs() -> None:
    assert boxes.one_after_another(boxes.dgx1_v100(), 2) == [(0, 3), (1, 2), (4, 7), (5, 6)]


def test_v100_quads() -> None:
    assert boxes.one_after_another(boxes.dgx1_v100(), 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_p100_pairs_take_one_gpu_of_each_switch() -> None:
    """All links are alike there, and a pair that shares no switch has two cards."""
    assert boxes.one_after_another(boxes.dgx1_p100(), 2) == [(0, 2), (1, 3), (4, 6), (5, 7)]


def test_p100_quads() -> None:
    assert boxes.one_after_another(boxes.dgx1_p100(), 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_the_whole_node_and_single_gpus() -> None:
    matrix = boxes.dgx1_v100()

    assert chosen(matrix, range(8), 8) == tuple(range(8))
    assert sorted(boxes.one_after_another(matrix, 1)) == [(gpu,) for gpu in range(8)]


def test_being_connected_is_not_enough() -> None:
    """0-4-7-3 is a ring of NVLinks through both squares, but two of its pairs have none."""
    matrix = boxes.dgx1_v100()

    assert chosen(matrix, {0, 3, 4, 5, 6, 7}, 4) == (4, 5, 6, 7)


# ── islands ──


def test_a_single_gpu_does_not_break_a_pair() -> None:
    assert chosen(boxes.power9(), {0, 2, 3}, 1) == (0,)
    assert chosen(boxes.power9(), {0, 1, 3}, 1) == (3,)


def test_pairs_stay_on_their_processor() -> None:
    assert boxes.one_after_another(boxes.power9(), 2) == [(0, 1), (2, 3)]
    assert chosen(boxes.power9(), {1, 2, 3}, 2) == (2, 3)


def test_bridged_cards_go_together() -> None:
    assert boxes.one_after_another(boxes.bridged(), 2) == [(0, 3), (1, 2)]


def test_hives_are_not_mixed() -> None:
    matrix = boxes.two_hives()

    assert boxes.one_after_another(matrix, 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert chosen(matrix, {0, 1, 2, 4, 5, 6, 7}, 4) == (4, 5, 6, 7)
    assert chosen(matrix, {0, 1, 2, 4, 5, 6, 7}, 3) == (0, 1, 2)
    assert chosen(matrix, {3, 4, 5, 6, 7}, 1) == (3,)


def test_pcie_only_prefers_one_switch_then_one_numa_node() -> None:
    matrix = boxes.pcie()

    assert boxes.one_after_another(matrix, 2) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert chosen(matrix, {0, 2, 3, 5}, 2) == (2, 3)
    assert chosen(matrix, {1, 2, 5}, 2) == (1, 2)
    assert chosen(matrix, {1, 2, 3, 4}, 1) == (4,)


def test_what_is_left_decides_between_equals() -> None:
    """All neighbours in a chain are alike; taking those at its end leaves the rest together."""
    chain = boxes.box(5, lambda a, b: "NV1" if b - a == 1 else "SYS")

    choice = choose(chain, range(5), 2)

    assert choice == Choice((0, 1), 100, 100, (), ())
    assert chosen(chain, {1, 2, 3, 4}, 2) == (1, 2)
    assert chosen(chain, {0, 1, 2, 3}, 1) == (0,)


def test_pairs_that_are_left_are_worth_more_than_links_that_no_pair_can_use() -> None:
    """Without 0 and 2 two linked pairs remain; without 0 and 1 three links, all among 2, 4, 5."""
    links = {(0, 1): "NV2", (0, 2): "NV2", (1, 3): "NV1", (2, 4): "NV1", (2, 5): "NV1"}
    links[4, 5] = "NV1"
    matrix = boxes.box(6, lambda a, b: links.get((a, b), "SYS"))

    assert choose(matrix, range(6), 2) == Choice((0, 2), 200, 200, (), ())


# ── all links equal ──


def test_nvswitch_takes_the_lowest_of_one_numa_node() -> None:
    matrix = boxes.nvswitch()

    assert boxes.one_after_another(matrix, 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert boxes.one_after_another(matrix, 3) == [(0, 1, 2), (4, 5, 6)]
    assert chosen(matrix, {2, 3, 4, 5, 6}, 3) == (4, 5, 6)


def test_nvswitch_fills_the_numa_node_that_is_nearly_full() -> None:
    assert chosen(boxes.nvswitch(), {1, 2, 3, 4}, 1) == (4,)


def test_one_numa_node_is_better_than_two_that_are_nearly_full() -> None:
    matrix = boxes.box(6, lambda a, b: "NV18", (1, 2, 0, 0, 0, 0))

    assert chosen(matrix, range(6), 2) == (2, 3)


def test_what_is_left_of_equal_links() -> None:
    choice = choose(boxes.nvswitch(), range(8), 3)

    assert choice is not None
    assert choice.leaves == 3 * 1800 + 1800, "one set of three, and the rest of two"


def test_numa_nodes_come_before_cards() -> None:
    assert boxes.one_after_another(boxes.dgx_a100(), 2) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_the_choice_says_where_it_is() -> None:
    choice = choose(boxes.dgx_a100(), {0, 1, 4, 5}, 2)

    assert choice == Choice((0, 1), 1200, 1200, (3,), ("mlx5_0", "mlx5_1"))


def test_unknown_numa_nodes_are_no_reason_to_spread() -> None:
    half_known = Matrix(4, numa=(None, 1, None, 1))

    assert chosen(half_known, range(4), 2) == (0, 2)


def test_without_any_table_indexes_decide() -> None:
    assert chosen(Matrix(4), {1, 2, 3}, 2) == (1, 2)


# ── edges ──


@pytest.mark.parametrize("count", [-1, 0, 3])
def test_no_choice(count: int) -> None:
    assert choose(boxes.power9(), {0, 1}, count) is None


def test_indexes_that_do_not_exist_are_not_free() -> None:
    assert choose(boxes.power9(), {-1, 0, 4, 99}, 2) is None
    assert choose(Matrix(0), {0}, 1) is None


def test_gpus_that_are_split_are_not_given_whole() -> None:
    matrix = Matrix(4, boxes.power9().links, mig=(0,))

    assert choose(matrix, range(4), 4) is None
    assert chosen(matrix, range(4), 3) == (1, 2, 3)


def test_cards_that_reach_more_gpus_count_once() -> None:
    shared = Nic("bond0", None, (0, 1, 2))
    matrix = boxes.box(4, lambda a, b: "NV4", nics=[shared, Nic("mlx5_1", None, (3,))])

    choice = choose(matrix, range(4), 2)

    assert choice is not None
    assert (choice.gpus, choice.nics) == ((0, 3), ("bond0", "mlx5_1"))


def test_sixteen_gpus() -> None:
    """Four groups on four switches: groups stay whole, also for a pod that needs more than one."""
    matrix = boxes.box(16, lambda a, b: "PIX" if a // 4 == b // 4 else "SYS")

    assert boxes.one_after_another(matrix, 4) == [
        (0, 1, 2, 3),
        (4, 5, 6, 7),
        (8, 9, 10, 11),
        (12, 13, 14, 15),
    ]
    assert chosen(matrix, set(range(16)) - {0, 5}, 5) == (1, 8, 9, 10, 11)
    assert chosen(matrix, set(range(1, 16)), 1) == (1,)


def test_more_gpus_than_all_sets_can_be_tried_for() -> None:
    matrix = boxes.box(24, lambda a, b: "NV2" if a // 4 == b // 4 else "SYS")

    assert boxes.one_after_another(matrix, 4)[:2] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert len(boxes.one_after_another(matrix, 4)) == 6
    assert chosen(matrix, set(range(24)) - {23}, 1) == (20,)
    choice = choose(matrix, range(8), 4)
    assert choice == Choice((0, 1, 2, 3), 1200, 1200, (), ())


def test_many_gpus_that_are_linked_in_a_chain() -> None:
    chain = boxes.box(18, lambda a, b: "NV1" if b - a == 1 and a >= 14 else "SYS")

    assert chosen(chain, range(18), 4) == (14, 15, 16, 17)


def test_the_same_question_has_the_same_answer_whatever_was_asked_before() -> None:
    def answers(order: list[int]) -> dict[int, Choice | None]:
        matrix = Matrix(8, tuple(Link(*link) for link in boxes.dgx1_v100().links))
        return {count: choose(matrix, range(8), count) for count in order}

    assert answers([1, 2, 3, 4, 5]) == answers([5, 3, 1, 4, 2])
