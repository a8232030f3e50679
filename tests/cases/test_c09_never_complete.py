"""C09: a quorum that cannot form: gated members, and members that nobody creates."""

from __future__ import annotations

from .story import Story


def test_gated_members_do_not_count_until_their_gates_are_gone() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    for member in range(4):
        gates = ["quota"] if member >= 2 else []
        story.pod(f"t/A-{member}", gpu=4, gang="A", min=4, gates=gates)
    assert "2 of 4 pods exist" in story.reason("t/A-0")
    assert "2 gated" in story.reason("t/A-0")
    assert story.reserved == {}

    story.pod("t/A-2", gpu=4, gang="A", min=4)
    assert story.placed == {}
    story.pod("t/A-3", gpu=4, gang="A", min=4)

    assert sorted(story.bound.values()) == ["n1", "n1", "n2", "n2"]


def test_a_member_that_is_never_created_blocks_nobody_and_is_named() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4, min=3)

    assert "2 of 3 pods exist" in story.reason("t/A-0")
    assert story.why("t/A")["missing_pods"] == 1
    story.pod("t/other", gpu=8)
    assert story.bound == {"t/other": "n1"}
    story.advance(7200)
    assert story.stage("t/A") == "forming"


def test_a_lower_minimum_lets_the_gang_start() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4, min=3)

    story.gang("A", 2, of=4, min=2)

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}


def test_failed_and_terminating_members_are_no_candidates() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/A-0", gpu=2, gang="A", min=3)
    story.pod("t/A-1", gpu=2, gang="A", min=3, phase="Failed")
    story.pod("t/A-2", gpu=2, gang="A", min=3, deleting=True)

    assert "1 of 3 pods exist (1 leaving, 1 failed)" in story.reason("t/A-0")
    assert story.placed == {}
