"""Required pod anti-affinity is planned with: no gang is sent where the scheduler refuses it."""

from __future__ import annotations

import pytest
from builders import apart

from .story import Story
from .test_hostages import koordinator


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


@pytest.mark.parametrize("whose", ["of those that wait", "of the one that runs"])
def test_a_gang_starts_once_labels_have_changed_so_that_nobody_is_kept_off(whose: str) -> None:
    story = Story()
    story.node("n1", gpu=8)
    theirs, mine = (apart("b"), {}) if whose == "of those that wait" else ({}, apart("a"))
    running = {"node": "n1", "spec": theirs, "scheduler": "default-scheduler"}
    story.pod("t/x", gpu=1, labels={"app": "a"}, **running)
    story.gang("B", 2, of=2, labels={"app": "b"}, spec=mine)
    assert "anti-affinity shuts 1 node" in story.reason("t/B-0")

    if whose == "of those that wait":
        story.gang("B", 2, of=2, labels={"app": "c"}, spec=mine)
    else:
        story.pod("t/x", gpu=1, labels={"app": "z"}, **running)

    assert set(story.placed) == {"t/x", "t/B-0", "t/B-1"}


@pytest.mark.parametrize("who", ["A", "B"])
def test_where_one_partner_keeps_off_another_each_has_its_nodes(
    who: str,
) -> None:
    story = Story()
    story.node("n1", gpu=8)
    for name, other in (("A", "B"), ("B", "A")):
        pods = {"labels": {"app": name}, "spec": apart(other) if name == who else {}}
        koordinator(story, f"t/{name}", 1, size=2, groups='["t/A", "t/B"]', pods=pods)
    assert story.placed == {}

    story.node("n2", gpu=8)

    homes = [{node for pod, node in story.placed.items() if name in pod} for name in ("A", "B")]
    assert sorted(map(sorted, homes)) == [["n1"], ["n2"]]


def test_gangs_that_could_not_start_together_keep_nobody_off() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for name, gpu in (("A", 1), ("B", 8)):
        pods = {"labels": {"app": name}, "spec": apart("c")}
        koordinator(story, f"t/{name}", gpu, size=2, groups='["t/A", "t/B"]', pods=pods)
    assert story.placed == {}

    story.gang("C", 2, of=1, labels={"app": "c"}, spec=apart("A"))

    assert set(story.placed) == {"t/C-0", "t/C-1"}
