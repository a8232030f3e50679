"""The observer counts what the store has, and nothing that is still on its way."""

from __future__ import annotations

import pytest
from simulation_objects import pod, uid

from scheduler.core.messages import Bind
from scheduler.model import GangKey, PodRef
from scheduler.simulation.apiserver import pod_key
from scheduler.simulation.cluster import EmbeddedCluster
from scheduler.simulation.fleet import Fleet, nodes
from scheduler.simulation.observer import Observer


class Watched:
    """A cluster of two racks of two nodes with a gang of two, and no scheduler."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster([])
        self.api, self.loop = self.cluster.api, self.cluster.loop
        self.posted: list[object] = []
        self.cluster.actuator.start(self.posted.append)
        for item in nodes(Fleet(blocks=1, racks=2, nodes=2)):
            self.api.create(item)
        self.observer = Observer(self.cluster)
        for name in "ab":
            item = pod(name, 8)
            item["metadata"]["annotations"] = {
                "muster.scheduler/gang": "g",
                "muster.scheduler/min-available": "2",
            }
            self.api.create(item)

    def bind(self, name: str, node: str) -> None:
        assert self.api.bind("t", name, uid(self.api, name), node, {}).ok
        self.observer.check()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_gang_bound_in_part_is_counted_at_every_look(watched: Watched) -> None:
    watched.bind("a", "n000")
    watched.observer.check()
    assert watched.observer.partial_moments == 2
    watched.bind("b", "n001")
    watched.observer.check()
    assert watched.observer.partial_moments == 2
    assert [gang.name for gang in watched.observer.started()] == ["t/g"]


def test_a_gang_whose_other_binding_is_on_its_way_is_not_partial(watched: Watched) -> None:
    ref = PodRef("t", "b", uid(watched.api, "b"))
    watched.cluster.actuator.submit([Bind(1, ref, "n001", {}, GangKey("t", "g"), "")])
    watched.loop.run_until(0.001)
    watched.bind("a", "n000")
    assert watched.observer.partial_moments == 0
    assert watched.observer.started() == []
    watched.loop.run_until(1)
    watched.observer.check()
    assert watched.observer.partial_moments == 0
    assert len(watched.observer.started()) == 1


def test_a_gang_whose_binding_failed_is_partial(watched: Watched) -> None:
    ref = PodRef("t", "b", "of-a-pod-that-is-gone")
    watched.cluster.actuator.submit([Bind(1, ref, "n001", {}, GangKey("t", "g"), "")])
    watched.loop.run_until(0.001)
    watched.bind("a", "n000")
    watched.loop.run_until(1)
    watched.observer.check()
    assert watched.observer.partial_moments >= 1


def test_a_lost_member_makes_a_gang_partial_and_a_succeeded_one_does_not(watched: Watched) -> None:
    watched.bind("a", "n000")
    watched.bind("b", "n001")
    before = watched.observer.partial_moments
    watched.api.set_phase(pod_key("t", "a"), "Succeeded")
    watched.observer.check()
    assert watched.observer.partial_moments == before
    watched.api.set_phase(pod_key("t", "b"), "Failed")
    watched.observer.check()
    assert watched.observer.partial_moments == before + 1


@pytest.mark.parametrize(("nodes_of_two", "racks"), [(("n000", "n001"), 1), (("n001", "n002"), 2)])
def test_racks_are_counted_where_the_gang_started(
    watched: Watched, nodes_of_two: tuple[str, str], racks: int
) -> None:
    for name, node in zip("ab", nodes_of_two, strict=True):
        watched.bind(name, node)
    assert watched.observer.mean_racks() == racks
    assert watched.observer.racks_used() == racks
    assert watched.observer.gangs["t/g"].nodes == nodes_of_two


def test_the_busiest_moment_is_kept_when_the_cluster_empties(watched: Watched) -> None:
    watched.bind("a", "n000")
    watched.bind("b", "n001")
    watched.api.set_phase(pod_key("t", "a"), "Succeeded")
    watched.observer.check()
    assert watched.observer.gpus_used == 8
    assert watched.observer.busiest == {"n000": {"t/g": 8}, "n001": {"t/g": 8}}
    assert watched.observer.pods_bound == 2
