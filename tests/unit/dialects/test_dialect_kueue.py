"""Kueue: groups of plain pods, and the topology requests of whatever it admits."""

from __future__ import annotations

import json

import pytest
from cases.story import Story

from scheduler.model import Options
from tests.unit.dialects.controller_pods import job_pod, kueue
from tests.unit.dialects.reading import annotated, declared, fault, labelled, read, stated_gang

PREFIX = "kueue.x-k8s.io/"
GROUP, TOTAL = PREFIX + "pod-group-name", PREFIX + "pod-group-total-count"
LAYERS = PREFIX + "podset-slice-required-topology-constraints"


def test_a_pod_group_is_all_or_nothing() -> None:
    found = read(kueue(1, 3))
    assert found.declaration == stated_gang("A", "kueue", Options(min_available=3, size=3))
    assert (found.index, found.fault) == (1, "")


def test_gates_keep_the_pod_gated() -> None:
    gates = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
    assert read(kueue(0, 3, gates=gates)).gates == tuple(gates)


def test_the_groups_name_may_be_an_annotation() -> None:
    pod = annotated(labelled(kueue(0, 2), {GROUP: None}), {GROUP: "B"})
    assert declared(pod).name == "B"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (GROUP, ""),
        (GROUP, "a b"),
        (TOTAL, None),
        (TOTAL, "0"),
        (TOTAL, "all"),
        (PREFIX + "podset-required-topology", ""),
        (PREFIX + "podset-slice-size", "x"),
        (PREFIX + "podset-unconstrained-topology", "yes"),
        (PREFIX + "podset-group-name", ""),
        (LAYERS, "x"),
        (LAYERS, "[]"),
        (LAYERS, '[{"topology":"rack"}]'),
        (LAYERS, '[{"topology":"","size":2}]'),
        (LAYERS, '[{"topology":"block","size":4},{"topology":"rack","size":3}]'),
        (LAYERS, '[{"topology":"rack","size":2},{"topology":"block","size":4}]'),
        (LAYERS, '[{"topology":"block","size":4},{"topology":"rack"}]'),
        (LAYERS, '[{"topology":"block","size":4},null]'),
        (LAYERS, "[" + ",".join(['{"topology":"rack","size":1}'] * 4) + "]"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str | None) -> None:
    pod = kueue(0, 2)
    changed = labelled(pod, {key: value}) if key == GROUP else annotated(pod, {key: value})
    assert fault(changed).startswith(key)


TOPOLOGY = [
    ({"podset-required-topology": "topo/rack"}, Options(required="topo/rack")),
    ({"podset-preferred-topology": "topo/rack"}, Options(preferred="topo/rack")),
    ({"podset-unconstrained-topology": "true"}, Options()),
    (
        {
            "podset-required-topology": "topo/block",
            "podset-slice-required-topology": "topo/rack",
            "podset-slice-size": "4",
        },
        Options(required="topo/block", segment_level="topo/rack", segment_size=4),
    ),
    ({"podset-slice-size": "4"}, Options()),
    (
        {"podset-slice-required-topology-constraints": '[{"topology":"topo/rack","size":"4"}]'},
        Options(segment_level="topo/rack", segment_size=4),
    ),
    (
        {
            "podset-slice-required-topology-constraints": json.dumps(
                [
                    {"topology": "topo/block", "size": 16},
                    {"topology": "topo/rack", "size": 4},
                    {"topology": "kubernetes.io/hostname", "size": 2},
                ]
            )
        },
        Options(
            segment_size=2,
            segment_level="kubernetes.io/hostname",
            segment_within=((4, "topo/rack"), (16, "topo/block")),
        ),
    ),
]


@pytest.mark.parametrize(("keys", "options"), TOPOLOGY, ids=str)
def test_topology_counts_on_the_pods_of_any_workload(
    keys: dict[str, str], options: Options
) -> None:
    stated = {PREFIX + key: value for key, value in keys.items()}
    assert declared(annotated(job_pod("train", 0), stated)).options == options


@pytest.mark.parametrize(("value", "first"), [("true", 1), ("false", None), ("x", None)])
def test_pods_that_are_admitted_at_once_may_come_one_by_one(value: str, first: int | None) -> None:
    pod = annotated(kueue(0, 3), {PREFIX + "pod-group-fast-admission": value})
    assert declared(pod).options == Options(min_available=3, size=3, first=first)


def test_a_group_of_one_has_no_phases() -> None:
    pod = annotated(kueue(0, 1), {PREFIX + "pod-group-fast-admission": "true"})
    assert declared(pod).options == Options(min_available=1, size=1)


def test_a_group_whose_pods_wait_for_each_other_starts_one_by_one() -> None:
    """As a StatefulSet makes them: the second pod when the first one runs."""
    story = Story()
    for number in range(2):
        story.node(f"n{number}", gpu=8, block="b1", rack="r1")
    fast = {PREFIX + "pod-group-fast-admission": "true"}
    story.put_pod(annotated(kueue(0, 3), fast))
    assert list(story.bound) == ["t/A-0"]
    story.pod("t/other", gang="B", min=1, gpu=8)
    assert "t/other" not in story.bound, "room for the rest is kept"
    story.put_pod(annotated(kueue(1, 3), fast))
    story.put_pod(annotated(kueue(2, 3), fast))
    assert sorted(story.bound) == ["t/A-0", "t/A-1", "t/A-2"]


def test_a_group_that_cannot_have_room_for_all_does_not_begin() -> None:
    story = Story()
    story.node("n0", gpu=8, block="b1", rack="r1")
    story.put_pod(annotated(kueue(0, 3), {PREFIX + "pod-group-fast-admission": "true"}))
    assert story.bound == {}


def in_blocks() -> Story:
    """Three blocks of two racks, each of which has room for two members."""
    story = Story()
    for block in ("b1", "b2", "b3"):
        for rack in ("r1", "r2"):
            story.node(f"{block}{rack}", gpu=8, block=block, rack=rack)
    return story


def with_layers(story: Story, *members: int) -> None:
    """Members of a group of eight: fours in a block, pairs of them in a rack."""
    layers = [{"topology": "topo/block", "size": 4}, {"topology": "topo/rack", "size": 2}]
    for at in members:
        story.put_pod(annotated(kueue(at, 8), {LAYERS: json.dumps(layers)}))


def test_slices_of_slices_are_kept_and_lost_members_come_back_to_theirs() -> None:
    story = in_blocks()
    with_layers(story, *range(8))
    assert len(story.placed) == 8

    def places(pods: range) -> set[str]:
        return {story.placed[f"t/A-{at}"] for at in pods}

    assert all(len(places(range(at, at + 2))) == 1 for at in range(0, 8, 2))
    assert all(len({name[:2] for name in places(range(at, at + 4))}) == 1 for at in (0, 4))

    for lost in ((1,), (2, 3), (4, 5, 6, 7)):
        for at in lost:
            story.delete(f"t/A-{at}")
        with_layers(story, *lost)
        assert all(len(places(range(at, at + 2))) == 1 for at in range(0, 8, 2)), lost
        assert all(len({name[:2] for name in places(range(at, at + 4))}) == 1 for at in (0, 4))


def test_a_pair_whose_block_has_no_room_waits_and_goes_to_no_other_block() -> None:
    story = in_blocks()
    with_layers(story, *range(8))
    rack = story.placed["t/A-0"]
    story.node(rack, gpu=8, block=rack[:2], rack=rack[2:], unschedulable=True)
    for at in (0, 1):
        story.delete(f"t/A-{at}")
    with_layers(story, 0, 1)
    assert len(story.placed) == 6, "the third block is empty, and is not theirs"

    story.node(rack, gpu=8, block=rack[:2], rack=rack[2:])
    assert {story.placed["t/A-0"], story.placed["t/A-1"]} == {rack}
