"""No gang is held up by what another one asks for in vain."""

from __future__ import annotations

import pytest
from builders import apart

from .story import Json, Story

KOORDINATOR = "gang.scheduling.koordinator.sh/"


def koordinator(
    story: Story, key: str, gpu: int, size: int = 2, *, pods: Json | None = None, **more: str
) -> None:
    """A gang that Koordinator's annotations declare; ``pods``: what its pods have besides."""
    stated = {"name": key.partition("/")[2], "min-available": str(size), **more}
    annotations = {KOORDINATOR + item: text for item, text in stated.items()}
    for member in range(size):
        story.pod(f"{key}-{member}", gpu=gpu, annotations=annotations, **(pods or {}))


def racks_of_one_node() -> Story:
    story = Story(levels=("topo/rack",), backfill_wait_s=60)
    for number in (1, 2, 3, 4):
        story.node(f"n{number}", gpu=8, rack=f"r{number}")
    return story


# ── nodes are kept only for a gang that they can hold ──


def test_no_nodes_are_kept_for_segments_that_no_rack_can_hold() -> None:
    story = racks_of_one_node()
    segments = {"segment-size": "2", "segment-topology": "rack"}
    story.gang("A", 4, of=8, options=segments)
    story.advance(61)

    story.pod("t/s", gpu=1)

    assert "t/s" in story.placed


def test_no_nodes_are_kept_where_anti_affinity_shuts_them_to_the_gang() -> None:
    story = racks_of_one_node()
    for number in (1, 2, 3, 4):
        story.pod(f"t/h{number}", spec=apart("a"), node=f"n{number}", scheduler="other")
    story.gang("A", 2, of=8, labels={"app": "a"})
    story.advance(61)

    story.pod("t/s", gpu=1)

    assert "t/s" in story.placed


def test_no_nodes_are_kept_for_partners_that_do_not_fit_side_by_side() -> None:
    story = racks_of_one_node()
    for name in ("A", "B"):
        koordinator(story, f"t/{name}", 8, size=4, groups='["t/A", "t/B"]')
    story.advance(61)

    story.pod("t/s", gpu=1)

    assert "t/s" in story.placed


def test_the_nodes_that_are_kept_are_those_that_segments_fit_on() -> None:
    story = Story(levels=("topo/rack",), backfill_wait_s=60)
    for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r3"), ("n4", "r3")):
        story.node(name, gpu=8, rack=rack)
    story.pod("other/x", gpu=8, node="n4", scheduler="default-scheduler")
    story.gang("A", 2, of=8, options={"segment-size": "2", "segment-topology": "rack"})
    story.advance(61)

    for name in ("s1", "s2", "s3"):
        story.pod(f"t/{name}", gpu=8)
    assert {story.placed["t/s1"], story.placed["t/s2"]} == {"n1", "n2"}
    assert "t/s3" not in story.placed, "n3 is kept"

    story.delete("other/x")

    assert {story.placed["t/A-0"], story.placed["t/A-1"]} == {"n3", "n4"}


# ── a refusal is that of the gang which asked ──


@pytest.mark.parametrize("whose", ["of a pod that runs", "of the gang itself"])
def test_anti_affinity_refuses_only_the_gang_that_it_concerns(whose: str) -> None:
    story = Story()
    story.node("n1", gpu=8)
    runs, asks = (apart("x"), {}) if whose == "of a pod that runs" else ({}, apart("h"))
    story.pod("t/h", labels={"app": "h"}, node="n1", scheduler="default-scheduler", spec=runs)

    story.gang("A", 2, of=2, labels={"app": "x"}, spec=asks)
    story.gang("B", 2, of=2, labels={"app": "y"})

    assert set(story.placed) == {"t/h", "t/B-0", "t/B-1"}
    assert "anti-affinity" in story.reason("t/A-0")


# ── partners ──


def test_a_gang_of_another_namespace_cannot_be_made_a_partner() -> None:
    story = Story()
    story.node("n1", gpu=8)

    koordinator(story, "t/a", 16, groups='["u/x", "t/a"]')
    koordinator(story, "u/x", 4)

    assert set(story.bound) == {"u/x-0", "u/x-1"}
    assert story.stage("t/a") == "invalid"
    assert '"u/x", a gang of another namespace' in story.reason("t/a-0")


def test_a_gang_that_names_no_partner_waits_for_none() -> None:
    story = Story()
    story.node("n1", gpu=8)

    koordinator(story, "t/a", 16, groups='["t/x", "t/a"]')
    koordinator(story, "t/x", 4)

    assert set(story.bound) == {"t/x-0", "t/x-1"}


def test_a_gang_that_asks_for_no_partner_starts_while_one_that_names_it_is_short() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("other/x", gpu=4, node="n1", scheduler="default-scheduler")
    story.pod("other/y", gpu=2, node="n1", scheduler="default-scheduler")
    koordinator(story, "t/a", 4, groups='["t/x", "t/a"]')
    koordinator(story, "t/x", 2)
    assert not {"t/a-0", "t/x-0"} & set(story.placed)

    story.delete("other/y")

    assert {pod for pod in story.placed if pod.startswith("t/")} == {"t/x-0", "t/x-1"}


@pytest.mark.parametrize("least", [1, 2])
def test_partners_start_as_soon_as_there_is_room_for_what_each_needs_at_least(least: int) -> None:
    story = Story()
    story.node("n1", gpu=8)
    for number in range(4):
        story.pod(f"other/x{number}", gpu=2, node="n1", scheduler="default-scheduler")
    for name in ("A", "B"):
        annotations = {
            KOORDINATOR + "name": name,
            KOORDINATOR + "min-available": str(least),
            KOORDINATOR + "groups": '["t/A", "t/B"]',
        }
        for member in range(2):
            story.pod(f"t/{name}-{member}", gpu=2, annotations=annotations)

    started = []
    for number in range(4):
        story.delete(f"other/x{number}")
        started.append(sum(pod.startswith("t/") for pod in story.placed))

    assert started == ([0, 2, 3, 4] if least == 1 else [0, 0, 0, 4])


def test_partners_take_what_a_gang_of_lower_priority_has_reserved() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    for number in (1, 2):
        story.pod(f"other/x{number}", gpu=4, node="n1", scheduler="default-scheduler")
    for name in ("A", "B"):
        urgent = {"priority": 10}
        koordinator(story, f"t/{name}", 4, size=1, groups='["t/A", "t/B"]', pods=urgent)
    story.pod("t/low", gpu=4)
    story.delete("other/x1")
    assert story.reserved == {"t/low": "n1"}

    story.delete("other/x2")

    assert set(story.reserved) == {"t/A-0", "t/B-0"}


def test_partners_that_never_fitted_wait_for_room_once_a_node_is_large_enough() -> None:
    story = Story()
    story.node("n1", gpu=4)
    story.pod("other/x", gpu=4, node="n1", scheduler="default-scheduler")
    for name, gpu in (("A", 8), ("B", 4)):
        koordinator(story, f"t/{name}", gpu, size=1, groups='["t/A", "t/B"]')
    assert "never fits" in story.reason("t/A-0")

    story.pod("other/y", gpu=8, node="n2", scheduler="default-scheduler")
    story.node("n2", gpu=8)

    assert "never fits" not in story.reason("t/A-0")
