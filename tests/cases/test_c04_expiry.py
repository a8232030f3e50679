"""C04: nine of ten are placed and the tenth never comes; time-outs that are silently ignored."""

from __future__ import annotations

import pytest

from scheduler.errors import ReplayError

from .story import Story

TEN = [f"t/A-{member}" for member in range(10)]


def nine_of_ten(**settings: object) -> Story:
    story = Story(**settings)
    story.node("n1", gpu=10)
    for key in TEN[:9]:
        story.pod(key, gpu=1, gang="A", min=10, options={"timeout": "30s"})
    return story


def add_the_tenth(story: Story) -> None:
    story.pod(TEN[9], gpu=1, gang="A", min=10, options={"timeout": "30s"})


def test_nine_waiting_members_withhold_nothing_from_others() -> None:
    story = nine_of_ten()

    assert story.places(*TEN[:9]) == [[]] * 9
    assert "9 of 10 pods exist" in story.reason(TEN[0])
    assert story.reserved == {}

    story.pod("t/s", gpu=2)
    assert story.bound == {"t/s": "n1"}


def test_reservations_that_nobody_follows_end_all_at_once() -> None:
    story = nine_of_ten(start="nominate")
    add_the_tenth(story)
    for key in TEN[:4]:
        assert story.filter(key, "n1")["nodes"] == ["n1"]
        assert story.bind(key, "n1") == ""
    assert sorted(story.reserved) == TEN[4:]

    story.advance(31)

    assert story.reserved == {}
    assert sorted(story.bound) == TEN[:4]
    assert story.free("n1") == "6", "the bound members still count, the others no longer"
    assert story.stage("t/A") == "broken"
    assert story.effects("record")[-1]["reason"] in ("GangTimedOut", "GangBroken")
    cleared = [line["pod"] for line in story.effects("nominate") if line["node"] == ""]
    assert sorted(cleared) == TEN[4:]


def cleared(story: Story) -> list[str]:
    return [line["pod"] for line in story.effects("nominate") if line["node"] == ""]


@pytest.mark.parametrize("result", ["error", "conflict", "timeout"])
def test_a_nomination_that_could_not_be_taken_away_is_taken_away_later(result: str) -> None:
    """The scheduler leaves it, and it would keep room from others."""
    story = Story(start="nominate", backoff_s=600, backoff_max_s=600, retry_max_s=8)
    story.node("n1", gpu=10)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": "30s"})
    story.fail("clear", result, times=2)

    story.advance(31)
    assert cleared(story) == ["t/A-0"]
    story.advance(8)
    assert cleared(story) == ["t/A-0"] * 2
    story.advance(60)
    assert cleared(story) == ["t/A-0"] * 3, "the third time it was, and that is that"


def test_a_nomination_that_its_own_end_has_overtaken_is_taken_away_later() -> None:
    """Its write was held up: the one that takes it away landed first, on nothing."""
    story = Story(auto=False, start="nominate", backoff_s=600, backoff_max_s=600, retry_max_s=8)
    story.node("n1", gpu=10)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": "30s"})
    story.advance(31)
    assert cleared(story) == ["t/A-0"]

    story.outcome("t/A-0", "ok", "clear")
    story.outcome("t/A-0", "ok", "nominate")
    story.advance(8)

    assert cleared(story) == ["t/A-0"] * 2


def test_a_nomination_that_is_wanted_again_is_not_taken_away() -> None:
    story = Story(start="nominate", backoff_s=4, retry_max_s=8)
    story.node("n1", gpu=10)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": "30s"})
    story.fail("clear", "error", times=1)

    story.advance(31)
    story.advance(20)

    assert story.reserved == {"t/A-0": "n1"}
    assert cleared(story) == ["t/A-0"]


def test_nobody_clears_the_nomination_of_a_pod_that_is_gone() -> None:
    story = Story(start="nominate", backoff_s=600, backoff_max_s=600, retry_max_s=8)
    story.node("n1", gpu=10)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": "30s"})
    story.fail("clear", "error", times=1)

    story.advance(31)
    story.delete("t/A-0")
    story.advance(60)

    assert cleared(story) == ["t/A-0"]


def test_after_a_pause_that_doubles_the_gang_is_planned_anew_around_its_bound_members() -> None:
    story = nine_of_ten(start="nominate", backoff_s=10)
    add_the_tenth(story)
    for key in TEN[:4]:
        story.bind(key, "n1")

    story.advance(31)
    assert story.reserved == {}
    story.advance(9)
    assert sorted(story.reserved) == TEN[4:], "planned again 10 s after the first end"
    story.advance(31)
    story.advance(18)
    assert story.reserved == {}, "the second pause is twice as long"
    story.advance(2)
    assert sorted(story.reserved) == TEN[4:]
    for key in TEN[4:]:
        story.bind(key, "n1")
    assert story.stage("t/A") == "running"


def test_a_binding_whose_outcome_is_not_known_keeps_its_room_past_the_end() -> None:
    story = nine_of_ten(auto=False)
    add_the_tenth(story)
    for key in TEN[:4]:
        story.outcome(key)

    story.advance(31)

    assert story.reserved == {}
    assert story.free("n1") == "6", "the six seats were given back"
    assert story.state["unknown"] == {"n1": TEN[4:]}, "and it is said what may still land there"
    story.pod("t/s", gpu=2)
    assert "t/s" not in story.placed, "nothing new goes there until that is known"
    for key in TEN[4:]:
        story.outcome(key, "gone")
    assert story.placed["t/s"] == "n1" or story.stage("t/A") == "running"


@pytest.mark.parametrize("created", ["2126-01-01T00:00:00Z", "1990-01-01T00:00:00Z", "", "soon"])
def test_creation_times_of_other_clocks_change_nothing(created: str) -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=10)
    for key in TEN:
        story.pod(key, gpu=1, gang="A", min=10, options={"timeout": "30s"}, created=created)

    story.advance(29)
    assert sorted(story.reserved) == TEN
    story.advance(2)
    assert story.reserved == {}


@pytest.mark.parametrize("timeout", ["0", "-1", "1e9", "1000000000", "soon", ""])
def test_an_unusable_timeout_is_refused_in_words(timeout: str) -> None:
    story = Story()
    story.node("n1", gpu=10)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": timeout})

    reason = story.reason("t/A-0")

    assert story.placed == {}
    assert "muster.scheduler/timeout" in reason
    assert len(reason) < 1024


def test_a_long_timeout_is_kept_to_the_second() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=1)
    story.pod("t/A-0", gpu=1, gang="A", options={"timeout": "2000s"})

    story.advance(1999)
    assert story.reserved == {"t/A-0": "n1"}
    story.advance(2)
    assert story.reserved == {}


def test_a_member_that_joins_does_not_lengthen_the_time_of_one_that_hangs() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=10)
    for member in range(2):
        story.pod(f"t/E-{member}", gpu=1, gang="E", min=1, options={"timeout": "30s"})
        story.bind("t/E-0", "n1")
    assert story.reserved == {"t/E-1": "n1"}

    for member in range(2, 5):
        story.advance(9)
        story.pod(f"t/E-{member}", gpu=1, gang="E", min=1, options={"timeout": "30s"})
    story.advance(4)

    assert "t/E-1" not in story.reserved


@pytest.mark.parametrize("name", ["retry_s", "nominate_again_s"])
def test_a_pause_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ReplayError, match=name):
        Story(**{name: 0})


def test_a_thousand_tries_are_not_too_many() -> None:
    story = Story(retry_max_s=1)
    story.node("n1", gpu=8)
    story.fail("bind", "error", times=10_000)
    story.pod("t/A-0", gpu=4, gang="A", options={"timeout": "1h"})

    story.advance(1500)

    assert story.reserved == {"t/A-0": "n1"}
    assert len(story.effects("bind")) > 1100
