"""Room that is kept for a gang that has waited long, and what becomes of it."""

from __future__ import annotations

from .story import Story


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
