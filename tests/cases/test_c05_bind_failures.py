"""C05: a member goes between filter and bind; a Binding fails, or only its reply is lost."""

from __future__ import annotations

import pytest

from .story import Story


def pair(**settings: object) -> Story:
    story = Story(**settings)
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)
    return story


def test_a_member_deleted_before_bind_takes_the_plan_with_it() -> None:
    story = pair(start="nominate")
    assert story.places("t/A-0", "t/A-1") == [["n1"], ["n1"]]

    story.delete("t/A-1")

    assert story.reserved == {}
    error = story.bind("t/A-0", "n1")
    assert error, "half a gang is not bound"
    assert "t/A-0" in error
    story.pod("t/s", gpu=8)
    assert story.placed == {"t/s": "n1"}, "nothing leaked"


@pytest.mark.parametrize("result", ["error", "timeout", "conflict"])
def test_a_binding_that_fails_once_is_sent_again(result: str) -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("bind", result, pod="t/A-0")
    story.gang("A", 2, of=4)
    assert story.placed == {"t/A-0": "n1", "t/A-1": "n1"}

    story.advance(2)

    assert story.stage("t/A") == "running"
    assert story.free("n1") == "0"


def test_the_pause_between_two_tries_doubles_up_to_sixteen_seconds() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("bind", "error", times=1000)
    story.pod("t/A-0", gpu=4, gang="A", options={"timeout": "2m"})

    sent = []
    for second in range(119):
        sent += [second for line in story.advance(1) if line.get("effect") == "bind"]

    assert sent == [0, 2, 6, 14, 30, 46, 62, 78, 94, 110]


@pytest.mark.parametrize("result", ["error", "timeout", "conflict", "gone"])
def test_a_binding_that_always_fails_leaks_nothing(result: str) -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.fail("bind", result, pod="t/A-0", times=10_000)
    story.gang("A", 2, of=4, options={"timeout": "30s"})
    story.advance(300)

    story.delete("t/A-0")
    story.delete("t/A-1")
    story.advance(300)

    assert story.reserved == {}
    assert story.free("n1") == "8"
    story.pod("t/s", gpu=8)
    assert story.placed == {"t/s": "n1"}


def test_a_pod_that_the_api_server_no_longer_has_gives_its_room_back() -> None:
    story = pair(auto=False)
    story.outcome("t/A-0", "gone")
    story.outcome("t/A-1", "gone")

    assert story.reserved == {}
    assert story.free("n1") == "8"


def test_a_node_that_is_lost_before_the_binding_is_replaced_at_once() -> None:
    story = Story(auto=False)
    story.node("n1", gpu=4)
    story.node("n2", gpu=4)
    story.gang("A", 2, of=4)
    lost, kept = story.reserved["t/A-0"], story.reserved["t/A-1"]
    story.node("n3", gpu=4)

    story.delete(lost, "Node")
    story.outcome("t/A-0", "gone")

    assert story.reserved == {"t/A-0": "n3", "t/A-1": kept}


@pytest.mark.parametrize("change", ["cordoned", "shrunk", "gone"])
def test_a_failed_binding_is_not_sent_again_to_a_node_that_can_no_longer_take_it(
    change: str,
) -> None:
    story = Story(auto=False)
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4)
    story.node("n2", gpu=8)
    if change == "cordoned":
        story.node("n1", gpu=8, unschedulable=True)
    elif change == "shrunk":
        story.node("n1", gpu=3)
    else:
        story.delete("n1", "Node")

    story.outcome("t/A-0", "error")
    story.outcome("t/A-1", "error")
    story.advance(20)

    assert [line["node"] for line in story.effects("bind")] == ["n1", "n1", "n2", "n2"]


def test_a_lost_reply_is_one_binding_however_often_bind_is_called() -> None:
    story = Story(start="nominate")
    story.node("n1", gpu=8)
    story.fail("bind", "lost", pod="t/A-0")
    story.gang("A", 2, of=4)

    story.bind("t/A-0", "n1")
    errors = [story.bind("t/A-0", "n1") for _ in range(3)]
    story.advance(30)

    assert errors == ["", "", ""]
    assert story.bound["t/A-0"] == "n1"
    assert len([line for line in story.effects("bind") if line["pod"] == "t/A-0"]) == 1


def test_bound_elsewhere_is_an_error_and_changes_nothing() -> None:
    story = pair()
    story.node("n2", gpu=8)
    before = story.state

    error = story.bind("t/A-0", "n2")

    assert "bound to n1 already" in str(error)
    assert story.state == before


def test_another_uid_is_an_error_and_binds_nothing() -> None:
    story = pair(start="nominate")

    error = story.bind("t/A-0", "n1", uid="somebody-else")

    assert "somebody-else" in str(error)
    assert story.bound == {}
    assert sorted(story.reserved) == ["t/A-0", "t/A-1"]


def test_a_reply_that_is_lost_keeps_its_room_when_the_gang_is_given_up() -> None:
    story = pair(auto=False)
    story.outcome("t/A-0", "timeout")

    story.delete("t/A-1")
    story.outcome("t/A-1", "gone")
    story.pod("t/s", gpu=8)

    assert "t/s" not in story.placed, "t/A-0 may be on n1"
    story.pod("t/A-0", gpu=4, gang="A", min=2, node="n1")
    story.pod("t/s2", gpu=4)
    assert story.placed["t/s2"] == "n1"


def test_a_lost_reply_stays_in_doubt_when_its_retry_is_cancelled() -> None:
    story = pair(auto=False)
    story.outcome("t/A-0", "timeout")
    story.advance(1)
    story.delete("t/A-1")
    story.outcome("t/A-1", "gone")

    story.outcome("t/A-0", "error")
    story.pod("t/s", gpu=8)

    assert "t/s" not in story.placed, "the first Binding of t/A-0 may have landed"
    story.advance(61)
    assert story.placed["t/s"] == "n1", "nobody believes so for ever"


def test_a_late_reply_that_is_lost_shuts_its_own_node() -> None:
    story = Story(auto=False)
    story.node("n1", gpu=8)
    story.gang("A", 2, of=4, options={"timeout": "10s"})
    story.node("n2", gpu=8)
    story.advance(21)
    assert story.reserved == {"t/A-0": "n2", "t/A-1": "n2"}, "n1 is shut while two may land there"

    story.outcome("t/A-0", "timeout")
    story.outcome("t/A-1", "gone")
    story.pod("t/s", gpu=8)

    assert "t/s" not in story.placed


def test_a_seat_whose_binding_failed_may_be_taken_by_a_gang_of_higher_priority() -> None:
    story = Story(auto=False)
    story.node("n1", gpu=8)
    story.pod("t/low", gpu=8)
    story.pod("t/high", gpu=8, priority=10)
    assert story.reserved == {"t/low": "n1"}, "its Binding may land any moment"

    story.outcome("t/low", "error")

    assert story.reserved == {"t/high": "n1"}


def test_a_seat_that_an_older_binding_kept_from_being_given_back_goes_with_its_gang() -> None:
    story = Story(auto=False, start="nominate", backoff_s=1)
    story.node("n1", gpu=4)
    story.gang("A", 2, of=2, options={"timeout": "20s"})
    story.bind("t/A-0", "n1")
    story.advance(20)
    assert story.reserved == {}, "its time is over; one Binding is on its way"
    story.node("n2", gpu=2)
    story.node("n3", gpu=2)
    story.advance(1)
    assert sorted(story.reserved.values()) == ["n2", "n3"], "it is planned anew elsewhere"

    story.node("n1", gpu=4, unschedulable=True)
    story.delete(story.reserved["t/A-1"], "Node")
    story.outcome("t/A-0", "error")

    assert len(story.reserved) in (0, 2), "never half a gang"


def test_a_seat_in_doubt_no_longer_holds_the_rest_of_its_gang_near_it() -> None:
    """Its room does not come free, as it may be bound there: no gain has the gang tried again."""
    story = Story(levels=["topo/rack"], auto=False)
    story.node("n1", gpu=4, rack="r1")
    story.node("n2", gpu=8, rack="r2")
    near = {"gang": "A", "min": 2, "gpu": 2, "options": {"topology-required": "rack"}}
    for name in ("A-0", "A-1", "A-2"):
        story.pod(f"t/{name}", **near)
    assert story.reserved == {"t/A-0": "n1", "t/A-1": "n1"}
    story.outcome("t/A-1")
    story.node("n1", gpu=4, rack="r1", unschedulable=True)
    story.delete("t/A-1")
    assert story.reserved == {"t/A-0": "n1"}, "t/A-2 has to join it, and cannot"

    story.outcome("t/A-0", "timeout")

    assert story.reserved == {"t/A-0": "n2", "t/A-2": "n2"}
