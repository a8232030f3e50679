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
