"""A member that a kubelet refuses to run is replaced, counted, and told of."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.core.messages import (
    Bind,
    EffectDone,
    Evict,
    NodeSeen,
    Outcome,
    PodSeen,
    Record,
    Synced,
)
from scheduler.service import Service
from scheduler.settings import Settings
from service.scripted import ManualTimer, RecordingActuator
from tests import builders

METRIC = "muster_rejected_members_total"


@pytest.fixture
def actuator() -> RecordingActuator:
    return RecordingActuator()


@pytest.fixture
def service(actuator: RecordingActuator) -> Service:
    """Two nodes, and a gang of two that runs."""
    made = Service(Settings(), actuator, timer=ManualTimer())

    def bind(effect: Any) -> None:
        if isinstance(effect, Bind):
            made.post(EffectDone(effect.id, Outcome.OK))

    actuator.react = bind
    made.start()
    for name in ("n1", "n2"):
        made.post(NodeSeen(decode.node(builders.node(name, gpu=8))))
    made.post(Synced())
    for at in range(2):
        made.post(PodSeen(decode.pod(builders.pod(f"t/a-{at}", gpu=8, gang="a", min=2))))
    return made


def rejected(name: str, node: str, gang: str = "a") -> dict[str, Any]:
    made = builders.pod(f"t/{name}", gpu=8, gang=gang, min=2, node=node, phase="Failed")
    made["status"]["reason"] = "OutOfnvidia.com/gpu"
    return made


def test_it_is_evicted_counted_and_told_of(service: Service, actuator: RecordingActuator) -> None:
    service.post(PodSeen(decode.pod(rejected("a-0", "n1"))))

    (evicted,) = (item for item in actuator.submitted if isinstance(item, Evict))
    told = [item for item in actuator.submitted if isinstance(item, Record)]
    (about,) = (item for item in told if item.reason == "MemberRejected")
    assert str(evicted.ref) == "t/a-0"
    assert about.refs == (evicted.ref,)
    assert about.warning
    assert "node n1 refused to run t/a-0" in about.message
    assert service.metrics.registry.get_sample_value(METRIC) == 1.0


def test_a_pod_of_no_gang_is_its_owners_affair(
    service: Service, actuator: RecordingActuator
) -> None:
    plain = rejected("web", "n1", gang="")
    plain["metadata"].pop("annotations", None)
    plain["spec"]["containers"] = [{"name": "c"}]
    service.post(PodSeen(decode.pod(plain)))

    assert not [item for item in actuator.submitted if isinstance(item, Evict)]
    assert service.metrics.registry.get_sample_value(METRIC) == 0.0
