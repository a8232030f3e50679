"""KAI: PodGroups that its grouper makes, with sub-groups."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import job_pod, kai, kai_group
from tests.unit.dialects.reading import annotated, declared, fault, group, stated_gang

KEY = GroupKey("PodGroup.scheduling.run.ai", "t", "pg-train-1")
PREFIX = "kai.scheduler/"


def sub(name: str, least: int | None = None, level: str = "", **more: Any) -> dict[str, Any]:
    near = {"topologyConstraint": {"topology": "cluster", "requiredTopologyLevel": level}}
    return {"name": name, "minMember": least, **(near if level else {}), **more}


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


def test_levels_of_unlike_sub_groups_are_told_not_to_be_kept() -> None:
    near = {"requiredTopologyLevel": "topo/rack"}
    like = [{"name": name, "minMember": 2, "topologyConstraint": near} for name in "ab"]
    assert group(kai_group({"subGroups": like})).warnings == ()
    unlike = [*like, {"name": "c", "minMember": 1}]
    found = group(kai_group({"subGroups": unlike}))
    assert found.fault == ""
    assert found.warnings[0].startswith("spec.subGroups: ")
