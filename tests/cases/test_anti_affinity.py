"""Required pod anti-affinity is planned with: no gang is sent where the scheduler refuses it."""

from __future__ import annotations

import pytest
from builders import apart

from .story import Story


def racks() -> Story:
    story = Story(levels=("topo/rack",))
    for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
        story.node(name, gpu=8, rack=rack)
    return story


def test_members_that_keep_off_each_other_get_a_node_each() -> None:
    story = racks()

    story.gang("A", 3, of=1, labels={"app": "a"}, spec=apart("a"))

    assert sorted(story.placed.values()) == ["n1", "n2", "n3"]


def test_a_gang_that_needs_more_nodes_than_there_are_says_what_the_limit_is() -> None:
    story = racks()
    story.gang("A", 4, of=1, labels={"app": "a"}, spec=apart("a"))

    found = story.why("t/A")

    assert story.placed == {}
    assert "their own anti-affinity allows one on a node, and 3 nodes" in found["reason"]
    assert found["never"] is True


@pytest.mark.parametrize("by", ["those that run", "those that come"])
def test_a_rack_is_shut_to_those_that_pods_there_keep_off(by: str) -> None:
    story = racks()
    mine, theirs = (
        (apart("b", "topo/rack"), {}) if by == "those that run" else ({}, apart("a", "topo/rack"))
    )
    running = {"labels": {"app": "a"}, "spec": mine, "scheduler": "default-scheduler"}
    story.pod("t/x", gpu=1, node="n1", **running)

    story.gang("B", 2, of=4, labels={"app": "b"}, spec=theirs)

    assert set(story.placed.values()) == {"n1", "n3"}, "n2 shares the rack of n1"
    assert story.placed["t/B-0"] == story.placed["t/B-1"] == "n3"


def test_two_gangs_that_keep_off_each_other_do_not_start_side_by_side() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for name in ("A", "B"):
        story.gang(name, 2, of=2, labels={"app": name}, spec=apart("B" if name == "A" else "A"))
    assert set(story.placed) == {"t/A-0", "t/A-1"}
    assert "anti-affinity shuts 1 node" in story.reason("t/B-0")

    for member in ("t/A-0", "t/A-1"):
        story.delete(member)
    story.advance(2)

    assert set(story.placed) == {"t/B-0", "t/B-1"}
