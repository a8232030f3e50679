"""C19 (what the engine does of it): Muster is cold, or pods were bound behind its back."""

from __future__ import annotations

from .story import Story


def test_a_plain_pod_passes_even_while_muster_knows_nothing() -> None:
    story = Story(cold=True)
    story.pod("t/plain")

    assert story.filter("t/plain", "n1", "n2")["nodes"] == ["n1", "n2"]


def test_a_held_pod_is_no_error_while_muster_is_cold() -> None:
    story = Story(cold=True)
    story.gang("A", 1, of=1)

    assert "starting" in story.reason("t/A-0")


def test_members_bound_behind_our_back_are_absorbed() -> None:
    story = Story(start="nominate")
    for name in ("n1", "n2", "n3"):
        story.node(name, gpu=8)
    story.pod("t/A-0", gpu=8, gang="A", min=3, node="n1")
    story.pod("t/A-1", gpu=8, gang="A", min=3, node="n2")

    story.pod("t/A-2", gpu=8, gang="A", min=3)

    assert story.reserved == {"t/A-2": "n3"}


def test_without_room_for_the_rest_the_gang_is_partial_and_says_so() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.pod("t/A-0", gpu=8, gang="A", min=3, node="n1")
    story.pod("t/A-1", gpu=8, gang="A", min=3, node="n2")

    story.pod("t/A-2", gpu=8, gang="A", min=3)

    assert "partial: 2 of 3" in story.reason("t/A-2")
    assert story.state["gangs"]["t/A"]["state"] == "broken"
    assert "GangBroken" in [line["reason"] for line in story.effects("record")]


def test_a_foreign_pod_in_the_way_moves_the_plan() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.gang("A", 1, of=8)

    story.pod("other/x", gpu=1, node="n1", scheduler="default-scheduler")

    assert story.reserved == {"t/A-0": "n2"}


def test_a_foreign_nomination_counts_as_sitting_there() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.pod("other/x", gpu=8, scheduler="default-scheduler", status={"nominatedNodeName": "n1"})

    story.gang("A", 1, of=8)

    assert story.bound == {"t/A-0": "n2"}


def test_a_plain_pod_is_kept_off_room_that_is_reserved_for_a_starting_gang() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8, cpu="8")
    story.node("n2", cpu="8")
    story.pod("t/plain", cpu="4")
    story.gang("A", 2, of=4, cpu="3")

    answer = story.filter("t/plain", "n1", "n2")

    assert answer["nodes"] == ["n2"]
    assert "t/A" in answer["failed"]["n1"]
    assert "t/A" in str(story.bind("t/plain", "n1")), "also if filter was asked before the plan"
    assert sorted(story.reserved) == ["t/A-0", "t/A-1"]
