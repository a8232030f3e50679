"""What made a gang's pods is told of the gang too, once for each real change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.cluster import mirror, owner_events
from scheduler.cluster.events import Note
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.owner_events import OwnerNotes
from scheduler.cluster.resources import Meta
from scheduler.core.messages import Record
from scheduler.model import Declaration, GangKey, GroupKey, Owner, Pod, PodRef

JOB = Owner("Job", "train", "uid-job")


class World:
    """Pods with owners, and a clock."""

    def __init__(self) -> None:
        self.pods: Mirror[Pod] = mirror.pods()
        self.now = 0.0
        self.groups: dict[GroupKey, str] = {}
        self.notes = OwnerNotes(self.pods, lambda: self.now, lambda key: self.groups.get(key, ""))

    def pod(self, name: str, owner: Owner | None) -> PodRef:
        pod = Pod("t", name, f"uid-{name}", owner=owner)
        self.pods.put(Meta("t", name, pod.uid), pod, lambda event: None)
        return pod.ref

    def told(self, *refs: PodRef, reason: str = "GangWaiting", text: str = "no room") -> list[Note]:
        record = Record(1, GangKey("t", "a"), refs, reason, text, warning=True)
        return self.notes.of_record(record)


@pytest.fixture
def world() -> World:
    return World()


def test_the_job_of_many_pods_is_told_once(world: World) -> None:
    refs = [world.pod(f"a-{at}", JOB) for at in range(5)]

    (note,) = world.told(*refs)
    assert (note.kind, note.ref) == ("Job", PodRef("t", "train", "uid-job"))
    assert (note.reason, note.text, note.warning) == ("GangWaiting", "no room", True)


def test_the_same_is_not_said_again_for_a_while_and_another_thing_is(world: World) -> None:
    ref = world.pod("a-0", JOB)
    assert len(world.told(ref)) == 1
    assert world.told(ref) == []
    assert len(world.told(ref, reason="GangBroken")) == 1
    assert len(world.told(ref, text="no room: short by 8")) == 1
    assert world.told(ref) == []
    world.now = owner_events.AGAIN_S + 1
    assert len(world.told(ref)) == 1


def test_another_job_of_that_name_is_told_for_itself(world: World) -> None:
    assert len(world.told(world.pod("a-0", JOB))) == 1
    assert len(world.told(world.pod("a-1", replace_uid(JOB, "uid-new")))) == 1


def replace_uid(owner: Owner, uid: str) -> Owner:
    return owner._replace(uid=uid)


def test_pods_of_nobody_and_pods_that_are_gone_name_no_owner(world: World) -> None:
    alone = world.pod("alone", None)
    unnamed = world.pod("unnamed", Owner("", "x", "u"))
    gone = PodRef("t", "gone", "uid-gone")
    other = replace(Pod(*world.pod("b-0", JOB)), uid="uid-of-before").ref
    assert world.told(alone, unnamed, gone, other) == []


def test_each_of_several_owners_is_told_up_to_a_bound(world: World) -> None:
    owners = [JOB._replace(name=f"job-{at}", uid=f"uid-{at}") for at in range(40)]
    refs = [world.pod(f"a-{at}", owner) for at, owner in enumerate(owners)]
    told = world.told(*refs)
    assert [note.ref.name for note in told] == [f"job-{at}" for at in range(owner_events.OWNERS)]


def test_a_pod_group_that_is_there_is_told_beside_the_owner(world: World) -> None:
    key = GroupKey("PodGroup.scheduling.x-k8s.io", "t", "group")
    declared = Declaration("group", "coscheduling", group=key)
    pod = Pod("t", "a-0", "uid-a-0", owner=JOB, declaration=declared)
    world.pods.put(Meta("t", "a-0", pod.uid), pod, lambda event: None)

    assert [note.kind for note in world.told(pod.ref)] == ["Job"]
    world.groups[key] = "uid-group"
    (note,) = world.told(pod.ref)
    assert (note.kind, note.ref) == ("PodGroup", PodRef("t", "group", "uid-group"))


def test_not_everything_that_was_said_is_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_events, "REMEMBERED", 2)
    ref = world.pod("a-0", JOB)
    for text in ("one", "two", "three"):
        world.told(ref, text=text)
    assert world.told(ref, text="three") == []
    assert len(world.told(ref, text="one")) == 1
