"""C19 (what the engine does of it): Muster is cold, or pods were bound behind its back."""

from __future__ import annotations

import builders

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
    assert answer["failed"]["n1"] == "room is reserved for a gang that starts now"
    assert "is reserved" in str(story.bind("t/plain", "n1")), "also if filter came before the plan"
    assert sorted(story.reserved) == ["t/A-0", "t/A-1"]


def test_members_bound_behind_our_back_may_leave_room_for_the_last_one() -> None:
    story = Story()
    story.node("n1", gpu=16)
    story.node("n2", gpu=8)
    story.pod("other/x", gpu=8, node="n1", scheduler="default-scheduler")
    story.gang("A", 3, of=8)
    assert set(story.placed) == {"other/x"}, "two fit, three do not"

    story.pod("t/A-0", gpu=8, gang="A", min=3, node="n1")
    story.pod("t/A-1", gpu=8, gang="A", min=3, node="n1")

    assert story.placed["t/A-2"] == "n2"


def test_a_member_bound_elsewhere_draws_the_others_into_its_rack() -> None:
    story = Story(start="nominate")
    for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"), ("n4", "r2")):
        story.node(name, gpu=8, block="b1", rack=rack)
    wish = {"topology-required": "rack"}
    story.gang("A", 2, of=8, options=wish)
    assert sorted(story.reserved.values()) == ["n1", "n2"]

    story.pod("t/A-0", gpu=8, gang="A", min=2, options=wish, node="n3")

    assert story.placed == {"t/A-0": "n3", "t/A-1": "n4"}


def test_options_alone_make_no_gang() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/x", gpu=1, options={"timeout": "90s"})
    story.pod("t/y", gpu=1, options={"timeout": "90s"})
    story.pod("t/z", options={"timeout": "90s"})

    assert sorted(story.state["gangs"]) == ["t/x#pod", "t/y#pod"]
    assert story.filter("t/z")["nodes"] == ["n1"]


def test_a_group_that_cannot_be_read_starts_nobody() -> None:
    story = Story()
    story.node("n1", gpu=8)
    group = builders.pod_group("t/A", kind="coscheduling")
    group["spec"]["minMember"] = "three"
    story.object(group)

    story.pod("t/A-0", gpu=4, **builders.in_group("A", kind="coscheduling"))

    assert story.placed == {}
    assert "spec.minMember" in story.reason("t/A-0")


def test_a_member_on_a_lost_node_is_evicted_after_a_pause() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.gang("A", 2, of=8)

    story.delete("n2", "Node")
    assert story.effects("evict") == [], "a node may be registered anew with its pods"
    story.advance(11)

    assert [line["pod"] for line in story.effects("evict")] == ["t/A-1"]
    assert story.stage("t/A") == "broken"


def given_up_on_n1() -> Story:
    """The Binding of A-0, which takes all CPUs of n1, is on its way and no longer wanted."""
    story = Story(auto=False)
    story.node("n1", gpu=8, cpu="8")
    story.pod("t/p", cpu="4", memory=None)
    story.pod("t/A-0", gpu=8, cpu="8", memory=None, gang="A", options={"timeout": "30s"})
    story.advance(31)
    assert story.reserved == {}
    return story


def test_a_plain_pod_keeps_off_room_that_a_binding_on_its_way_may_take() -> None:
    story = given_up_on_n1()

    assert "may still land" in story.reason("t/p")
    assert "may still land" in str(story.bind("t/p", "n1"))


def test_a_plain_pod_that_was_kept_off_is_woken_when_the_room_is_free() -> None:
    story = given_up_on_n1()
    assert story.filter("t/p")["nodes"] == []
    woken = len(story.effects("wake"))

    story.outcome("t/A-0", "gone")

    assert [line["pod"] for line in story.effects("wake")[woken:]] == ["t/p"]
    assert story.filter("t/p")["nodes"] == ["n1"] or story.reserved
