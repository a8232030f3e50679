"""C13: the same call twice, many calls at once, and two plans for one node."""

from __future__ import annotations

import random

import pytest

from .story import Story


@pytest.mark.parametrize("seed", range(10))
def test_only_one_of_two_gangs_gets_the_node(seed: int) -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    pods = story.gang("A", 8, of=1) + story.gang("B", 8, of=1)
    calls = pods * 2
    random.Random(seed).shuffle(calls)

    answers = [(key, story.filter(key)["nodes"]) for key in calls]

    assert {key for key, nodes in answers if nodes} == {key for key in pods if "A" in key}
    assert story.free("n1") == "0"
    assert len(story.reserved) == 8


def test_asking_again_reserves_nothing_more() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    story.gang("A", 1, of=1)
    before = story.state

    answers = [story.filter("t/A-0") for _ in range(5)]

    assert answers == [answers[0]] * 5
    assert story.free("n1") == "7"
    assert story.state == before


def test_one_node_offered_or_two_the_place_is_the_same() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.gang("A", 1, of=1)

    assert story.filter("t/A-0", "n1")["nodes"] == ["n1"]
    assert story.filter("t/A-0", "n1", "n2")["nodes"] == ["n1"]
    assert story.filter("t/A-0", "n2")["nodes"] == []


def test_a_plan_that_the_world_has_overtaken_is_made_anew_as_a_whole() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.node("n3", gpu=8)
    story.gang("A", 2, of=8)
    assert story.reserved == {"t/A-0": "n1", "t/A-1": "n2"}

    story.pod("other/x", gpu=1, node="n2", scheduler="default-scheduler")

    assert sorted(story.reserved.values()) == ["n1", "n3"]
    story.pod("other/y", gpu=1, node="n3", scheduler="default-scheduler")
    assert story.reserved == {}, "two whole nodes are no longer free: all or nothing"
