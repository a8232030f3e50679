"""The kubelets run what was bound to their node, as long as it fits."""

from __future__ import annotations

import pytest
from simulation_objects import live, pod, uid

from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.clock import EventLoop
from scheduler.simulation.fleet import node
from scheduler.simulation.kubelet import RUN_SECONDS, Kubelet, KubeletTimes
from scheduler.simulation.objects import Key
from scheduler.simulation.readings import Readings


class OneNode:
    """A node of four GPUs with its kubelet: containers start in 1 s and stop in 2 s."""

    def __init__(self) -> None:
        self.loop = EventLoop()
        self.api = ApiServer(self.loop)
        self.kubelet = Kubelet(self.api, self.loop, Readings(), KubeletTimes(1, 2))
        self.api.create(node("n1", "b0", "r0", gpus=4))

    def bind(self, name: str, gpus: int, run_s: float | None = None, node: str = "n1") -> None:
        item = pod(name, gpus)
        if run_s is not None:
            item["metadata"]["annotations"] = {RUN_SECONDS: str(run_s)}
        self.api.create(item)
        self.api.bind("t", name, uid(self.api, name), node, {})

    def phase(self, name: str) -> str:
        return str(live(self.api, name)["status"]["phase"])


@pytest.fixture
def world() -> OneNode:
    return OneNode()


def test_a_pod_starts_runs_and_succeeds(world: OneNode) -> None:
    world.bind("a", 4, run_s=10)
    world.loop.run_until(0.5)
    assert world.phase("a") == "Pending"
    world.loop.run_until(5)
    assert world.phase("a") == "Running"
    world.loop.run_until(11)
    assert world.phase("a") == "Succeeded"


def test_what_does_not_fit_fails_for_good_and_harms_nobody(world: OneNode) -> None:
    world.bind("a", 3)
    world.bind("b", 2)
    world.loop.run_until(60)
    assert (world.phase("a"), world.phase("b")) == ("Running", "Failed")
    assert live(world.api, "b")["status"]["reason"] == "OutOfnvidia.com/gpu"


def test_room_comes_back_when_a_pod_is_done(world: OneNode) -> None:
    world.bind("a", 4, run_s=10)
    world.loop.run_until(20)
    world.bind("b", 4)
    world.loop.run_until(30)
    assert world.phase("b") == "Running"


def test_a_deleted_pod_holds_its_gpus_until_it_has_stopped(world: OneNode) -> None:
    world.bind("a", 4)
    world.loop.run_until(5)
    world.api.delete(pod_key("t", "a"))
    world.loop.run_until(5.5)
    assert live(world.api, "a")["metadata"]["deletionTimestamp"]
    world.bind("b", 1)
    world.loop.run_until(7.5)
    assert world.api.store.get(pod_key("t", "a")) is None
    assert world.phase("b") == "Failed"


def test_a_short_grace_period_is_kept(world: OneNode) -> None:
    item = pod("a", terminationGracePeriodSeconds=0)
    world.api.create(item)
    world.api.bind("t", "a", uid(world.api), "n1", {})
    world.loop.run_until(5)
    world.api.delete(pod_key("t", "a"))
    world.loop.run_until(5)
    assert world.api.store.get(pod_key("t", "a")) is None


def test_a_pod_on_an_unknown_node_never_starts(world: OneNode) -> None:
    world.bind("a", 1, node="gone")
    world.loop.run_until(100)
    assert world.phase("a") == "Pending"


def test_a_pod_of_a_node_that_went_away_stays_terminating(world: OneNode) -> None:
    world.bind("a", 1)
    world.loop.run_until(5)
    world.api.delete(Key("Node", "", "n1"))
    world.api.delete(pod_key("t", "a"))
    world.loop.run_until(100)
    assert live(world.api, "a")["metadata"]["deletionTimestamp"]
