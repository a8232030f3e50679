"""C12: Muster restarts in the middle of a gang."""

from __future__ import annotations

from .story import Story

MEMBERS = [f"t/A-{member}" for member in range(4)]


def half_bound() -> Story:
    """Two of four members are bound to n1; the others have their places, unbound."""
    story = Story(start="nominate")
    story.node("n1", gpu=8, rack="r1", block="b1")
    story.node("n2", gpu=8, rack="r1", block="b1")
    story.node("n3", gpu=8, rack="r2", block="b1")
    story.gang("A", 4, of=4, options={"topology-required": "rack"})
    story.bind("t/A-0", "n1")
    story.bind("t/A-1", "n1")
    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}
    return story


def test_the_rest_of_the_gang_stays_in_its_rack() -> None:
    story = half_bound()

    story.restart()

    assert story.places("t/A-2", "t/A-3") == [["n2"], ["n2"]]
    assert story.bind("t/A-2", "n2") == ""
    assert story.bind("t/A-3", "n2") == ""
    assert story.stage("t/A") == "running"


def test_ranks_given_before_the_restart_are_not_given_again() -> None:
    story = half_bound()
    story.restart()
    for key in ("t/A-2", "t/A-3"):
        story.bind(key, "n2")

    assert sorted(story.ranks("t/A").values()) == [0, 1, 2, 3]


def test_a_terminating_pod_still_fills_its_node() -> None:
    story = half_bound()
    story.advance(61)
    story.pod("t/t", gpu=8, node="n2", deleting=True)

    story.restart()

    assert story.places("t/A-2", "t/A-3") == [[], []]
    story.delete("t/t")
    assert story.places("t/A-2", "t/A-3") == [["n2"], ["n2"]]


def test_nobody_is_admitted_before_the_first_list_is_in() -> None:
    story = Story(cold=True)
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)

    assert story.places("t/A-0", "t/A-1") == [[], []]
    assert story.placed == {}
    story.synced()
    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}


def test_the_node_name_wins_over_a_hint_that_says_otherwise() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    hint = '{"v":1,"gang":"t/A","rank":0,"node":"n2"}'

    story.pod("t/A-0", gpu=8, gang="A", node="n1", annotations={"muster.scheduler/hint": hint})

    assert story.bound == {"t/A-0": "n1"}
    assert (story.free("n1"), story.free("n2")) == ("0", "8")


def test_bound_pods_and_free_room_are_the_same_after_a_restart() -> None:
    story = half_bound()
    story.advance(61)
    story.pod("t/done", gpu=4, node="n3", phase="Succeeded")
    story.pod("other/x", gpu=2, node="n3", scheduler="default-scheduler")
    before = story.state["bound"], story.free("n3")

    story.restart()

    assert (story.state["bound"], story.free("n3")) == before


def test_nominations_left_from_before_are_cleared() -> None:
    story = half_bound()
    story.node("n2", gpu=8, rack="r1", block="b1", unschedulable=True)

    story.restart()

    cleared = [line["pod"] for line in story.effects("nominate") if line["node"] == ""]
    assert sorted(set(cleared)) == ["t/A-2", "t/A-3"]


def test_open_reservations_are_not_remembered() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)
    story.node("n1", gpu=3)

    story.restart()

    assert story.reserved == {}
