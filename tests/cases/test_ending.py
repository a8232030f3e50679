"""The pods of a gang end one by one; those that wait are asked once the last has ended."""

from __future__ import annotations

from .story import Story


def succeed(story: Story, pod: str) -> None:
    """A pod of a gang of two has done its work."""
    gang = pod[2:].partition("-")[0]
    story.pod(pod, gpu=8, gang=gang, min=2, node=story.bound[pod], phase="Succeeded")


def two_that_run_while_others_wait(**settings: object) -> Story:
    """R has both nodes; L is first in the queue and needs both, s needs one of them."""
    story = Story(**settings)
    for name in ("n1", "n2"):
        story.node(name, gpu=8)
    story.gang("R", 2, of=8)
    story.gang("L", 2, of=8)
    story.pod("t/s", gpu=8)
    assert set(story.placed) == {"t/R-0", "t/R-1"}
    return story


def test_the_room_of_a_gang_that_ends_is_given_away_as_one() -> None:
    story = two_that_run_while_others_wait()

    succeed(story, "t/R-0")
    succeed(story, "t/R-1")

    assert set(story.placed) == {"t/L-0", "t/L-1"}


def test_a_member_that_goes_on_is_waited_for_no_longer_than_stated() -> None:
    story = two_that_run_while_others_wait(settle_s=5)
    succeed(story, "t/R-0")
    story.advance(4)
    assert "t/s" not in story.placed

    story.advance(2)

    assert story.placed["t/s"] == "n1"


def test_gangs_that_end_all_the_time_put_nobody_off_for_ever() -> None:
    story = Story(settle_s=5)
    for number in range(6):
        story.node(f"n{number}", gpu=8)
    for number in range(3):
        story.gang(f"R{number}", 2, of=8)
    story.pod("t/s", gpu=8)

    for number in range(3):
        succeed(story, f"t/R{number}-0")
        story.advance(2.5)

    assert "t/s" in story.placed


def test_without_a_pause_the_first_that_fits_has_it() -> None:
    story = two_that_run_while_others_wait(settle_s=0)

    succeed(story, "t/R-0")

    assert story.placed["t/s"] == "n1"
