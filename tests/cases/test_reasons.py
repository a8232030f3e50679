"""A reason names what is really short, not accelerators whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases.story import Story


def why(story: Story, gang: str) -> dict[str, Any]:
    """The last answer to ``why``."""
    return story.why(gang)


def test_memory_that_no_node_has() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/a", gpu=1, memory="50E", gang="a")
    found = why(story, "t/a")
    assert found["never"] is True
    assert list(found["short_by"]) == ["memory"]
    assert "nvidia.com/gpu" not in found["reason"]


def test_a_host_port_that_is_taken() -> None:
    story = Story()
    story.node("n1", gpu=8)
    port = [{"containerPort": 23456, "hostPort": 23456}]
    container = {"name": "c", "ports": port, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    story.pod("t/x", gpu=1, spec={"containers": [container]})
    story.pod("t/a", gpu=1, gang="a", spec={"containers": [container]})
    found = why(story, "t/a")
    assert "host port 23456 is taken" in found["reason"]
    assert "short_by" not in found


def test_a_level_of_which_no_node_has_the_labels() -> None:
    story = Story(levels=["topo/block", "topo/rack"])
    story.node("n1", gpu=8, rack="r1")
    story.pod("t/a", gpu=1, gang="a", options={"topology-required": "rack"})
    found = why(story, "t/a")
    assert "no node has the labels topo/block and topo/rack" in found["reason"]


def test_a_member_whose_only_node_is_not_ready() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n9", ready=False, labels={"x": "y"})
    for index in range(2):
        story.pod(f"t/w-{index}", gpu=4, gang="a", min=3)
    story.pod("t/m", gang="a", min=3, spec={"nodeSelector": {"x": "y"}})
    found = why(story, "t/a")
    assert "no usable node for t/m" in found["reason"]
    assert "nvidia.com/gpu" not in found.get("short_by", {})
    assert found["never"] is False


def test_free_accelerators_that_do_not_lie_with_free_cpu() -> None:
    story = Story()
    story.node("n1", gpu=8, cpu="1")
    story.node("n2", gpu=0, cpu="64")
    story.pod("t/a", gpu=1, cpu="4", gang="a")
    found = why(story, "t/a")
    assert "does not lie together" in found["reason"]


def test_unlike_members_that_ask_for_more_than_all_nodes_have_never_fit() -> None:
    story = Story()
    for name in ("n1", "n2"):
        story.node(name, gpu=8)
    for index in range(3):
        story.pod(f"t/a-{index}", gpu=8, cpu=str(index + 1), gang="a", min=3)
    assert why(story, "t/a")["never"] is True


def test_members_that_keep_off_each_other_by_their_own_port() -> None:
    story = Story()
    for name in ("n1", "n2"):
        story.node(name, gpu=8)
    port = [{"containerPort": 29500, "hostPort": 29500}]
    container = {"name": "c", "ports": port, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    for index in range(3):
        story.pod(f"t/a-{index}", gpu=1, gang="a", min=3, spec={"containers": [container]})

    found = why(story, "t/a")

    assert "own host port 29500 allows one on a node, and 2 nodes may take them" in found["reason"]
    assert "is taken" not in found["reason"]


def test_a_level_that_may_mean_two() -> None:
    story = Story(levels=["a.io/rack", "b.io/rack"])
    story.node("n1", gpu=8)
    story.pod("t/a", gpu=1, gang="a", options={"topology-required": "rack"})

    reason = why(story, "t/a")["reason"]

    assert "'rack' may mean a.io/rack or b.io/rack" in reason
    assert "unknown" not in reason


def test_a_role_that_lacks_members_is_named() -> None:
    story = Story()
    story.node("n1", gpu=8)
    wish = {"role-min": '{"ps": 1, "worker": 2}'}
    for index in range(3):
        story.pod(f"t/w-{index}", gpu=1, gang="a", role="worker", options=wish)

    assert "1 more of role ps" in story.reason("t/w-0")


def test_members_that_disagree_are_told_of_it_once_and_the_largest_number_counts() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for index, least in enumerate((2, 3)):
        story.pod(f"t/a-{index}", gpu=1, gang="a", min=least)
    said = "members differ in min-available: 2 and 3; 3 counts"

    assert story.state["gangs"]["t/a"]["warnings"] == [said]
    assert said in why(story, "t/a")["warnings"]
    story.pod("t/a-2", gpu=1, gang="a", min=3)

    warnings = [line for line in story.effects("record") if line["reason"] == "GangWarning"]
    assert [said in line["message"] for line in warnings] == [True]
    assert story.stage("t/a") == "running"


def test_indexes_that_two_members_have_are_told() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for index in range(2):
        story.pod(f"t/a-{index}", gpu=1, gang="a", min=2, index=1)

    told = story.state["gangs"]["t/a"]["warnings"]

    assert told == ["2 members have the index 1; they are ranked by name"]
    assert "GangWarning" in [line["reason"] for line in story.effects("record")]


def test_a_gang_that_says_one_thing_has_no_warnings() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("a", 2, of=1)

    assert "warnings" not in story.state["gangs"]["t/a"]


def test_a_minimum_on_the_pods_replaces_all_that_their_group_says() -> None:
    story = Story()
    story.node("n1", gpu=2)
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "t"},
        "spec": {"minMember": 4, "minTaskMember": {"worker": 4}},
    }
    story.object(group)
    named = {"scheduling.k8s.io/group-name": "a", "volcano.sh/task-spec": "worker"}
    own = {"muster.scheduler/min-available": "2"}

    for index in range(2):
        story.pod(f"t/a-{index}", gpu=1, annotations=named | own)

    assert story.stage("t/a") == "running"


def test_a_reason_is_short_however_much_is_asked_for() -> None:
    story = Story()
    story.node("n1", gpu=8)
    many = {f"example.com/{'r' * 40}-{number}": "1" for number in range(60)}
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", **many}}}
    story.pod("t/a", gang="a", spec={"containers": [container]})
    roles = {f"{'r' * 40}-{number}": 1 for number in range(60)}
    for number in range(60):
        story.pod(f"t/b-{number}", gpu=1, gang="b", options={"role-min": json.dumps(roles)})

    for gang in ("t/a", "t/b"):
        assert 50 < len(why(story, gang)["reason"]) <= 1000


def test_a_selector_or_a_taint_that_shuts_all_nodes_is_named() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/a", gpu=4, spec={"nodeSelector": {"pool": "spot"}})
    assert why(story, "t/a#pod")["reason"].endswith("not n1, for instance: node selector pool=spot")

    story.node("n1", gpu=8, taints=["pool:NoSchedule"])
    story.pod("t/b", gpu=4)

    found = why(story, "t/b#pod")
    assert found["reason"].endswith("not n1, for instance: untolerated taint pool:NoSchedule")
    assert "short_by" not in found


def test_more_kinds_of_members_than_are_planned_never_fit() -> None:
    story = Story()
    story.node("n1", gpu=64)
    for number in range(17):
        tolerated = [{"key": f"k{number}", "operator": "Exists"}]
        story.pod(f"t/a-{number}", gpu=1, gang="a", min=17, spec={"tolerations": tolerated})

    found = why(story, "t/a")

    assert found["never"] is True
    assert "17 kinds of members" in found["reason"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"segment-topology": "rack"}, "segment-topology has no effect"),
        ({"topology-relax-after": "10m"}, "topology-relax-after has no effect"),
        ({"topology-relax-after": "10m", "topology-required": "rack"}, ""),
        ({"segment-topology": "rack", "segment-size": "2"}, ""),
    ],
    ids=str,
)
def test_a_key_that_means_nothing_without_another_one_is_told(
    options: dict[str, str], told: str
) -> None:
    story = Story()
    story.node("n1", gpu=8, block="b", rack="r")
    story.gang("A", 2, of=1, options=options, cpu="8", memory="32Gi")

    warnings = story.state["gangs"]["t/A"].get("warnings", [])
    assert bool(warnings) == bool(told)
    assert all(text.startswith(told) for text in warnings)
