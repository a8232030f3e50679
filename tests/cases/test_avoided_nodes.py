"""Nodes that are Ready and take nothing new: health tools say so, or they keep rejecting pods."""

from __future__ import annotations

from typing import Any

import builders
import pytest

from .story import Story


def with_condition(name: str, kind: str, status: str = "True", gpu: int = 4) -> dict[str, Any]:
    """A node of which a health tool says something."""
    node = builders.node(name, gpu=gpu)
    node["status"].setdefault("conditions", []).append({"type": kind, "status": status})
    return node


BY_DEFAULT = ["XidCriticalError", "GpuNvlinkWatch", "SysLogsXIDError", "KernelDeadlock"]


@pytest.mark.parametrize("kind", BY_DEFAULT)
def test_a_node_with_a_fault_takes_no_new_member_until_it_is_well(kind: str) -> None:
    story = Story()
    story.put_node(with_condition("n1", kind))
    story.gang("A", 1, of=4)

    assert story.placed == {}
    assert f"not n1, for instance: condition {kind} is True" in story.reason("t/A-0")
    story.put_node(with_condition("n1", kind, status="False"))
    assert story.placed == {"t/A-0": "n1"}


@pytest.mark.parametrize("kind", ["Ready", "MemoryPressure", "Mine", "GpuWatcher"])
def test_other_conditions_keep_nobody_away(kind: str) -> None:
    story = Story()
    story.put_node(with_condition("n1", kind))
    story.gang("A", 1, of=4)

    assert story.placed == {"t/A-0": "n1"}


def test_the_list_of_conditions_is_a_setting() -> None:
    story = Story(avoid_conditions=["Mine*"])
    story.put_node(with_condition("n1", "MineIsBad"))
    story.put_node(with_condition("n2", "XidCriticalError"))
    story.gang("A", 1, of=4)

    assert story.placed == {"t/A-0": "n2"}


def test_who_runs_there_is_left_alone() -> None:
    story = Story()
    story.node("n1", gpu=4)
    story.gang("A", 2, of=2)
    assert story.stage("t/A") == "running"

    printed = story.put_node(with_condition("n1", "XidCriticalError"))

    assert [line for line in printed if line.get("effect") == "evict"] == []
    assert story.stage("t/A") == "running"
    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}


def test_a_fault_between_plan_and_bind_has_the_whole_gang_planned_anew() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=2)
    story.node("n2", gpu=2)
    story.gang("A", 2, of=2)
    assert sorted(story.reserved.values()) == ["n1", "n2"]
    story.node("n3", gpu=2)

    story.put_node(with_condition("n2", "GPUMissing", gpu=2))

    assert sorted(story.reserved.values()) == ["n1", "n3"]


def test_why_tells_of_nodes_that_are_avoided_beside_others_that_are_too_small() -> None:
    story = Story()
    story.node("n0", gpu=2)
    for name in ("n1", "n2"):
        story.put_node(with_condition(name, "XidCriticalError"))
    story.gang("A", 1, of=4)
    said = "node n1 is avoided: condition XidCriticalError is True; so is 1 more"
    assert said in story.why("t/A")["warnings"]

    story.node("n3", gpu=4)
    assert said not in story.why("t/A").get("warnings", [])


def rejected(story: Story, key: str, reason: str = "OutOfnvidia.com/gpu") -> None:
    """The kubelet refuses to run a pod that was bound to its node."""
    story.pod(key, gpu=4, node=story.bound[key], phase="Failed", status={"reason": reason})
    story.delete(key)


def test_a_node_that_keeps_rejecting_pods_is_avoided_for_a_while() -> None:
    story = Story(avoid_s=300)
    story.node("n1", gpu=4)
    for at in range(3):
        story.pod(f"t/p-{at}", gpu=4)
        assert story.bound[f"t/p-{at}"] == "n1", "once or twice may be a race"
        rejected(story, f"t/p-{at}")

    story.pod("t/late", gpu=4)
    assert "t/late" not in story.placed
    assert "not n1, for instance: it keeps rejecting pods" in story.reason("t/late")

    story.advance(299)
    assert "t/late" not in story.placed
    story.advance(2)
    assert story.placed["t/late"] == "n1"


def test_a_pod_that_fails_by_itself_is_not_its_nodes_fault() -> None:
    story = Story()
    story.node("n1", gpu=4)
    for at in range(4):
        story.pod(f"t/p-{at}", gpu=4)
        rejected(story, f"t/p-{at}", reason="Error")

    story.pod("t/late", gpu=4)

    assert story.placed["t/late"] == "n1"
