"""Which member gets which rank."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core import ranking
from scheduler.model import Declaration, Options, Pod


def pod(name: str, index: int | None = None, role: str = "") -> Pod:
    declaration = Declaration("A", "muster", Options(role=role))
    return Pod("t", name, f"uid-{name}", declaration=declaration, index=index)


def names(pods: list[Pod]) -> list[str]:
    return [item.name for item in pods]


def test_numbers_in_names_count_as_people_count_them() -> None:
    pods = [pod("a-10"), pod("a-2"), pod("a-1"), pod("b-0"), pod("a-1-b")]

    assert names(ranking.in_order(pods, 5)) == ["a-1", "a-1-b", "a-2", "a-10", "b-0"]


def test_an_index_wins_over_the_name() -> None:
    pods = [pod("x", 2), pod("y", 0), pod("z", 1)]

    assert names(ranking.in_order(pods, 3)) == ["y", "z", "x"]


@pytest.mark.parametrize("head", ranking.HEADS)
def test_heads_come_before_all_others(head: str) -> None:
    pods = [pod("w-0", 0, "a-worker"), pod("w-1", 1, "a-worker"), pod("h", 0, head)]

    assert names(ranking.in_order(pods, 3)) == ["h", "w-0", "w-1"]


@pytest.mark.parametrize(
    "given_indexes",
    [[0, 0, 1], [0, 1, None], [0, 1, 3], [0, 1, 99], [None, None, None]],
    ids=str,
)
def test_indexes_of_a_role_are_trusted_as_a_set_or_not_at_all(
    given_indexes: list[int | None],
) -> None:
    pods = [pod(f"a-{at}", index) for at, index in enumerate(given_indexes)]

    assert ranking.indexes(pods, 3) == {}
    assert names(ranking.in_order(pods, 3)) == ["a-0", "a-1", "a-2"]


def test_one_role_with_bad_indexes_does_not_spoil_another() -> None:
    good = [pod("w-a", 1, "worker"), pod("w-b", 0, "worker")]
    bad = [pod("p-a", 7, "ps"), pod("p-b", 7, "ps")]

    assert ranking.indexes(good + bad, 4) == {"uid-w-a": 1, "uid-w-b": 0}


def test_a_part_of_the_indexes_is_enough_when_only_some_members_wait() -> None:
    assert ranking.indexes([pod("a", 5), pod("b", 3)], 8) == {"uid-a": 5, "uid-b": 3}


def test_a_replacement_gets_the_rank_of_its_slot() -> None:
    again = pod("a-5-xyz", 5)

    assert ranking.ranks([again], 8, {ranking.slot(pod("a-5-abc", 5)): 5}, {0, 1}) == [5]


def test_a_rank_that_another_holds_is_not_given_twice() -> None:
    assert ranking.ranks([pod("a", 5)], 8, {"/5": 5}, {5, 0}) == [1]


MEMBERS = st.lists(
    st.builds(
        pod,
        name=st.from_regex(r"[a-c]-[0-9]{1,2}", fullmatch=True),
        index=st.none() | st.integers(0, 5),
        role=st.sampled_from(["", "worker", "master"]),
    ),
    max_size=8,
    unique_by=lambda member: member.name,
)


@given(MEMBERS, st.integers(1, 9), st.integers())
def test_the_order_does_not_depend_on_the_order_of_arrival(
    pods: list[Pod], size: int, seed: int
) -> None:
    shuffled = list(pods)
    random.Random(seed).shuffle(shuffled)

    assert ranking.in_order(pods, size) == ranking.in_order(shuffled, size)
    assert sorted(names(ranking.in_order(pods, size))) == sorted(names(pods))


@given(
    MEMBERS,
    st.dictionaries(st.from_regex(r"(worker|)/[0-5]", fullmatch=True), st.integers(0, 9)),
    st.sets(st.integers(0, 9)),
)
def test_ranks_are_all_different_and_none_is_taken(
    pods: list[Pod], known: dict[str, int], taken: set[int]
) -> None:
    given_ranks = ranking.ranks(pods, len(pods), known, taken)

    assert len(given_ranks) == len(pods)
    assert len(set(given_ranks)) == len(pods)
    assert not set(given_ranks) & taken


@given(MEMBERS)
def test_a_fresh_gang_has_the_ranks_from_zero_in_order(pods: list[Pod]) -> None:
    assert ranking.ranks(pods, len(pods), {}, set()) == list(range(len(pods)))
