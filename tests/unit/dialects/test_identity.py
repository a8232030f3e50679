"""Whose gang is it: a name means one gang of one kind in one namespace."""

from __future__ import annotations

from typing import Any

import pytest
from builders import in_group, pod_group

from scheduler import decode
from scheduler.model import Declaration
from tests.cases.story import Story
from tests.unit.dialects import controller_pods as made

Json = dict[str, Any]

JOB, TORCH = "t/train#Job.batch", "t/train#PyTorchJob.kubeflow.org"


def kind(pod: Json) -> str:
    found = decode.pod(pod).declaration
    assert isinstance(found, Declaration)
    return found.kind


def torch(index: int) -> Json:
    variables = made.env(PET_NNODES=2)
    return made.kubeflow("worker", index, name="train", variables=variables)


def room() -> Story:
    story = Story()
    for number in range(4):
        story.node(f"n{number}", gpu=4, block="b1", rack="r1")
    return story


def test_a_job_and_a_pytorchjob_of_one_name_are_two_gangs() -> None:
    story = room()
    story.object(made.job(2, 2))
    story.put_pod(made.job_pod("train", 0))
    story.put_pod(torch(0))
    assert story.bound == {}, "neither of them is complete"
    assert (story.stage(JOB), story.stage(TORCH)) == ("forming", "forming")
    story.put_pod(torch(1))
    assert sorted(story.bound) == ["t/train-worker-0", "t/train-worker-1"]
    assert (story.stage(JOB), story.stage(TORCH)) == ("forming", "running")
    story.put_pod(made.job_pod("train", 1))
    assert len(story.bound) == 4
    story.restart()
    assert (story.stage(JOB), story.stage(TORCH)) == ("running", "running")


def test_the_kind_is_shown_only_while_two_share_a_name() -> None:
    story = room()
    story.put_pod(torch(0))
    assert story.stage("t/train") == "forming"
    story.object(made.job(2, 2))
    story.put_pod(made.job_pod("train", 0))
    assert sorted(story.state["gangs"]) == [JOB, TORCH]
    story.delete("t/train-0-abc12")
    assert sorted(story.state["gangs"]) == ["t/train"]


@pytest.mark.parametrize("name", [TORCH, "t/train#pytorchjob", "t/train#PyTorchJob"])
def test_one_of_two_is_asked_for_by_its_kind(name: str) -> None:
    story = room()
    story.object(made.job(3, 3))
    story.put_pod(made.job_pod("train", 0))
    story.put_pod(torch(0))
    assert story.why(name)["gang"] == TORCH
    assert story.why(name)["missing_pods"] == 1
    assert story.why("t/train#job")["missing_pods"] == 2


def test_a_pod_group_named_like_a_jobset_is_another_gang() -> None:
    story = room()
    story.object(pod_group("t/train", min=2))
    story.object(made.jobset_object(made.replicated("node", 2)))
    story.put_pod(made.pod("other-0", gpu=4, **in_group("train", kind="native")))
    story.put_pod(made.jobset("node", 0, 0))
    assert story.bound == {}
    story.put_pod(made.jobset("node", 0, 1))
    assert len(story.bound) == 2
    assert "t/other-0" not in story.bound


def test_pod_groups_of_two_api_groups_are_two_gangs() -> None:
    assert kind(made.pod("a", **in_group("A", kind="native"))) == "PodGroup.scheduling.k8s.io"
    assert kind(made.kai("a", group="A")) == "PodGroup.scheduling.run.ai"


@pytest.mark.parametrize("kind", ["PodGroup.scheduling.x-k8s.io", "PodGroup"])
def test_pod_groups_of_one_name_may_come_and_go_alone(kind: str) -> None:
    story = room()
    story.object(pod_group("t/A", min=2, kind="coscheduling"))
    if kind != "PodGroup":
        story.object(pod_group("t/A", min=3))
    story.delete("t/A", kind=kind)
    story.put_pod(made.pod("a-0", gpu=4, **in_group("A", kind="coscheduling")))
    assert "does not exist" in story.reason("t/a-0")
    story.put_pod(made.pod("b-0", gpu=4, **in_group("A", kind="native")))
    native = story.reason("t/b-0")
    assert ("1 of 3 pods exist" in native) == (kind != "PodGroup")


def test_all_spellings_of_one_declaration_name_one_gang() -> None:
    """Koordinator's annotation and the labels that it shares mean the same group."""
    told = made.pod("a-0", gpu=4, labels={"scheduling.x-k8s.io/pod-group": "A"})
    story = room()
    story.object(pod_group("t/A", min=2, kind="coscheduling"))
    story.put_pod(told)
    story.put_pod(made.koordinator("a-1"))
    assert sorted(story.bound) == ["t/a-0", "t/a-1"]


def test_our_own_name_stands_by_itself() -> None:
    assert kind(made.pod("a", gang="train")) == ""
    story = room()
    story.pod("t/extra", gang="train", min=2, gpu=4)
    story.put_pod(torch(0))
    assert story.bound == {}
    assert story.stage("t/train#named") == "forming"


def test_the_same_name_in_two_namespaces_is_two_gangs() -> None:
    story = room()
    story.pod("t/a-0", gang="A", min=2, gpu=4)
    story.pod("u/a-0", gang="A", min=2, gpu=4)
    assert story.bound == {}
    assert (story.stage("t/A"), story.stage("u/A")) == ("forming", "forming")


def test_a_new_owner_of_the_same_kind_and_name_is_a_new_generation() -> None:
    story = room()
    story.object(made.job(2, 2))
    old = made.job_pod("train", 0, created=1)
    story.put_pod(old)
    fresh = made.job_pod("train", 1, owner=("Job", "train", "uid-2"), created=2)
    story.put_pod(fresh)
    assert story.bound == {}, "a pod of the old Job must not complete the new one's gang"


@pytest.mark.parametrize("value", ["u/A", "u/A/b", "/A"])
def test_a_gang_of_another_namespace_cannot_be_named(value: str) -> None:
    found = decode.pod(made.pod("a", labels={"scheduling.x-k8s.io/pod-group": value}))
    assert found.declaration is None
    assert "is not a name" in found.fault


def test_partners_are_of_the_same_kind() -> None:
    """Two Koordinator gangs that start together do not wait for a Job of the partner's name."""
    story = room()
    groups = '["t/A", "t/B"]'
    story.object(made.job(2, 2, name="B"))
    story.put_pod(made.job_pod("B", 0))
    story.put_pod(made.koordinator("a-0", "A", min_available="1", groups=groups))
    assert story.bound == {}
    story.put_pod(made.koordinator("b-0", "B", min_available="1", groups=groups))
    assert sorted(story.bound) == ["t/a-0", "t/b-0"]
