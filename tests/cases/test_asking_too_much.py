"""A pod that asks for more than can be compared with the cluster holds up nobody but its gang."""

from __future__ import annotations

from typing import Any

import pytest
from builders import apart

from scheduler.decode import limits

from .story import Story

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def many_conditions() -> dict[str, Any]:
    asked = [{"key": f"k{at}", "operator": "DoesNotExist"} for at in range(limits.CONDITIONS)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


def many_rules() -> dict[str, Any]:
    spec = apart("nobody", "topo/rack")
    spec["affinity"]["podAntiAffinity"][REQUIRED] *= limits.RULES + 1
    return spec


def one_node() -> Story:
    story = Story()
    story.node("n1", gpu=8, rack="r1")
    return story


@pytest.mark.parametrize(
    ("spec", "field"),
    [(many_conditions(), "spec.affinity.nodeAffinity"), (many_rules(), "podAntiAffinity")],
)
def test_its_gang_is_told_the_pod_and_the_field_and_others_start(
    spec: dict[str, Any], field: str
) -> None:
    story = one_node()
    story.pod("t/A-0", gang="A", min=2, gpu=1)
    story.pod("t/A-1", gang="A", min=2, gpu=1, spec=spec)

    story.gang("B", 2, of=1)

    assert set(story.placed) == {"t/B-0", "t/B-1"}
    told = story.reason("t/A-1")
    assert told.startswith("pod t/A-1 cannot be used: ")
    assert field in told
    assert "that are planned with" in told
    assert "1 faulty" in story.reason("t/A-0")
    assert field in story.why("t/A")["faults"]["t/A-1"]


@pytest.mark.parametrize("spec", [many_conditions(), many_rules()])
def test_a_plain_pod_passes_whatever_it_asks_for(spec: dict[str, Any]) -> None:
    story = one_node()
    story.pod("t/web", spec=spec)

    assert story.filter("t/web", "n1")["nodes"] == ["n1"]
    assert story.bind("t/web", "n1") == ""
    assert story.bound == {"t/web": "n1"}


def test_where_a_pod_runs_with_too_much_anti_affinity_the_scheduler_judges_the_others() -> None:
    story = one_node()
    story.pod("other/x", node="n1", scheduler="default-scheduler", spec=many_rules())

    story.gang("A", 2, of=1)

    assert story.reserved == {"t/A-0": "n1", "t/A-1": "n1"}
    assert len(story.effects("nominate")) == 2, "they may be among those that it keeps off"


def test_a_member_that_no_longer_asks_for_too_much_is_planned_with() -> None:
    story = one_node()
    story.pod("t/A-0", gang="A", min=1, gpu=1, spec=many_conditions(), gates=["hold"])
    story.pod("t/A-0", gang="A", min=1, gpu=1)

    assert story.placed == {"t/A-0": "n1"}
