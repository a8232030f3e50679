"""Of nodes that are all the same to a plan, the one where a pod's GPUs are linked best."""

from __future__ import annotations

from typing import Any

from tests.builders import pod
from tests.engine.gpu_worlds import World, agent

PAIRED = [0, 1]
APART = [0, 2]
"""Free GPUs of a node of four, where 0 and 1 are linked, and 2 and 3."""


def with_free(world: World, name: str, free: list[int], **more: Any) -> None:
    """A node whose other GPUs a pod has, as its agent tells."""
    rest = [gpu for gpu in range(4) if gpu not in free]
    world.node(agent({f"u-{name}": rest}), name, **more)
    world.pods(pod(f"x/on-{name}", gpu=len(rest), node=name, uid=f"u-{name}"))


def test_a_pod_of_two_goes_where_two_linked_gpus_are_free() -> None:
    world = World()
    with_free(world, "n1", APART)
    with_free(world, "n2", PAIRED)
    world.pods(pod("t/a", gpu=2))
    assert world.node_of == {"a": "n2"}
    assert world.hint["a"]["gpus"] == [0, 1]


def test_a_pod_of_one_goes_where_it_parts_no_linked_gpus() -> None:
    world = World()
    with_free(world, "n1", PAIRED)
    with_free(world, "n2", APART)
    world.pods(pod("t/a", gpu=1))
    assert world.node_of == {"a": "n2"}


def test_all_members_of_a_gang_do() -> None:
    world = World()
    for name, free in (("n1", APART), ("n2", PAIRED), ("n3", APART), ("n4", PAIRED)):
        with_free(world, name, free)
    world.pods(*(pod(f"t/a-{at}", gpu=2, gang="a", min=2) for at in range(2)))
    assert world.node_of == {"a-0": "n2", "a-1": "n4"}


def test_a_node_is_not_broken_into_for_its_links() -> None:
    world = World()
    with_free(world, "n1", APART)
    world.node(agent(), "n2")
    world.pods(pod("t/a", gpu=2))
    assert world.node_of == {"a": "n1"}


def test_a_gang_is_not_torn_apart_for_links() -> None:
    world = World()
    for name, free, rack in (("n1", APART, "r1"), ("n2", APART, "r1"), ("n3", PAIRED, "r2")):
        with_free(world, name, free, rack=rack, block="b")
    world.pods(*(pod(f"t/a-{at}", gpu=2, gang="a", min=2) for at in range(2)))
    assert world.node_of == {"a-0": "n1", "a-1": "n2"}


def test_those_that_talk_little_take_what_is_in_use_before_what_is_idle() -> None:
    """Both nodes have two free, of four and of two; links do not make up for an idle node."""
    world = World()
    with_free(world, "n1", APART)
    world.node(agent(gpus=2, links={"0-1": "NV4"}, uuids=["GPU-x", "GPU-y"]), "n2", gpu=2)
    light = {"communication": "light"}
    world.pods(pod("t/a", gpu=2, options=light))
    assert world.node_of == {"a": "n1"}


def test_what_is_not_known_of_a_node_is_no_reason_to_take_it() -> None:
    world = World()
    world.node(agent(), "n1")
    world.pods(pod("x/unknown", gpu=2, node="n1"))
    with_free(world, "n2", APART)
    world.pods(pod("t/a", gpu=2))
    assert world.node_of == {"a": "n2"}


def test_without_agents_the_first_name_counts() -> None:
    world = World()
    for name in ("n2", "n1"):
        world.node({}, name)
    world.pods(pod("t/a", gpu=2))
    assert world.node_of == {"a": "n1"}
