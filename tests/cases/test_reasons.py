"""A reason names what is really short, not accelerators whatever it is."""

from __future__ import annotations

from typing import Any

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
