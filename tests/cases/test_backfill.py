"""Room that is kept for a gang that has waited long, and what becomes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from builders import apart

from scheduler.errors import SettingsError
from scheduler.settings import from_mapping

from .story import Story
from .test_hostages import koordinator


def waiting_long() -> Story:
    """A needs three nodes, two are there for it in time: n1, n2 empty, n3 busy."""
    story = Story(backfill_wait_s=60)
    for name in ("n1", "n2", "n3"):
        story.node(name, gpu=4)
    story.pod("other/x", gpu=4, node="n3", scheduler="default-scheduler")
    story.gang("A", 3, of=4)
    story.advance(61)
    return story


def test_small_jobs_may_pass_at_first_and_no_longer_once_the_wait_is_long() -> None:
    story = Story(backfill_wait_s=60)
    for name in ("n1", "n2", "n3"):
        story.node(name, gpu=4)
    story.pod("other/x", gpu=4, node="n3", scheduler="default-scheduler")
    story.gang("A", 3, of=4)
    story.pod("t/early", gpu=1)
    assert story.bound["t/early"] in ("n1", "n2")

    story.advance(61)
    story.pod("t/late", gpu=1)

    assert "t/late" not in story.placed


def test_a_gang_that_can_never_fit_any_more_keeps_nothing_from_others() -> None:
    story = waiting_long()
    story.pod("t/s", gpu=4)
    assert "t/s" not in story.placed, "all three nodes are kept for A"

    story.delete("n3", "Node")

    assert story.placed["t/s"] in ("n1", "n2")


def test_room_is_kept_no_longer_than_until_the_gang_has_started() -> None:
    story = waiting_long()
    story.node("n4", gpu=4)
    assert {pod for pod in story.bound if "A" in pod} == {"t/A-0", "t/A-1", "t/A-2"}

    story.delete("other/x")
    story.pod("t/s", gpu=4)

    assert "t/s" in story.placed


def test_a_gang_that_is_changed_so_that_it_never_fits_keeps_nothing_from_others() -> None:
    story = waiting_long()
    story.pod("t/s", gpu=4)
    assert "t/s" not in story.placed, "all three nodes are kept for A"

    for member in range(3):
        story.pod(f"t/A-{member}", gpu=5, gang="A", min=3)

    assert story.why("t/A")["never"] is True
    assert story.placed.get("t/s") in ("n1", "n2")


def test_a_gang_that_never_fitted_has_nodes_kept_once_there_is_a_node_more() -> None:
    story = Story(backfill_wait_s=60)
    for name in ("n1", "n2"):
        story.node(name, gpu=4)
    story.pod("other/x", gpu=4, node="n1", scheduler="default-scheduler")
    story.gang("A", 3, of=4)
    assert story.why("t/A")["never"] is True

    story.pod("other/y", gpu=4, node="n3", scheduler="default-scheduler")
    story.node("n3", gpu=4)
    story.advance(61)
    story.pod("t/s", gpu=1)

    assert story.reason("t/A-0").startswith("gang t/A: no room"), "it fits when others have ended"
    assert "t/s" not in story.placed


# ── the first in the queue, for whom none can be kept ──


def full_racks() -> Story:
    """Three nodes in racks of their own, which others fill."""
    story = Story(levels=("topo/rack",), backfill_wait_s=60)
    for number in (1, 2, 3):
        story.node(f"n{number}", gpu=4, rack=f"r{number}")
        story.pod(f"other/x{number}", gpu=4, node=f"n{number}", scheduler="default-scheduler")
    return story


def partners_that_do_not_fit_side_by_side(story: Story) -> None:
    for name in ("A1", "A2"):
        koordinator(story, f"t/{name}", 4, size=2, groups='["t/A1", "t/A2"]')


def a_gang_that_needs_a_node_which_is_shut(story: Story) -> None:
    story.node("n4", gpu=4, rack="r4", unschedulable=True)
    story.gang("A", 4, of=4)


def segments_that_no_rack_holds(story: Story) -> None:
    story.gang("A", 2, of=4, options={"segment-size": "2", "segment-topology": "rack"})


def a_gang_that_others_keep_off(story: Story) -> None:
    story.pod("t/rival", spec=apart("a"), node="n1", scheduler="other")
    story.gang("A", 3, of=4, labels={"app": "a"})


@pytest.mark.parametrize(
    "first",
    [
        partners_that_do_not_fit_side_by_side,
        a_gang_that_needs_a_node_which_is_shut,
        segments_that_no_rack_holds,
        a_gang_that_others_keep_off,
    ],
)
def test_where_nothing_can_be_kept_for_the_first_it_is_for_the_next(
    first: Callable[[Story], None],
) -> None:
    story = full_racks()
    first(story)
    story.gang("B", 2, of=4)
    story.advance(61)
    story.pod("t/s", gpu=1)

    story.delete("other/x1")
    assert "t/s" not in story.placed, "what has come free is kept for B"

    story.delete("other/x2")
    assert {pod for pod in story.bound if "B" in pod} == {"t/B-0", "t/B-1"}


@pytest.mark.parametrize("unfit", ["A1", "A2"])
def test_partners_of_whom_one_never_fits_say_so_whatever_is_free(unfit: str) -> None:
    story = full_racks()
    for name in ("A1", "A2"):
        asked = 8 if name == unfit else 4
        koordinator(story, f"t/{name}", asked, size=1, groups='["t/A1", "t/A2"]')
    texts = {name: story.reason(f"t/{name}-0") for name in ("A1", "A2")}
    assert all("never fits: 0 of 1 placeable" in text for text in texts.values())

    story.delete("other/x1")
    story.advance(120)

    assert {name: story.reason(f"t/{name}-0") for name in texts} == texts


def test_once_nodes_can_be_kept_for_the_first_they_are() -> None:
    story = full_racks()
    a_gang_that_needs_a_node_which_is_shut(story)
    story.gang("B", 2, of=4)
    story.advance(61)
    story.pod("t/s", gpu=1)

    story.node("n4", gpu=4, rack="r4")
    assert "t/s" not in story.placed, "all four are kept for A, not two of the others for B"

    for number in (1, 2, 3):
        story.delete(f"other/x{number}")
    assert {pod for pod in story.bound if "A" in pod} == {f"t/A-{member}" for member in range(4)}


# ── how much may stand idle ──


def test_for_a_gang_as_large_as_the_cluster_it_is_tried_now_and_then_and_longer_each_time() -> None:
    story, clock = waiting_long(), 61
    tries = [(61, 65), (120, 131), (240, 263), (480, 527)]
    pauses = [(66, 119), (132, 239), (264, 479), (528, 959)]

    for second in sorted(itertools.chain(*tries, *pauses)):
        story.advance(second - clock)
        clock = second
        story.pod("t/s", gpu=1)
        kept = any(first <= second <= last for first, last in tries)
        assert ("t/s" in story.placed) is not kept, f"at {second} s"
        story.delete("t/s")


def test_a_gang_as_large_as_the_cluster_starts_once_a_try_is_as_long_as_what_runs() -> None:
    story = Story(backfill_wait_s=60)
    for name in ("n1", "n2", "n3"):
        story.node(name, gpu=4)
    ends: dict[str, int] = {}
    for second in range(0, 15 * 20 + 60, 5):
        for pod in [pod for pod, end in ends.items() if end <= second]:
            story.delete(pod)
            del ends[pod]
        story.pod(f"t/s{second}", gpu=3)
        if second == 20:
            story.gang("A", 3, of=4)
        for pod in story.bound:
            if pod.startswith("t/s"):
                ends.setdefault(pod, second + 15)
        story.advance(5)

    assert {pod for pod in story.bound if "A" in pod} == {"t/A-0", "t/A-1", "t/A-2"}


@pytest.mark.parametrize("wait", [0, 60])
def test_for_a_tenth_of_the_cluster_nodes_are_kept_for_as_long_as_it_takes(wait: float) -> None:
    story = Story(backfill_wait_s=wait)
    for number in range(10):
        story.node(f"n{number}", gpu=4)
        story.pod(f"other/x{number}", gpu=4, node=f"n{number}", scheduler="default-scheduler")
    story.gang("A", 2, of=2)
    story.advance(61)
    story.pod("t/s", gpu=1)
    story.delete("n9", "Node")
    story.delete("other/x9")

    for _ in range(20):
        story.advance(600)
        story.pod("other/x0", gpu=3, node="n0", scheduler="default-scheduler")
        assert "t/s" not in story.bound, "what comes free on n0 is kept for A, one of ten nodes"

    story.delete("other/x0")
    assert {"t/A-0", "t/A-1"} <= set(story.bound)


def test_where_all_that_runs_says_when_it_ends_the_nodes_are_kept_until_then() -> None:
    story = Story(backfill_wait_s=60)
    for number in (1, 2):
        story.node(f"n{number}", gpu=4)
        story.pod(f"t/x{number}", gpu=3, node=f"n{number}", options={"max-runtime": "300s"})
    story.gang("A", 2, of=4)
    story.advance(70)

    story.pod("t/s", gpu=1)
    assert "t/s" not in story.placed, "the first try is over, but the end is known"
    story.pod("t/short", gpu=1, options={"max-runtime": "200s"})
    assert "t/short" in story.placed

    story.advance(240)
    for name in ("x1", "x2", "short"):
        assert "t/s" not in story.placed, "10 s late are waited for"
        story.delete(f"t/{name}")
    assert {"t/A-0", "t/A-1"} <= set(story.bound)


def test_where_what_runs_takes_much_longer_than_it_says_the_nodes_are_opened() -> None:
    story = Story(backfill_wait_s=60)
    story.node("n1", gpu=4)
    story.pod("t/x", gpu=3, node="n1", options={"max-runtime": "100s"})
    story.gang("A", 1, of=4)
    story.advance(70)
    story.pod("t/s", gpu=1)
    assert "t/s" not in story.placed

    story.advance(100)

    assert "t/s" in story.placed


def test_of_two_gangs_as_large_as_the_cluster_the_second_is_tried_once_the_first_has_gone() -> None:
    story = Story(backfill_wait_s=60)
    for name in ("n1", "n2"):
        story.node(name, gpu=4)
    story.pod("other/x", gpu=1, node="n1", scheduler="default-scheduler")
    story.gang("A", 2, of=4)
    story.advance(40)
    story.gang("B", 2, of=4)

    story.advance(62)
    story.pod("t/s1", gpu=1)
    assert "t/s1" in story.placed, "102 s: A pauses, and B, which has waited for 62 s, waits on"
    for member in (0, 1):
        story.delete(f"t/A-{member}")
    story.pod("t/s2", gpu=1)
    assert "t/s2" not in story.placed, "now it is B that has its try"


def test_where_a_gang_may_idle_the_whole_cluster_nodes_are_kept_for_as_long_as_it_takes() -> None:
    story = Story(backfill_wait_s=60, backfill_share=1)
    story.node("n1", gpu=4)
    story.pod("other/x", gpu=1, node="n1", scheduler="default-scheduler")
    story.gang("A", 1, of=4)
    story.advance(100)

    story.pod("t/s", gpu=1)

    assert "t/s" not in story.placed


@pytest.mark.parametrize("value", [0, -1, 1.01, "half", True, None, "nan", [0.1], 10**400])
def test_what_is_no_share_is_refused_by_the_name_of_the_setting(value: object) -> None:
    with pytest.raises(SettingsError, match=r"'backfill_share': .* is not a share from 0.001 to 1"):
        from_mapping({"backfill_share": value})
