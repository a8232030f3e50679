"""A replica that stands by knows the world, answers for it, and begins to act when it leads."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.core.messages import Bind, EffectDone, NodeSeen, Outcome, PodSeen, Synced
from scheduler.service import Service
from scheduler.settings import Settings
from service.scripted import ManualTimer, RecordingActuator
from tests import builders


class Replica:
    """A service with the real engine that stands by, and what it would write."""

    def __init__(self) -> None:
        self.actuator = RecordingActuator()
        self.service = Service(
            Settings(), self.actuator, timer=ManualTimer(), leads=False, leader=lambda: "other_1"
        )
        self.service.start()

    def sees(self) -> None:
        """A node of eight GPUs, a gang that fits, and one that lacks a member."""
        self.service.post(NodeSeen(decode.node(builders.node("n1", gpu=8))))
        for at in range(2):
            self.pod(f"t/a-{at}", gang="a", min=2, gpu=4)
        self.pod("t/b-0", gang="b", min=2, gpu=4)

    def pod(self, key: str, **more: Any) -> None:
        self.service.post(PodSeen(decode.pod(builders.pod(key, **more))))

    def gang(self, name: str) -> dict[str, Any]:
        return next(gang for gang in self.service.gangs() if gang["key"] == f"t/{name}")

    def bound(self) -> list[str]:
        return [str(item.ref) for item in self.actuator.submitted if isinstance(item, Bind)]


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_it_is_ready_with_the_first_list_and_writes_nothing(replica: Replica) -> None:
    assert not replica.service.ready
    replica.sees()
    replica.service.post(Synced())

    assert replica.service.ready
    assert not replica.service.leads
    assert replica.service.leader == "other_1"
    assert replica.actuator.submitted == []


def test_its_views_say_how_gangs_stand(replica: Replica) -> None:
    replica.sees()
    replica.service.post(Synced())

    assert (replica.gang("a")["state"], replica.gang("a")["members"]) == ("queued", 2)
    assert replica.gang("b")["state"] == "forming"
    why = replica.service.why("t/b")
    assert why is not None
    assert why["missing_pods"] == 1
    replica.pod("t/b-1", gang="b", min=2, gpu=4)
    assert replica.gang("b")["state"] == "queued"
    assert replica.actuator.submitted == []


def test_when_it_leads_it_starts_what_it_has_seen(replica: Replica) -> None:
    replica.sees()
    replica.service.post(Synced())
    replica.service.lead()

    assert replica.service.leads
    assert replica.bound() == ["t/a-0", "t/a-1"]


def test_who_leads_before_the_first_list_begins_with_it(replica: Replica) -> None:
    replica.service.lead()
    replica.sees()
    assert replica.bound() == []
    replica.service.post(Synced())
    assert replica.bound() == ["t/a-0", "t/a-1"]


def test_who_leads_no_more_forgets_its_plans_and_an_old_outcome_means_nothing(
    replica: Replica,
) -> None:
    replica.sees()
    replica.service.post(Synced())
    replica.service.lead()
    first = [item for item in replica.actuator.submitted if isinstance(item, Bind)]

    replica.service.stand_by()
    replica.sees()
    assert replica.gang("a")["reserved"] == 0
    replica.service.lead()
    second = [item for item in replica.actuator.submitted if isinstance(item, Bind)][2:]

    assert {item.id for item in first} & {item.id for item in second} == set()
    for item in first:
        replica.service.post(EffectDone(item.id, Outcome.OK))
    assert replica.gang("a")["state"] == "starting"
    for item in second:
        replica.service.post(EffectDone(item.id, Outcome.OK))
    assert replica.gang("a")["state"] == "running"


def test_not_to_know_who_leads_is_not_to_be_ready(replica: Replica) -> None:
    replica.service.post(Synced())
    replica.service.hindered("Lease kube-system/x cannot be read: 403")

    assert not replica.service.ready
    assert "403" in replica.service.unready_reason
    replica.service.hindered("")
    assert (replica.service.ready, replica.service.unready_reason) == (True, "")
