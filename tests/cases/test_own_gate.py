"""Muster's own scheduling gate: pods wait behind it at no cost, and it is taken off in time."""

from __future__ import annotations

from typing import Any

import pytest

from .story import Story

OWN = "muster.scheduler/gang"


def effects(story: Story, kind: str) -> list[dict[str, Any]]:
    return [line for line in story.log if line.get("effect") == kind]


def gated(story: Story, *names: str) -> None:
    for name in names:
        story.pod(name, gpu=4, gang="A", min=2, gates=[OWN])


def test_members_behind_it_count_and_are_bound_without_it() -> None:
    story = Story()
    story.node("n1", gpu=8)
    gated(story, "t/A-0")
    assert story.why("t/A")["reason"] == "1 of 2 pods exist"

    gated(story, "t/A-1")

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}
    assert story.stage("t/A") == "running"


def test_a_gate_of_somebody_else_is_waited_for() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for name in ("t/A-0", "t/A-1"):
        story.pod(name, gpu=4, gang="A", min=2, gates=["quota", OWN])
    assert story.placed == {}
    assert "2 gated" in story.why("t/A")["reason"]

    gated(story, "t/A-0", "t/A-1")

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}


def test_nothing_is_taken_off_while_there_is_no_room() -> None:
    story = Story()
    story.node("n1", gpu=4)
    gated(story, "t/A-0", "t/A-1")
    story.advance(3600)
    assert story.stage("t/A") == "queued"
    assert [line for line in story.log if line.get("effect") in ("bind", "nominate", "wake")] == []

    story.node("n2", gpu=4)

    assert sorted(story.bound) == ["t/A-0", "t/A-1"]


@pytest.mark.parametrize("start", ["nominate", "follow"])
def test_where_the_scheduler_binds_it_gets_to_see_the_pod(start: str) -> None:
    story = Story(start=start)
    story.node("n1", gpu=8)
    gated(story, "t/A-0", "t/A-1")
    assert story.places("t/A-0", "t/A-1") == [["n1"], ["n1"]]
    for name in ("t/A-0", "t/A-1"):
        assert story.bind(name, "n1") == ""
    assert story.stage("t/A") == "running"


def test_a_binding_that_fails_after_it_was_taken_off_is_sent_again() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("bind", "error", pod="t/A-0")
    gated(story, "t/A-0", "t/A-1")
    story.pod("t/A-0", gpu=4, gang="A", min=2)
    assert story.placed == {"t/A-0": "n1", "t/A-1": "n1"}, "the seat outlives the gate"

    story.advance(2)

    assert sorted(story.bound) == ["t/A-0", "t/A-1"]


def test_one_that_can_never_be_taken_off_gives_its_seats_back_and_is_tried_anew() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("bind", "error", times=1000)
    gated(story, "t/A-0", "t/A-1")
    assert story.stage("t/A") == "starting"

    story.advance(60)

    assert story.reserved == {}
    story.pod("t/s", gpu=8)
    assert story.reserved == {"t/s": "n1"}, "nothing leaked"


def test_a_plain_pod_behind_it_is_let_go_at_once() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/plain", gates=[OWN])
    assert [line["pod"] for line in effects(story, "wake")] == ["t/plain"]
    story.advance(3600)
    assert len(effects(story, "wake")) == 1


def test_a_plain_pod_is_let_go_again_until_it_is() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("wake", "error", times=2)
    story.pod("t/plain", gates=[OWN])
    story.advance(60)
    assert len(effects(story, "wake")) == 3


def test_a_plain_pod_from_before_the_start_is_let_go_once_the_cluster_is_known() -> None:
    story = Story(cold=True)
    story.node("n1", gpu=8)
    story.pod("t/plain", gates=[OWN])
    story.synced()
    story.advance(0)
    assert len(effects(story, "wake")) == 1


def test_pods_of_other_schedulers_are_not_touched() -> None:
    story = Story()
    story.pod("t/other", gates=[OWN], scheduler="default-scheduler")
    assert effects(story, "wake") == []
