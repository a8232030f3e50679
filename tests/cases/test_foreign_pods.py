"""Pods of other schedulers count as what takes room, and nothing is done to them."""

from __future__ import annotations

import pytest

from .story import Story


@pytest.fixture
def story() -> Story:
    story = Story()
    story.node("n1", gpu=8)
    return story


@pytest.mark.parametrize("gang", [{}, {"gang": "A", "min": 1}], ids=["plain", "gang"])
def test_the_verb_binds_no_pod_of_another_scheduler(story: Story, gang: dict[str, object]) -> None:
    story.pod("t/theirs", gpu=1, scheduler="default-scheduler", **gang)

    assert "belongs to the scheduler default-scheduler" in (story.bind("t/theirs", "n1") or "")
    assert story.bound == {}


def test_what_they_have_bound_is_not_free(story: Story) -> None:
    story.pod("t/theirs", gpu=6, scheduler="default-scheduler", node="n1")

    assert story.free("n1") == "2"
