"""C26: topology labels on a part of the nodes only, unknown levels, impossible requirements."""

from __future__ import annotations

import pytest

from .story import Story


def partly_labelled() -> Story:
    story = Story(levels=("topo/rack",))
    story.node("n1", gpu=8, rack="r1")
    story.node("n2", gpu=8, rack="r1")
    story.node("n3", gpu=8)
    story.node("n4", gpu=8)
    story.node("n5", gpu=8, rack="")
    return story


@pytest.mark.parametrize("level", ["rack", "topo/rack"])
def test_only_labelled_nodes_meet_a_requirement(level: str) -> None:
    story = partly_labelled()

    story.gang("A", 2, of=8, options={"topology-required": level})

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}


def test_unlabelled_nodes_are_no_domain_and_neither_are_empty_labels() -> None:
    story = partly_labelled()

    story.gang("A", 3, of=8, options={"topology-required": "rack"})

    answer = story.filter("t/A-0")
    assert "2 of 3 placeable in one rack" in answer["unresolvable"]["muster"]
    why = story.why("t/A")
    assert why["never"] is True
    assert why["best_domain"] == ["r1"]
    assert why["fits_in_best"] == 2


def test_nodes_without_a_label_never_make_up_a_rack_together() -> None:
    story = Story(levels=("topo/rack",))
    story.node("n1", gpu=8, rack="r1")
    for name in ("n2", "n3"):
        story.node(name, gpu=8)
        story.node(f"{name}e", gpu=8, rack="")

    story.gang("A", 2, of=8, options={"topology-required": "rack"})

    assert story.placed == {}


def test_a_preference_takes_unlabelled_nodes_last() -> None:
    story = partly_labelled()

    story.gang("A", 3, of=8, options={"topology-preferred": "rack"})

    nodes = sorted(story.bound.values())
    assert nodes[:2] == ["n1", "n2"]
    assert nodes[2] in ("n3", "n4", "n5")


def test_an_unknown_level_is_named_and_permanent() -> None:
    story = partly_labelled()

    story.gang("A", 2, of=8, options={"topology-required": "zone"})

    answer = story.filter("t/A-0")
    assert "'zone'" in answer["unresolvable"]["muster"]
    assert "topo/rack" in answer["unresolvable"]["muster"]


def test_an_unknown_preference_keeps_nobody_from_starting() -> None:
    story = partly_labelled()

    story.gang("A", 2, of=8, options={"topology-preferred": "zone"})

    assert len(story.bound) == 2
    (told,) = story.state["gangs"]["t/A"]["warnings"]
    assert told == (
        "topology-preferred has no effect: level 'zone' is unknown; known levels: topo/rack"
    )


def test_required_and_preferred_may_be_the_same_level() -> None:
    story = partly_labelled()

    story.gang("A", 2, of=8, options={"topology-required": "rack", "topology-preferred": "rack"})

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}


def test_racks_of_the_same_name_in_two_blocks_are_two_racks() -> None:
    story = Story()
    story.node("n1", gpu=8, block="b1", rack="r1")
    story.node("n2", gpu=8, block="b2", rack="r1")

    story.gang("A", 2, of=8, options={"topology-required": "rack"})
    assert story.placed == {}

    story.node("n3", gpu=8, block="b2", rack="r1")
    assert sorted(story.bound.values()) == ["n2", "n3"]


def test_a_rack_without_its_block_is_no_rack() -> None:
    story = Story()
    story.node("n1", gpu=8, rack="r1")
    story.node("n2", gpu=8, rack="r1")

    story.gang("A", 2, of=8, options={"topology-required": "rack"})

    assert story.placed == {}


def two_blocks() -> Story:
    """Each rack has room for one member."""
    story = Story()
    for block in (1, 2):
        for rack in (1, 2):
            story.node(f"b{block}r{rack}", gpu=8, block=f"b{block}", rack=f"r{rack}")
    return story


RELAXING = {"topology-required": "rack", "topology-relax-after": "1m"}


@pytest.mark.parametrize(("members", "until"), [(2, 60), (3, 120)])
def test_a_requirement_is_relaxed_one_level_at_a_time_while_a_gang_waits(
    members: int, until: float
) -> None:
    story = two_blocks()
    story.gang("A", members, of=8, options=RELAXING)
    assert story.placed == {}
    assert "no room" in story.reason("t/A-0"), "it is not for ever"

    story.advance(until - 1)
    assert story.placed == {}
    story.advance(1)

    assert len(story.placed) == members
    blocks = {node[:2] for node in story.placed.values()}
    assert len(blocks) == (1 if members == 2 else 2)


def test_past_the_broadest_level_nodes_without_labels_will_do() -> None:
    story = Story()
    for name in ("n1", "n2"):
        story.node(name, gpu=8)
    story.gang("A", 2, of=8, options=RELAXING)

    story.advance(119)
    assert story.placed == {}
    story.advance(1)
    assert story.placed == {"t/A-0": "n1", "t/A-1": "n2"}


def test_a_broken_gang_waits_for_its_own_rack_anew_before_that_is_relaxed() -> None:
    story = two_blocks()
    story.node("b1r1n2", gpu=8, block="b1", rack="r1")
    story.gang("A", 2, of=8, options=RELAXING)
    assert set(story.bound.values()) == {"b1r1", "b1r1n2"}
    story.advance(1_000)

    story.delete("t/A-1")
    story.pod("x/late", gpu=8, node="b1r1n2", scheduler="other")
    story.pod("t/A-1", gpu=8, gang="A", min=2, uid="again", options=RELAXING)
    story.advance(59)
    assert "t/A-1" not in story.placed
    story.advance(1)
    assert story.placed["t/A-1"] == "b1r2", "the other rack of its block"


def test_a_gang_starts_once_somebody_describes_the_network() -> None:
    story = Story(levels=())
    story.node("n1", gpu=8, labels={"example.com/leaf": "l1"})
    story.node("n2", gpu=8, labels={"example.com/leaf": "l1"})
    story.gang("A", 2, of=8, options={"topology-required": "example.com/leaf"})
    assert story.placed == {}

    story.object(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": {"name": "default"},
            "spec": {"levels": [{"nodeLabel": "example.com/leaf"}]},
        }
    )

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n2"}
