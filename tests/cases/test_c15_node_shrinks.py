"""C15: a GPU goes unhealthy, and a node has less than is in use on it."""

from __future__ import annotations

import pytest

from .story import Story


@pytest.mark.parametrize("order", ["pod first", "node first"])
def test_nothing_new_goes_to_a_node_that_has_less_than_it_holds(order: str) -> None:
    story = Story()
    if order == "pod first":
        story.node("n1", gpu=8)
        story.pod("t/x", gpu=8, node="n1")
        story.node("n1", gpu=6)
    else:
        story.node("n1", gpu=6)
        story.pod("t/x", gpu=8, node="n1")

    story.pod("t/y", gpu=6)
    story.pod("t/one", gpu=1)
    story.pod("t/z")

    assert story.bound == {"t/x": "n1"}
    assert story.free("n1") == "0", "never negative"
    assert story.filter("t/z")["nodes"] == ["n1"], "the node still takes pods without GPUs"
    assert story.bind("t/z", "n1") == ""
    story.delete("t/x")
    assert story.bound == {"t/y": "n1", "t/z": "n1"}


def test_a_dip_of_a_few_seconds_leads_to_the_same_plan() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)
    before = story.reserved

    story.node("n1", gpu=0)
    assert story.reserved == {}
    assert story.places("t/A-0", "t/A-1") == [[], []]
    story.advance(5)
    story.node("n1", gpu=8)

    assert story.reserved == before == {"t/A-0": "n1", "t/A-1": "n1"}


def test_a_plan_on_a_node_that_shrank_is_redone_as_a_whole() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)
    story.node("n2", gpu=8)

    story.node("n1", gpu=3)

    assert story.reserved == {"t/A-0": "n2", "t/A-1": "n2"}
    error = story.bind("t/A-0", "n1")
    assert "n2" in str(error)
    assert story.bind("t/A-0", "n2") == ""


def test_running_members_are_left_alone() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)

    printed = story.node("n1", gpu=6)

    assert printed == []
    assert story.stage("t/A") == "running"


def test_what_a_moved_gang_leaves_of_the_seats_it_takes_goes_to_the_next() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.node("n2", gpu=1)
    story.pod("t/high", gpu=1, priority=10)
    story.pod("t/low", gpu=8)
    story.pod("t/next", gpu=4)
    assert story.reserved == {"t/high": "n2", "t/low": "n1"}

    story.delete("n2", "Node")

    assert story.reserved == {"t/high": "n1", "t/next": "n1"}
