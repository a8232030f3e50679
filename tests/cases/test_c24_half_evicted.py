"""C24 (without preemption of our own): one member is evicted, the other is stranded."""

from __future__ import annotations

from .story import Story


def test_a_stranded_member_is_partial_and_its_gpus_are_not_free_until_it_is_gone() -> None:
    story = Story(grace_s=10)
    story.node("n1", gpu=4)
    story.node("n2", gpu=4)
    story.gang("L", 2, of=4, priority=1)

    story.delete("t/L-0")
    story.advance(11)

    assert story.state["gangs"]["t/L"]["state"] == "broken"
    assert "partial: 1 of 2" in story.state["gangs"]["t/L"]["reason"]
    assert (story.free("n1"), story.free("n2")) == ("4", "0")
    story.gang("h", 2, of=4, priority=10)
    assert "t/h-0" not in story.placed
    story.delete("t/L-1")
    assert sorted(story.placed) == ["t/h-0", "t/h-1"]


def test_a_terminating_member_takes_its_gpus_until_it_is_gone() -> None:
    story = Story()
    story.node("n1", gpu=4)
    story.pod("t/v", gpu=4)
    story.pod("t/v", gpu=4, deleting=True)
    story.pod("t/h", gpu=4, priority=10)

    assert story.bound == {"t/v": "n1"}
    story.delete("t/v")
    assert story.bound == {"t/h": "n1"}


def test_a_surplus_member_may_go_without_breaking_the_gang() -> None:
    story = Story()
    for name in ("n1", "n2", "n3"):
        story.node(name, gpu=4)
    story.gang("E", 3, of=4, min=2)
    assert len(story.bound) == 3

    story.delete("t/E-1")

    assert story.stage("t/E") == "running"
    story.pod("t/s", gpu=4)
    assert story.bound["t/s"] == "n2", "the room of a surplus member is not kept"
