"""C29: a late member rejoins the domain of the living ones, also after a restart."""

from __future__ import annotations

import pytest

from .story import Story


def on_n1_and_n2(wish: str) -> Story:
    story = Story()
    story.node("n1", gpu=8, block="b1", rack="r1")
    story.node("n2", gpu=8, block="b1", rack="r1")
    story.node("n3", gpu=8, block="b2", rack="r2")
    story.node("n4", gpu=8, block="b2", rack="r2")
    story.gang("A", 2, of=8, options={wish: "rack"})
    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
    story.delete("t/A-1")
    story.pod("other/x", gpu=8, node="n2", scheduler="default-scheduler")
    return story


def replace(story: Story, wish: str) -> None:
    story.pod("t/A-1", gpu=8, gang="A", min=2, uid="again", options={wish: "rack"})


@pytest.mark.parametrize("restart", ["", "before the replacement", "after it"])
def test_a_replacement_waits_for_its_own_rack(restart: str) -> None:
    story = on_n1_and_n2("topology-required")
    if restart == "before the replacement":
        story.restart()
    replace(story, "topology-required")
    if restart == "after it":
        story.restart()

    assert story.filter("t/A-1")["nodes"] == []
    story.delete("other/x")

    assert story.bound["t/A-1"] == "n2"
    assert story.state["gangs"]["t/A"]["domain"] == ["b1", "r1"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_preference_lets_it_go_elsewhere(restart: bool) -> None:
    story = on_n1_and_n2("topology-preferred")
    if restart:
        story.restart()

    replace(story, "topology-preferred")

    assert story.bound["t/A-1"] == "n3"


def test_a_surplus_member_joins_the_rack_of_the_others() -> None:
    story = Story()
    story.node("n1", gpu=8, block="b1", rack="r1")
    story.node("n2", gpu=8, block="b2", rack="r2")
    story.node("n3", gpu=8, block="b2", rack="r2")
    story.pod("other/x", gpu=8, node="n1", scheduler="default-scheduler")
    story.gang("A", 1, of=8, options={"topology-required": "rack"})
    assert story.bound["t/A-0"] == "n2"
    story.delete("other/x")

    story.pod("t/A-1", gpu=8, gang="A", min=1, options={"topology-required": "rack"})

    assert story.bound["t/A-1"] == "n3"


@pytest.mark.parametrize("loss", ["node gone", "label gone"])
def test_a_member_left_on_a_node_without_a_rack_leads_to_no_endless_planning(loss: str) -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8, block="b1", rack="r1")
    story.node("n2", gpu=4, block="b2", rack="r2")
    wish = {"topology-required": "rack"}
    story.pod("t/A-0", gpu=4, gang="A", min=2, options=wish, node="n1")
    story.pod("other/x", gpu=4, node="n1", scheduler="default-scheduler")
    story.pod("t/A-1", gpu=4, gang="A", min=2, options=wish)
    assert "t/A-1" not in story.placed, "its rack is full"

    if loss == "node gone":
        story.delete("n1", "Node")
    else:
        story.node("n1", gpu=8)
    printed = story.node("n3", gpu=1)

    assert len(printed) < 10
    assert len(story.effects("wake")) < 10


def test_a_member_may_go_elsewhere_once_the_node_of_the_others_is_gone() -> None:
    story = on_n1_and_n2("topology-required")
    replace(story, "topology-required")
    assert "t/A-1" not in story.placed

    story.delete("n1", "Node")

    assert story.placed.get("t/A-1") in ("n3", "n4")
