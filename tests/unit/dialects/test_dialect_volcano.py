"""Volcano: PodGroups, the pods of its Jobs, and Jobs themselves."""

from __future__ import annotations

from typing import Any

import pytest
from cases.story import Story

from scheduler.model import GroupKey, Options
from tests.builders import pod
from tests.unit.dialects.controller_pods import template, volcano, volcano_group, volcano_job
from tests.unit.dialects.reading import annotated, declared, fault, group, read, stated_gang, terms

GROUP = "train-5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11"
KEY = GroupKey("PodGroup.scheduling.volcano.sh", "t", GROUP)
NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
MODE = "volcano.sh/network-topology-mode"
TIER = "volcano.sh/network-topology-highest-tier"


def test_a_pod_of_a_job_names_its_pod_group_its_task_and_its_index() -> None:
    found = read(volcano("worker", 2))
    assert found.declaration == stated_gang(GROUP, "volcano", Options(role="worker"), KEY)
    assert (found.index, found.fault) == (2, "")


@pytest.mark.parametrize("key", NAMES)
def test_either_annotation_names_the_group(key: str) -> None:
    found = declared(pod("t/x", annotations={key: "podgroup-1"}))
    assert found == stated_gang(
        "podgroup-1", "volcano", group=GroupKey("PodGroup.scheduling.volcano.sh", "t", "podgroup-1")
    )


def test_a_minimum_on_the_pod_itself_counts() -> None:
    keys = {NAMES[1]: "A", MIN_MEMBER: "3"}
    assert declared(pod("t/x", annotations=keys)).options == Options(min_available=3)


def test_a_pod_of_a_job_without_its_annotation_has_the_job_read() -> None:
    bare = annotated(volcano("worker", 0), {NAMES[0]: None})
    found = declared(bare)
    assert found.name == "train"
    assert found.group == GroupKey("Job.batch.volcano.sh", "t", "train")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (NAMES[0], ""),
        (NAMES[0], "a b"),
        (NAMES[0], "x" * 254),
        (MIN_MEMBER, "0"),
        (MODE, "rigid"),
        (TIER, "high"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str) -> None:
    assert fault(annotated(volcano("worker", 0), {key: value})).startswith(key)


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ({}, Options()),
        ({"minMember": 0}, Options()),
        ({"minMember": 4}, Options(min_available=4)),
        (
            {"minMember": 5, "minTaskMember": {"master": 1, "worker": 4}},
            Options(min_available=5, role_min=(("master", 1), ("worker", 4))),
        ),
        # Volcano itself ignores the tasks' minima if they are more than the group's.
        ({"minMember": 3, "minTaskMember": {"master": 1, "worker": 4}}, Options(min_available=3)),
        ({"minMember": 4, "minTaskMember": {}}, Options(min_available=4)),
        (
            {"networkTopology": {"mode": "hard", "highestTierName": "rack"}},
            Options(required="rack"),
        ),
        ({"networkTopology": {"highestTierAllowed": 2}}, Options(required="volcano-tier-2")),
        (
            {"networkTopology": {"mode": "soft", "highestTierName": "block"}},
            Options(preferred="block"),
        ),
        ({"networkTopology": {"mode": "soft", "highestTierAllowed": 1}}, Options()),
        (
            {
                "minMember": 8,
                "subGroupPolicy": [
                    {
                        "name": "worker",
                        "subGroupSize": 4,
                        "matchLabelKeys": ["volcano.sh/partition-id"],
                        "networkTopology": {"mode": "hard", "highestTierName": "rack"},
                    }
                ],
            },
            Options(min_available=8, segment_size=4, segment_level="rack"),
        ),
        ({"subGroupPolicy": [{"name": "worker", "subGroupSize": 4}]}, Options()),
    ],
    ids=str,
)
def test_a_pod_group(spec: dict[str, Any], options: Options) -> None:
    found = group(volcano_group(spec))
    assert (found.key, found.options, found.fault) == (KEY, options, "")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"minMember": -1}, "spec.minMember: "),
        ({"minMember": "four"}, "spec.minMember: "),
        ({"minTaskMember": {"w": "x"}}, "spec.minTaskMember: "),
        ({"minTaskMember": [1]}, "spec.minTaskMember: "),
        ({"networkTopology": {"mode": "rigid"}}, "spec.networkTopology: mode: "),
        ({"networkTopology": {"highestTierAllowed": "x"}}, "spec.networkTopology: highestTier"),
        ({"subGroupPolicy": [{"subGroupSize": "x"}]}, "spec.subGroupPolicy[0].subGroupSize: "),
    ],
    ids=str,
)
def test_a_pod_group_that_cannot_be_used_says_where(spec: dict[str, Any], path: str) -> None:
    assert group(volcano_group(spec)).fault.startswith(path)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({MODE: "hard", TIER: "2"}, Options(role="worker", required="volcano-tier-2")),
        ({TIER: "1"}, Options(role="worker", required="volcano-tier-1")),
        ({MODE: "soft", TIER: "2"}, Options(role="worker")),
        ({MODE: "hard"}, Options(role="worker")),
    ],
    ids=str,
)
def test_topology_on_the_pods(keys: dict[str, str], options: Options) -> None:
    assert declared(annotated(volcano("worker", 0), keys)).options == options


def task(name: str, replicas: int, gpu: int | None = 4, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": template(gpu), **more}


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ({"tasks": [task("w", 4)]}, Options(min_available=4, size=4)),
        ({"tasks": [task("m", 1), task("w", 4)]}, Options(min_available=5, size=5)),
        ({"minAvailable": 3, "tasks": [task("w", 4)]}, Options(min_available=3)),
        ({"tasks": [task("w", 4, minAvailable=2)]}, Options(min_available=2)),
        (
            {"tasks": [task("w", 4), task("m", 1, dependsOn={"name": ["w"]})]},
            Options(min_available=5, size=5, first=4),
        ),
        (
            {"tasks": [task("w", 4), task("m", 1, None, dependsOn={"name": ["w"]})]},
            Options(min_available=4, size=5),
        ),
    ],
    ids=str,
)
def test_a_job(spec: dict[str, Any], options: Options) -> None:
    assert terms(volcano_job(spec)) == options


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "spec.tasks: "),
        ({"tasks": [task("w", -1)]}, "spec.tasks[0].replicas: "),
        ({"tasks": [task("w", 1, minAvailable="x")]}, "spec.tasks[0].minAvailable: "),
        ({"minAvailable": "x", "tasks": [task("w", 1)]}, "spec.minAvailable: "),
    ],
    ids=str,
)
def test_a_job_that_cannot_be_used_says_where(spec: dict[str, Any], path: str) -> None:
    assert group(volcano_job(spec)).fault.startswith(path)


HARD = {"mode": "hard", "highestTierName": "rack"}


def task(replicas: int, **more: object) -> dict[str, object]:
    return {"name": "worker", "replicas": replicas, **more}


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        (
            [task(8, partitionPolicy={"partitionSize": 4, "networkTopology": HARD})],
            Options(min_available=8, size=8, segment_size=4, segment_level="rack"),
        ),
        (
            [task(8, partitionPolicy={"partitionSize": 4, "networkTopology": {"mode": "soft"}})],
            Options(min_available=8, size=8),
        ),
        (
            [
                task(8, partitionPolicy={"partitionSize": 4, "networkTopology": HARD}),
                {"name": "master", "replicas": 1},
            ],
            Options(min_available=9, size=9),
        ),
    ],
    ids=["alone", "soft", "with others"],
)
def test_partitions_of_the_only_task_are_segments(
    tasks: list[dict[str, object]], options: Options
) -> None:
    assert terms(volcano_job({"tasks": tasks})) == options


def test_a_job_asks_for_its_topology_too() -> None:
    spec = {"tasks": [task(2)], "networkTopology": {"mode": "hard", "highestTierAllowed": 2}}
    assert terms(volcano_job(spec)).required == "volcano-tier-2"


def test_a_partition_that_cannot_be_read_is_the_jobs_fault() -> None:
    policy = {"partitionSize": "four", "networkTopology": HARD}
    found = group(volcano_job({"tasks": [task(8, partitionPolicy=policy)]}))
    assert found.fault.startswith("spec.tasks[0].partitionPolicy.partitionSize: ")


def sub_group(tier: str) -> dict[str, object]:
    near = {"mode": "hard", "highestTierName": tier} if tier else {"mode": "soft"}
    return {"name": f"s{tier}", "subGroupSize": 2, "networkTopology": near}


@pytest.mark.parametrize(
    ("policies", "warned"),
    [
        ([sub_group("rack")], False),
        ([sub_group("rack"), sub_group("rack")], False),
        ([sub_group("rack"), {**sub_group("rack"), "subGroupSize": 3}], True),
        ([sub_group("rack"), sub_group("row")], True),
        ([sub_group("rack"), sub_group("")], True),
        ([sub_group(""), sub_group("")], False),
    ],
)
def test_tiers_of_unlike_sub_groups_are_told_not_to_be_kept(
    policies: list[dict[str, object]], warned: bool
) -> None:
    found = group(volcano_group({"minMember": 4, "subGroupPolicy": policies}))
    assert (bool(found.warnings), found.fault) == (warned, "")


def test_tiers_of_unlike_tasks_are_told_not_to_be_kept() -> None:
    policy = {"partitionSize": 4, "networkTopology": HARD}
    alone, other = task(8, partitionPolicy=policy), {"name": "master", "replicas": 1}
    assert group(volcano_job({"tasks": [alone]})).warnings == ()
    (warning,) = group(volcano_job({"tasks": [alone, other]})).warnings
    assert warning.startswith("spec.tasks[].partitionPolicy: ")


def test_why_tells_what_the_pod_group_does_not_get() -> None:
    story = Story()
    policies = [sub_group("rack"), sub_group("row")]
    story.object(volcano_group({"minMember": 2, "subGroupPolicy": policies}))
    story.put_pod(volcano("worker", 0))
    (gang,) = story.state["gangs"]
    (warning,) = [text for text in story.why(gang)["warnings"] if "is not kept" in text]
    assert warning.startswith("PodGroup.scheduling.volcano.sh t/train-")


@pytest.mark.parametrize("field", ["topologyAffinity", "subGroupTopologyAffinity"])
def test_rules_between_groups_are_told_not_to_be_kept(field: str) -> None:
    domain = {"topologyTierName": "rack"}
    term = {"topologyDomain": domain, "podGroupSelector": {"matchLabels": {"app": "a"}}}
    rules = {"podGroupAntiAffinity": {"required": [term]}}
    found = group(volcano_group({"minMember": 4, field: rules}))
    assert (found.options.min_available, found.fault) == (4, "")
    (warning,) = found.warnings
    assert warning.startswith(f"spec.{field}: rules between groups are not kept")
    assert group(volcano_group({"minMember": 4, field: {}})).warnings == ()


def test_a_tier_that_all_must_share_anyway_is_kept() -> None:
    near = {"mode": "hard", "highestTierName": "rack"}
    policies = [sub_group("rack"), {**sub_group("rack"), "subGroupSize": 3}]
    found = group(
        volcano_group({"minMember": 5, "networkTopology": near, "subGroupPolicy": policies})
    )
    assert (found.options.required, found.warnings) == ("rack", ())


def test_several_sub_groups_alike_are_segments() -> None:
    policies = [sub_group("rack"), {**sub_group("rack"), "name": "other"}]
    found = group(volcano_group({"minMember": 4, "subGroupPolicy": policies}))
    assert (found.options.segment_size, found.options.segment_level) == (2, "rack")
