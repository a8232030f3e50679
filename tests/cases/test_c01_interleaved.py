"""C01: two gangs that interleave must never hold half of the cluster each."""

from __future__ import annotations

from itertools import combinations

import pytest

from .story import Story

A = [f"t/A-{member}" for member in range(4)]
B = [f"t/B-{member}" for member in range(4)]


def merged(places: tuple[int, ...]) -> list[str]:
    """A and B in their own order, A's members at ``places``."""
    a, b = iter(A), iter(B)
    return [next(a) if step in places else next(b) for step in range(8)]


INTERLEAVINGS = [merged(places) for places in combinations(range(8), 4)]


def two_nodes(**settings: object) -> Story:
    story = Story(**settings)
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    return story


def test_there_are_seventy_interleavings_of_four_and_four_calls() -> None:
    assert len({tuple(order) for order in INTERLEAVINGS}) == 70


@pytest.mark.parametrize("order", INTERLEAVINGS, ids=lambda order: "".join(k[2] for k in order))
@pytest.mark.parametrize("start", ["burst", "follow"])
def test_whatever_the_order_of_the_calls_the_first_complete_gang_wins(
    start: str, order: list[str]
) -> None:
    story = two_nodes(start=start)
    for key in ("A-0", "A-1", "B-0", "B-1", "A-2", "B-2", "A-3", "B-3"):
        story.pod(f"t/{key}", gpu=4, gang=key[0], min=4)

    for key in order:
        answer = story.filter(key)["nodes"]
        assert answer == ([] if key in B else [story.placed[key]])

    assert sorted(story.placed) == A, "A was complete first, and B holds nothing"
    assert sorted(story.placed.values()) == ["n1", "n1", "n2", "n2"]
    for key in A:
        story.delete(key)
    assert sorted(story.placed) == B, "all of B follows as soon as A is gone"
    assert all(story.places(*B))


@pytest.mark.parametrize("order", INTERLEAVINGS, ids=lambda order: "".join(k[2] for k in order))
def test_whatever_the_order_of_creation_one_gang_is_whole_and_the_other_has_nothing(
    order: list[str],
) -> None:
    story = two_nodes()

    for key in order:
        story.pod(key, gpu=4, gang=key[2], min=4)

    winner, loser = (A, B) if order.index(A[3]) < order.index(B[3]) else (B, A)
    assert sorted(story.bound) == winner
    assert story.places(*loser) == [[]] * 4
    assert story.state["reserved"] == {}


def add_half(story: Story, name: str, gpu: int = 4, size: int = 2, **more: object) -> None:
    """One of two gangs that Koordinator's users call a gang group."""
    stated = {"name": name, "min-available": str(size), "groups": '["t/A", "t/B"]'}
    unit = {f"gang.scheduling.koordinator.sh/{key}": value for key, value in stated.items()}
    for member in range(size):
        story.pod(f"t/{name}-{member}", gpu=gpu, annotations=unit, **more)


def test_a_unit_of_two_gangs_starts_only_if_both_fit_together() -> None:
    story = two_nodes()
    story.pod("other/x", gpu=4, node="n2", scheduler="default-scheduler")
    add_half(story, "A")
    assert set(story.placed) == {"other/x"}, "its partner does not exist yet"
    add_half(story, "B")
    assert set(story.placed) == {"other/x"}, "there is room for three, not for four"

    story.delete("other/x")

    assert sorted(story.bound) == ["t/A-0", "t/A-1", "t/B-0", "t/B-1"]


def test_partners_that_take_lower_seats_count_their_room_once() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.pod("t/low", gpu=8)
    assert story.reserved == {"t/low": "n1"}

    add_half(story, "A", gpu=2, size=1, priority=10)
    add_half(story, "B", gpu=4, size=2, priority=10)

    assert story.reserved == {"t/low": "n1"}, "2 + 4 + 4 do not fit where 8 are taken"


def test_partners_that_wait_for_long_are_quiet() -> None:
    story = two_nodes(backfill_wait_s=60)
    add_half(story, "A", gpu=8, size=2)
    add_half(story, "B", gpu=8, size=1)
    story.advance(61)
    printed = len(story.log)

    answers = [story.filter(key) for key in ("t/A-0", "t/B-0") * 3]

    assert answers[:2] == answers[2:4] == answers[4:]
    assert story.log[printed:] == answers, "looking does nothing"


def test_a_gang_is_let_go_once_its_partner_is_past_waiting() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    add_half(story, "A", size=1)
    both = {"gang.scheduling.koordinator.sh/groups": '["t/A", "t/B"]'}
    named = {
        f"gang.scheduling.koordinator.sh/{key}": value
        for key, value in (("name", "B"), ("min-available", "2"))
    }
    story.pod("t/B-0", gpu=4, annotations=both | named)
    assert "waits for gang t/B" in story.reason("t/A-0")

    story.pod("t/B-0", gpu=4, annotations=both | named, node="n2")

    assert story.stage("t/B") == "broken", "others have bound it: it waits for no one any more"
    assert story.placed.get("t/A-0") in ("n1", "n2")
