"""Gangs from creation to the end, through real HTTP calls between scheduler and Muster."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest
from embedded_stack import Stack, stack
from simulation_objects import pod

from scheduler.simulation.cluster import ClusterOptions
from scheduler.simulation.fleet import Fleet, nodes
from scheduler.simulation.objects import Change
from scheduler.simulation.scheduler_options import SchedulerOptions


@pytest.fixture
def world() -> Iterator[Stack]:
    """2 blocks x 2 racks x 4 nodes x 8 GPUs."""
    with stack(nodes(Fleet(blocks=2, racks=2, nodes=4))) as running:
        yield running


def members(name: str, count: int) -> list[str]:
    return [f"{name}-{index}" for index in range(count)]


def test_a_gang_starts_whole_in_one_rack_with_hints_in_topology_order(world: Stack) -> None:
    world.submit("g", [8] * 4)
    world.run(5)

    hints = [world.hint_of(name) for name in members("g", 4)]
    assert [hint["node"] for hint in hints] == [world.node_of(name) for name in members("g", 4)]
    assert len({tuple(hint["path"]) for hint in hints}) == 1
    assert sorted(hint["rank"] for hint in hints) == [0, 1, 2, 3]
    places = [(*hint["path"], hint["node"]) for hint in sorted(hints, key=lambda h: h["rank"])]
    assert places == sorted(places)
    assert {world.pod(name)["status"]["phase"] for name in members("g", 4)} == {"Running"}
    assert world.observer.partial_moments == 0


def test_an_incomplete_gang_is_held_with_a_reason_and_holds_nothing(world: Stack) -> None:
    for index in range(2):
        item = pod(f"g-{index}", 8)
        item["metadata"]["annotations"] = {
            "muster.scheduler/gang": "g",
            "muster.scheduler/min-available": "3",
        }
        world.cluster.api.create(item)
    world.run(30)
    assert [world.node_of(name) for name in members("g", 2)] == ["", ""]
    condition = world.pod("g-0")["status"]["conditions"][0]["message"]
    assert "2 of 3 pods exist" in condition
    assert world.observer.gpus_used == 0

    item = pod("g-2", 8)
    item["metadata"]["annotations"] = {
        "muster.scheduler/gang": "g",
        "muster.scheduler/min-available": "3",
    }
    world.cluster.api.create(item)
    world.run(5)
    assert all(world.node_of(name) for name in members("g", 3))


def test_a_gang_without_room_waits_as_a_whole_until_another_ends(world: Stack) -> None:
    world.submit("first", [8] * 14, run_s=100)
    world.run(10)
    world.submit("second", [8] * 3)
    world.run(60)
    assert {world.node_of(name) for name in members("second", 3)} == {""}
    world.run(60)
    assert all(world.node_of(name) for name in members("second", 3))
    assert world.observer.partial_moments == 0
    assert world.observer.gangs["t/second"].started == pytest.approx(101, abs=1)


def test_a_finished_gang_is_cleaned_up_and_its_room_is_free(world: Stack) -> None:
    world.submit("g", [8] * 16, run_s=50)
    world.run(100)
    assert list(world.cluster.api.store.of_kind("Pod")) == []
    world.submit("next", [8] * 16)
    world.run(10)
    assert len(world.observer.gangs["t/next"].nodes) == 16


def test_a_gang_that_asks_to_be_nominated_is_bound_by_the_scheduler(world: Stack) -> None:
    world.submit("g", [8] * 4, start="nominate")
    world.run(120)
    assert all(world.node_of(name) for name in members("g", 4))
    assert world.calls("bind") == 4
    assert sorted(world.hint_of(name)["rank"] for name in members("g", 4)) == [0, 1, 2, 3]


def test_a_gang_that_asks_to_follow_is_bound_by_the_scheduler(world: Stack) -> None:
    world.submit("g", [8] * 4, start="follow")
    world.run(120)
    assert all(world.node_of(name) for name in members("g", 4))
    assert world.calls("bind") == 4


def test_a_plain_pod_passes_through_filter_and_bind(world: Stack) -> None:
    world.cluster.api.create(pod("plain", gpus=0))
    world.run(5)
    assert world.node_of("plain")
    assert (world.calls("filter"), world.calls("prioritize"), world.calls("bind")) == (1, 1, 1)


def test_the_bind_verb_answers_only_after_the_binding_is_written(world: Stack) -> None:
    world.cluster.api.create(pod("plain", gpus=0))
    written: list[float] = []
    world.cluster.api.store.watch(
        lambda change: (
            written.append(world.cluster.loop.now())
            if change.object.get("spec", {}).get("nodeName")
            else None
        )
    )
    world.run(5)
    assert written[0] == pytest.approx(0.001 + world.cluster.options.writes.latency_s)
    conditions = world.pod("plain")["status"]["conditions"]
    assert [(one["type"], one["status"]) for one in conditions] == [("PodScheduled", "True")]


def test_people_can_look_at_it_over_http(world: Stack) -> None:
    world.submit("g", [8] * 4)
    world.run(5)
    with urllib.request.urlopen(f"{world.url}/v1/gangs/t/g/why") as answer:
        told = json.load(answer)
    assert told["state"] == "running"
    assert not told.get("warnings"), "jobs that are shown to people are in order"
    with urllib.request.urlopen(f"{world.url}/") as answer:
        assert b"<title>Muster</title>" in answer.read()


Happening = tuple[float, str, str]
"""When, which pod, and its node."""


def history(seed: int) -> list[Happening]:
    """Everything that happens to pods in a crowded hour with all three ways to start."""
    seen: list[Happening] = []
    options = ClusterOptions(SchedulerOptions(seed=seed))
    with stack(nodes(Fleet(blocks=2, racks=2, nodes=2)), options) as world:
        loop, api = world.cluster.loop, world.cluster.api

        def note(change: Change) -> None:
            if change.key.kind == "Pod":
                node = change.object["spec"].get("nodeName", "")
                seen.append((loop.now(), change.key.name, node))

        api.store.watch(note)
        for number in range(24):
            start = ("", "nominate", "follow")[number % 3]
            sizes = [1 + number % 8] * (1 + number % 4)
            arrival_s = number * 97.0
            world.submit(f"g{number}", sizes, arrival_s=arrival_s, run_s=400.0, start=start)
            loop.call_at(arrival_s, partial(api.create, pod(f"plain{number}", gpus=0)))
        world.run(3600)
        assert len(world.observer.started()) == 24
    return seen


def test_the_same_input_gives_the_same_history() -> None:
    first = history(seed=1)
    assert len(first) > 200
    assert history(seed=1) == first
