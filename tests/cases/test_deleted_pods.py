"""Pods that are gone while the scheduler still has them in its queue."""

from __future__ import annotations

import builders
import pytest

from scheduler.core import roster

from .story import Story


def asked_about(story: Story, pod: dict[str, object]) -> str:
    """The reason in the answer to a call that brings the pod along."""
    answer = story.call("filter", {"Pod": pod, "NodeNames": ["n1"]})
    assert answer["nodes"] == []
    return " | ".join({*answer["failed"].values(), *answer["unresolvable"].values()})


def test_a_member_that_is_gone_is_told_apart_from_one_that_is_new() -> None:
    story = Story()
    story.node("n1", gpu=8)
    first, second = (builders.pod(f"t/A-{number}", gang="A", min=3, gpu=1) for number in range(2))
    story.put_pod(first)

    story.delete("t/A-0")

    assert asked_about(story, first) == "pod t/A-0 has been deleted, as Muster's watch has shown"
    assert "pod t/A-1 is too new" in asked_about(story, second)


def test_a_pod_made_anew_under_the_name_is_no_deleted_one() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/A-0", gang="A", min=3, gpu=1, uid="one")
    story.pod("t/A-0", gang="A", min=3, gpu=1, uid="two")

    assert "1 of 3 pods exist" in story.reason("t/A-0")
    old = builders.pod("t/A-0", gang="A", min=3, gpu=1, uid="one")
    assert "t/A-0 has been deleted" in asked_about(story, old)


def test_the_last_that_were_deleted_without_a_node_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roster, "GONE_LIMIT", 2)
    story = Story()
    story.node("n1", gpu=8)
    waiting = [builders.pod(f"t/A-{number}", gang="A", min=9, gpu=1) for number in range(3)]
    for pod in waiting:
        story.put_pod(pod)
        story.delete(f"t/{pod['metadata']['name']}")
    for number in range(3):
        story.pod(f"t/B-{number}", gang="B", min=1, gpu=1, node="n1")
        story.delete(f"t/B-{number}")

    said = [asked_about(story, pod) for pod in waiting]

    assert ["deleted" in text for text in said] == [False, True, True]
