"""A scheduler that does not ask about nominated nodes gets the plan in its filter answers."""

from __future__ import annotations

import pytest

from scheduler.core.probing import IGNORED
from tests.cases.story import Story

GANG = [f"t/a-{member}" for member in range(3)]


def nominated() -> Story:
    """A gang of three that is nominated, among nodes of which the scheduler offers others."""
    story = Story(start="nominate", timeout_s=60, backoff_s=10)
    for at in range(8):
        story.node(f"n{at}", gpu=8)
    story.gang("a", 3, of=8)
    assert sorted(story.reserved) == GANG
    return story


def ask_elsewhere(story: Story, times: int, pods: list[str]) -> None:
    for _ in range(times):
        for pod in pods:
            others = [f"n{at}" for at in range(8) if f"n{at}" != story.reserved[pod]]
            assert story.filter(pod, *others)["nodes"] == []


def replan(story: Story) -> list[str]:
    """The reservations run out, and the gang is planned again after its pause: who is woken?"""
    story.advance(61)
    assert story.reserved == {}
    before = count(story, "wake")
    story.advance(11)
    assert sorted(story.reserved) == GANG
    return [line["pod"] for line in story.effects("wake")][before:]


def count(story: Story, kind: str) -> int:
    return sum(bool(line.get("node", "x")) for line in story.effects(kind))


def told_to_ignore(story: Story) -> bool:
    return any(line["reason"] == IGNORED for line in story.effects("record"))


def test_after_three_calls_about_three_pods_it_falls_back_to_follow() -> None:
    story = nominated()
    ask_elsewhere(story, 3, GANG)
    assert replan(story) == GANG

    before = count(story, "nominate")
    assert told_to_ignore(story)
    story.advance(30)
    assert count(story, "nominate") == before
    where = story.reserved["t/a-0"]
    assert story.filter("t/a-0", "n7", where)["nodes"] == [where]


def test_a_single_call_with_one_node_proves_that_nominations_work() -> None:
    story = nominated()
    story.filter("t/a-0", story.reserved["t/a-0"])
    ask_elsewhere(story, 9, GANG)
    replan(story)

    assert not told_to_ignore(story)


@pytest.mark.parametrize("first", ["t/a-0", "t/a-1"])
def test_a_pod_that_was_passed_by_is_woken_with_its_next_nomination(first: str) -> None:
    """The nomination is there still, and to write the same again would wake nobody."""
    story = nominated()
    for pod in sorted(GANG[:2], key=lambda pod: pod != first):
        if pod == "t/a-0":
            story.filter(pod, story.reserved[pod])
        else:
            ask_elsewhere(story, 1, [pod])

    story.advance(6)

    assert [line["pod"] for line in story.effects("wake")] == ["t/a-1"]
    assert [line["pod"] for line in story.effects("nominate")] == [*GANG, "t/a-1", "t/a-2"]


def test_calls_about_one_pod_or_a_few_calls_prove_nothing() -> None:
    story = nominated()
    ask_elsewhere(story, 9, GANG[:2])
    ask_elsewhere(story, 2, GANG[2:])
    replan(story)

    assert not told_to_ignore(story)


def test_what_was_asked_before_the_nomination_was_written_does_not_count() -> None:
    story = Story(start="nominate", auto=False)
    for at in range(8):
        story.node(f"n{at}", gpu=8)
    story.gang("a", 3, of=8)
    ask_elsewhere(story, 9, GANG)
    for pod in GANG:
        story.outcome(pod, "ok", "nominate")
    replan(story)

    assert count(story, "wake") == 0


def test_nominations_are_tried_again_after_a_while() -> None:
    story = nominated()
    ask_elsewhere(story, 3, GANG)
    replan(story)
    before = count(story, "nominate")
    story.advance(601)
    story.advance(700)

    assert count(story, "nominate") > before
