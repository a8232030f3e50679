"""What is measured first, and what is left out where time is short."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.cluster import LOADS, arguments, plan_of
from benchmarks.cluster_arms import ARMS
from benchmarks.cluster_bars import RATIOS
from benchmarks.cluster_rounds import Budget, every_round, rotated, short_rounds

EVERY = list(ARMS.values())


def counted(nodes: int) -> Counter[tuple[str, str]]:
    rounds = short_rounds(EVERY, LOADS, 3, nodes)
    return Counter((one.arm.name, load) for one in rounds for load in one.loads)


def test_arms_take_turns_at_being_first() -> None:
    firsts = [rotated(EVERY, repeat)[0].name for repeat in range(len(EVERY) + 1)]
    assert firsts == [*ARMS, "stock"]
    assert set(rotated(EVERY, 3)) == set(EVERY)


def test_without_a_limit_all_is_measured_alike() -> None:
    rounds = list(every_round(EVERY, LOADS, 3))
    assert Counter(one.arm.name for one in rounds) == dict.fromkeys(ARMS, 3)
    assert {one.arm.name: tuple(one.loads) for one in rounds} == {
        **dict.fromkeys(ARMS, LOADS),
        "raw": ("1x500", "1x1000"),
    }


@pytest.mark.parametrize("nodes", [1_000, 5_000])
def test_what_bars_depend_on_is_measured_often_and_all_else_once(nodes: int) -> None:
    cells = {cell for bar in RATIOS for cell in (bar.upper, bar.lower)}
    for (arm, load), times in counted(nodes).items():
        assert times == (3 if (arm, nodes, load) in cells else 1), (arm, load)
    assert len(counted(nodes)) == len(LOADS) * len(ARMS) - 2, "raw has no churn and no 100x16"


def test_what_bars_depend_on_comes_first() -> None:
    loads = [one.loads for one in short_rounds(EVERY, LOADS, 3, 5_000)]
    assert all(set(found) <= {"1x500", "100x16"} for found in loads[: 5 * 3])


def test_the_slowest_comes_last_and_every_arm_has_its_place() -> None:
    rounds = list(short_rounds(EVERY, LOADS, 1, 5_000))[5:]
    assert {one.arm.name for one in rounds} == set(ARMS)
    assert (rounds[0].arm.name, rounds[-1].arm.name) == ("burst", "native-topology")


def test_the_plan_counts_what_it_measures() -> None:
    words = ["--nodes", "1000", "--loads", "1x500,churn", "--arms", "burst,raw"]
    assert plan_of(arguments(words)).measurements == 3 * 3
    assert plan_of(arguments([*words, "--minutes", "5"])).measurements == 3 + 1 + 1


def test_time_is_shared_out_and_what_is_left_goes_to_the_next() -> None:
    now = [100.0]
    budget = Budget(90.0, (100, 400), lambda: now[0])
    budget.begin(100)
    now[0] += 29.0
    assert not budget.is_spent()
    now[0] += 1.0
    assert budget.is_spent()
    budget.begin(400)
    now[0] += 59.0
    assert not budget.is_spent()
    now[0] += 1.0
    assert budget.is_spent()


def test_time_without_end() -> None:
    budget = Budget(float("inf"), (100, 400), lambda: 1e9)
    budget.begin(100)
    assert not budget.is_spent()
