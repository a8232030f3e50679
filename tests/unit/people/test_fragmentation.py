"""The figures of fragmentation, against counting by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.capacity import Ledger
from scheduler.core.cliques import Cliques
from scheduler.core.fragmentation import (
    CLUSTER,
    SIZES,
    Ask,
    free_by_completeness,
    largest_gangs,
    share_without_use,
)
from scheduler.core.topology import Topology
from scheduler.model import Node

GPU, CPU = "nvidia.com/gpu", "cpu"
LEVELS = ("topo/block", "topo/rack")


@dataclass(frozen=True)
class Box:
    """One node."""

    gpu: int
    used: int
    cpu: int
    block: str
    rack: str
    usable: bool

    @property
    def free(self) -> int:
        return self.gpu - self.used


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    gpu = draw(st.integers(0, 8))
    return Box(
        gpu,
        draw(st.integers(0, gpu)),
        draw(st.integers(0, 8)),
        draw(st.sampled_from(["", "b0", "b1"])),
        draw(st.sampled_from(["", "r0", "r1"])),
        draw(st.booleans()),
    )


clusters = st.lists(boxes(), max_size=6)
asks = st.lists(
    st.builds(
        Ask,
        st.fixed_dictionaries({GPU: st.integers(0, 8), CPU: st.integers(0, 8)}),
        st.integers(1, 5),
    ),
    max_size=4,
)


class World:
    """The same cluster as arrays."""

    def __init__(self, found: list[Box]) -> None:
        ledger = Ledger()
        for at, box in enumerate(found):
            labels = {"topo/block": box.block, "topo/rack": box.rack}
            have = {GPU: box.gpu, CPU: box.cpu}
            ledger.put_node(Node(f"n{at}", labels=labels, allocatable=have))
            ledger.put(f"p{at}", f"n{at}", {GPU: box.used}, ())
        self.frame = ledger.frame()
        self.topology = Topology.build(list(ledger.nodes()), LEVELS)
        self.usable = np.array([box.usable for box in found], dtype=np.bool_)


def by_hand(found: list[Box], level: str, size: int) -> int:
    """Put pods in one by one, domain by domain, and count."""
    domains: dict[tuple[str, ...], list[int]] = {}
    for box in found:
        path = {CLUSTER: ("all",), LEVELS[0]: (box.block,), LEVELS[1]: (box.block, box.rack)}[level]
        if "" not in path and box.usable:
            domains.setdefault(path, []).append(box.free)
    best = 0
    for room in domains.values():
        placed = 0
        while any(free >= size for free in room):
            at = next(at for at, free in enumerate(room) if free >= size)
            room[at] -= size
            placed += 1
        best = max(best, placed)
    return best


@given(clusters)
def test_the_largest_gang_is_what_pods_put_in_one_by_one_come_to(found: list[Box]) -> None:
    world = World(found)
    resources = [GPU] if found else []
    rows = largest_gangs(
        world.frame, world.topology.fabric, world.topology.levels, resources, world.usable
    )
    assert [(row.level, row.size) for row in rows] == [
        (level, size) for level in (CLUSTER, *LEVELS) for size in SIZES if found
    ]
    for row in rows:
        assert row.pods == by_hand(found, row.level, row.size), row


def test_an_nvlink_domain_is_a_level_too() -> None:
    world = World([Box(8, used, 8, "b", "r", True) for used in (0, 2, 0)])
    fabric = world.topology.fabric
    cliques = Cliques(fabric, ("x", "y"), np.array([0, 0, 1], dtype=np.int32))
    rows = largest_gangs(world.frame, fabric, LEVELS, [GPU], world.usable, cliques)
    found = {row.size: row.pods for row in rows if row.level == "nvidia.com/gpu.clique"}
    assert found == {1: 14, 2: 7, 4: 3, 8: 1}


@given(clusters)
def test_free_accelerators_are_counted_once_by_the_state_of_their_node(found: list[Box]) -> None:
    world = World(found)
    free, have = (
        world.frame.total(table, GPU.__eq__)
        for table in (world.frame.free, world.frame.allocatable)
    )
    by = free_by_completeness(free, have, world.usable)
    usable = [box for box in found if box.usable]
    assert by.whole == sum(box.free for box in usable if not box.used)
    assert by.part == sum(box.free for box in usable if box.used)
    assert sum(by) == sum(box.free for box in found)


@given(clusters, asks)
@settings(max_examples=200)
def test_the_share_without_use_is_that_of_each_pod_and_each_free_accelerator(
    found: list[Box], mix: list[Ask]
) -> None:
    world = World(found)
    drawn = [ask.requests for ask in mix for _ in range(ask.weight) if ask.requests[GPU]]
    devices = [box for box in found if box.usable for _ in range(box.free)]
    lost = sum(box.free < pod[GPU] or box.cpu < pod[CPU] for pod in drawn for box in devices)

    share = share_without_use(world.frame, mix, [GPU] if found else [], world.usable)

    if not drawn or not found:
        assert share is None
    elif not devices:
        assert share == 0
    else:
        assert share is not None
        assert abs(share - lost / (len(drawn) * len(devices))) < 1e-9


def test_the_example_of_the_text_half_nodes_are_no_use_to_whole_node_pods() -> None:
    half = Box(gpu=8, used=4, cpu=8, block="b0", rack="r0", usable=True)
    empty = Box(gpu=8, used=0, cpu=8, block="b0", rack="r0", usable=True)
    world = World([half, half, empty])
    whole = Ask({GPU: 8, CPU: 1}, weight=1)
    small = Ask({GPU: 1, CPU: 1}, weight=3)
    assert share_without_use(world.frame, [whole], [GPU], world.usable) == 0.5
    assert share_without_use(world.frame, [whole, small], [GPU], world.usable) == 0.125


def test_pods_are_judged_by_the_kind_of_accelerator_they_ask_for() -> None:
    ledger = Ledger()
    ledger.put_node(Node("a", allocatable={"amd.com/gpu": 8, CPU: 8}))
    ledger.put_node(Node("n", allocatable={GPU: 8, CPU: 8}))
    usable = np.ones(2, dtype=np.bool_)
    mix = [Ask({"amd.com/gpu": 8}, 1), Ask({GPU: 8}, 1)]
    assert share_without_use(ledger.frame(), mix, [GPU, "amd.com/gpu"], usable) == 0
    elsewhere = [Ask({GPU: 8, "example.com/nic": 1}, 1)]
    assert share_without_use(ledger.frame(), elsewhere, [GPU, "amd.com/gpu"], usable) == 1
