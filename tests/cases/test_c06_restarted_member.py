"""C06: a member of a running gang is replaced, others have finished, a node is under repair."""

from __future__ import annotations

import pytest

from .story import Story


def running_pair(**settings: object) -> Story:
    story = Story(**settings)
    story.node("n1", gpu=1)
    story.node("n2", gpu=1)
    story.gang("A", 2, of=1)
    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
    return story


def replace(story: Story, member: str) -> None:
    story.pod(member, gpu=1, gang="A", min=2, uid=f"{member} again")


def test_a_recreated_member_is_placed_alone_at_once() -> None:
    story = running_pair()

    story.delete("t/A-1")
    replace(story, "t/A-1")

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
    assert story.filter("t/A-1")["nodes"] == ["n2"]


def test_a_new_uid_under_the_same_name_ends_the_old_pod() -> None:
    story = running_pair()

    replace(story, "t/A-1")

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
    assert len(story.effects("bind")) == 3


def test_a_member_that_succeeded_counts_for_the_replacement_of_one_that_failed() -> None:
    story = running_pair()

    story.pod("t/A-0", gpu=1, gang="A", min=2, node="n1", phase="Succeeded")
    story.pod("t/A-1", gpu=1, gang="A", min=2, node="n2", phase="Failed")
    replace(story, "t/A-1")

    assert story.bound["t/A-1"] in ("n1", "n2")
    assert story.stage("t/A") == "running"


def test_a_member_that_succeeds_alone_disturbs_nobody_ever() -> None:
    story = running_pair()
    printed = len(story.log)

    story.pod("t/A-0", gpu=1, gang="A", min=2, node="n1", phase="Succeeded")
    story.advance(86_400)

    assert story.log[printed:] == []
    assert story.stage("t/A") == "running"
    assert story.bound == {"t/A-1": "n2"}


@pytest.mark.parametrize("first", ["filler", "replacement"])
def test_a_seat_under_repair_is_kept_from_a_filler(first: str) -> None:
    story = running_pair(grace_s=60)
    story.node("n2", gpu=1, unschedulable=True)
    story.delete("t/A-1")
    if first == "filler":
        story.pod("t/f", gpu=1)
        replace(story, "t/A-1")
    else:
        replace(story, "t/A-1")
        story.pod("t/f", gpu=1)

    story.node("n2", gpu=1)

    assert story.placed == {"t/A-0": "n1", "t/A-1": "n2"}
    assert story.filter("t/f")["nodes"] == []
    assert story.filter("t/A-1")["nodes"] == ["n2"]


def test_a_seat_is_kept_for_the_grace_and_no_longer() -> None:
    story = running_pair(grace_s=60)
    story.delete("t/A-1")
    story.pod("t/f", gpu=1)

    story.advance(59)
    assert "kept for gang t/A" in story.reason("t/f")
    story.advance(2)

    assert story.bound == {"t/A-0": "n1", "t/f": "n2"}


def test_a_higher_priority_does_not_wait_for_the_grace() -> None:
    story = running_pair(grace_s=60)
    story.delete("t/A-1")

    story.pod("t/urgent", gpu=1, priority=10)

    assert story.bound["t/urgent"] == "n2"


def test_a_broken_gang_comes_before_older_work_of_equal_priority() -> None:
    story = running_pair(grace_s=0)
    story.node("n2", gpu=1, unschedulable=True)
    story.pod("t/older", gpu=1, created="2020-01-01T00:00:00Z")
    story.delete("t/A-1")
    story.advance(10)
    replace(story, "t/A-1")

    story.node("n2", gpu=1)

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
