"""KAI: PodGroups that its grouper makes, with sub-groups."""

from __future__ import annotations

from typing import Any

import pytest
from cases.story import Story

from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import job_pod, kai, kai_group
from tests.unit.dialects.reading import annotated, declared, fault, group, stated_gang

KEY = GroupKey("PodGroup.scheduling.run.ai", "t", "pg-train-1")
PREFIX = "kai.scheduler/"


def sub(name: str, least: int | None = None, level: str = "", **more: Any) -> dict[str, Any]:
    near = {"topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": level}}
    return {"name": name, "minMember": least, **(near if level else {}), **more}


def pairs(level: str, above: str) -> list[dict[str, Any]]:
    """Two sub-groups of two sub-groups of two."""
    parents = [sub(name, None, above) for name in ("p1", "p2")]
    names = [(parent, child) for parent in ("p1", "p2") for child in "ab"]
    return [*parents, *(sub(f"{up}-{name}", 2, level, parent=up) for up, name in names)]


def test_a_pod_names_its_group_and_its_sub_group() -> None:
    assert declared(kai("a")) == stated_gang("pg-train-1", "kai", group=KEY)
    assert declared(kai("a", subgroup="workers")).options == Options(role="workers")


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ({}, Options(min_available=1)),
        ({"minMember": 4}, Options(min_available=4)),
        (
            {"minMember": 5, "subGroups": [sub("head", 1), sub("workers", 4)]},
            Options(min_available=5, role_min=(("head", 1), ("workers", 4))),
        ),
        (
            {"minMember": 4, "subGroups": [sub("all", 4), sub("w", 4, parent="all")]},
            Options(min_available=4, role_min=(("w", 4),)),
        ),
        (
            {
                "minMember": None,
                "minSubGroup": 2,
                "subGroups": [sub("a", 4), sub("b", 4), sub("c", 2)],
            },
            Options(min_available=6),
        ),
        (
            {"minMember": 8, "subGroups": [sub("a", 4, "topo/rack"), sub("b", 4, "topo/rack")]},
            Options(
                min_available=8,
                role_min=(("a", 4), ("b", 4)),
                segment_size=4,
                segment_level="topo/rack",
            ),
        ),
        (
            {
                "minMember": 2,
                "topologyConstraint": {
                    "topology": "cluster",
                    "requiredTopologyLevel": "topo/block",
                    "preferredTopologyLevel": "topo/rack",
                },
            },
            Options(min_available=2, required="topo/block", preferred="topo/rack"),
        ),
        ({"topologyConstraint": {"requiredTopologyLevel": ""}}, Options(min_available=1)),
        (
            {"minMember": 4, "subGroups": [sub("a", 4, "topo/rack")]},
            Options(min_available=4, role_min=(("a", 4),), required="topo/rack"),
        ),
        (
            {"minMember": 8, "subGroups": pairs("topo/rack", "topo/block")},
            Options(
                min_available=8,
                role_min=tuple((name, 2) for name in ("p1-a", "p1-b", "p2-a", "p2-b")),
                segment_size=2,
                segment_level="topo/rack",
                segment_within=((4, "topo/block"),),
            ),
        ),
        (
            {"minMember": 8, "subGroups": pairs("", "topo/block")},
            Options(
                min_available=8,
                role_min=tuple((name, 2) for name in ("p1-a", "p1-b", "p2-a", "p2-b")),
                segment_size=4,
                segment_level="topo/block",
            ),
        ),
    ],
    ids=str,
)
def test_a_pod_group(spec: dict[str, Any], options: Options) -> None:
    found = group(kai_group(spec))
    assert (found.key, found.options, found.fault) == (KEY, options, "")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"minMember": "x"}, "spec.minMember: "),
        ({"subGroups": [{"name": "a b"}]}, "spec.subGroups: [0].name: "),
        (
            {"subGroups": [sub("a"), {"name": "b", "minMember": -1}]},
            "spec.subGroups: [1].minMember",
        ),
        ({"topologyConstraint": {"requiredTopologyLevel": "a b"}}, "spec.topologyConstraint: "),
    ],
    ids=str,
)
def test_a_pod_group_that_cannot_be_used_says_where(spec: dict[str, Any], path: str) -> None:
    assert group(kai_group(spec)).fault.startswith(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pod-group-name", ""),
        (PREFIX + "topology-required-placement", "a b"),
        (PREFIX + "segment-size", "0"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str) -> None:
    assert fault(annotated(kai("a"), {key: value})).startswith(key)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (
            {"topology": "cluster", "topology-required-placement": "topo/rack"},
            Options(required="topo/rack"),
        ),
        ({"topology-preferred-placement": "topo/rack"}, Options(preferred="topo/rack")),
        ({"segment-topology-preferred-placement": "topo/rack"}, Options()),
        (
            {"segment-size": "2", "segment-topology-preferred-placement": "topo/rack"},
            Options(),
        ),
        ({"segment-size": "2"}, Options()),
        (
            {"segment-size": "2", "segment-topology-required-placement": "topo/rack"},
            Options(segment_size=2, segment_level="topo/rack"),
        ),
    ],
    ids=str,
)
def test_topology_counts_on_the_pods_of_any_workload(
    keys: dict[str, str], options: Options
) -> None:
    stated = {PREFIX + key: value for key, value in keys.items()}
    assert declared(annotated(job_pod("train", 0), stated)).options == options


def test_segments_may_stand_in_the_pod_group() -> None:
    near = {"segmentSize": 4, "segmentRequiredTopologyLevel": "topo/rack"}
    found = group(kai_group({"minMember": 16, "topologyConstraint": near}))
    assert found.options == Options(min_available=16, segment_size=4, segment_level="topo/rack")


@pytest.mark.parametrize("more", [{}, {"segmentPreferredTopologyLevel": "topo/rack"}], ids=str)
def test_segments_of_a_pod_group_that_need_not_share_a_level_ask_for_nothing(
    more: dict[str, str],
) -> None:
    near = {"segmentSize": 4, **more}
    found = group(kai_group({"minMember": 16, "topologyConstraint": near}))
    assert (found.options, found.fault) == (Options(min_available=16), "")


def test_segments_that_would_rather_share_a_rack_start_where_none_has_room_for_one() -> None:
    story = Story()
    for number in range(2):
        story.node(f"n{number}", gpu=4, block="b1", rack=f"r{number}")
    keys = {PREFIX + "segment-size": "2", PREFIX + "segment-topology-preferred-placement": "rack"}
    story.object(kai_group({"minMember": 2}))
    for number in range(2):
        story.put_pod(annotated(kai(f"a-{number}"), keys))
    assert story.bound == {"t/a-0": "n0", "t/a-1": "n1"}


def test_levels_of_unlike_sub_groups_are_told_not_to_be_kept() -> None:
    near = {"requiredTopologyLevel": "topo/rack"}
    like = [{"name": name, "minMember": 2, "topologyConstraint": near} for name in "ab"]
    assert group(kai_group({"subGroups": like})).warnings == ()
    unlike = [*like, {"name": "c", "minMember": 1}]
    found = group(kai_group({"subGroups": unlike}))
    assert found.fault == ""
    assert found.warnings[0].startswith("spec.subGroups: ")


@pytest.mark.parametrize(
    ("groups", "warned"),
    [
        (pairs("topo/rack", "topo/block"), False),
        ([*pairs("topo/rack", "topo/block"), sub("p2-c", 2, "topo/rack", parent="p2")], True),
        ([sub("p", None, "topo/block"), sub("a", 2, parent="p"), sub("b", 1)], True),
        ([sub("x", 2, "topo/block"), sub("y", 4, "topo/block")], True),
        ([sub("a", 2, parent="b"), sub("b", 2, parent="a"), sub("c", 1, parent="a")], False),
    ],
    ids=str,
)
def test_levels_of_parents_are_kept_or_told_not_to_be(
    groups: list[dict[str, Any]], warned: bool
) -> None:
    found = group(kai_group({"minMember": 4, "subGroups": groups}))
    assert (bool(found.warnings), found.fault) == (warned, "")


def chain(parts: int) -> list[dict[str, Any]]:
    """Sub-groups of which each is a part of the one before."""
    return [sub(f"s{at}", 1, parent=f"s{at - 1}" if at else "") for at in range(parts)]


def test_sub_groups_lie_in_each_other_as_deep_as_networks_are_and_no_deeper() -> None:
    deepest = group(kai_group({"subGroups": chain(17)}))
    assert (deepest.fault, deepest.options.role_min) == ("", (("s16", 1),))
    assert "is a part of more than 16 others" in group(kai_group({"subGroups": chain(18)})).fault
    assert (
        "is a part of more than 16 others" in group(kai_group({"subGroups": chain(30_000)})).fault
    )


def test_parents_whose_ranks_would_lie_in_between_each_other_are_told_not_to_be_kept() -> None:
    mixed = [sub(name, 2, "topo/rack", parent=up) for name, up in zip("abcd", "pqpq", strict=True)]
    parents = [sub(name, None, "topo/block") for name in "pq"]
    found = group(kai_group({"minMember": 8, "subGroups": [*parents, *mixed]}))
    assert found.options.segment_within == ()
    assert found.warnings[0].startswith("spec.subGroups: ")


def test_a_level_that_all_must_share_anyway_is_kept() -> None:
    near = {"requiredTopologyLevel": "topo/rack"}
    groups = [sub("a", 2, "topo/rack"), sub("b", 4)]
    found = group(kai_group({"topologyConstraint": near, "subGroups": groups}))
    assert (found.options.required, found.warnings) == ("topo/rack", ())


def test_sub_groups_of_sub_groups_are_placed_in_their_domains() -> None:
    story = Story()
    for block in ("b1", "b2"):
        for rack in ("r1", "r2", "r3"):
            story.node(f"{block}{rack}", gpu=8, block=block, rack=rack)
    spec = {"minMember": 8, "subGroups": pairs("topo/rack", "topo/block")}
    story.object(kai_group(spec))
    for part in ("p1-a", "p1-b", "p2-a", "p2-b"):
        for at in range(2):
            story.put_pod(kai(f"{part}-{at}", subgroup=part))

    racks = {part: {story.placed[f"t/{part}-{at}"] for at in range(2)} for part in ("p1-a", "p1-b")}
    racks |= {
        part: {story.placed[f"t/{part}-{at}"] for at in range(2)} for part in ("p2-a", "p2-b")
    }
    assert all(len(nodes) == 1 for nodes in racks.values())
    blocks = {part: nodes.copy().pop()[:2] for part, nodes in racks.items()}
    assert blocks["p1-a"] == blocks["p1-b"]
    assert blocks["p2-a"] == blocks["p2-b"]
