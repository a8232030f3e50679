"""Who has which GPU, where a node's agent knows pods by name: only of those that it saw."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from scheduler.core.messages import PodGone
from tests.builders import pod
from tests.engine.gpu_worlds import World, agent, asking, told

HELD = {"t/x-0": [0, 1]}
"""What the agent has read of a pod that somebody else's scheduler may have placed."""


def running(name: str, *, since: float | None, node: str = "n1", **more: Any) -> dict[str, Any]:
    """A pod of two GPUs that its kubelet has accepted at a time, in seconds, or not yet."""
    status = {"phase": "Running"}
    if since is not None:
        status["startTime"] = datetime.fromtimestamp(since, UTC).isoformat().replace("+00:00", "Z")
    return pod(name, gpu=2, node=node, status=status, **more)


def test_what_a_pod_has_by_its_name_is_given_to_nobody_else() -> None:
    world = World()
    world.node(agent(by_name=HELD, at=200))
    world.pods(running("t/x-0", since=100), asking("t/b"))
    assert world.given == {"b": "GPU-c,GPU-d"}


def test_it_is_all_the_same_whether_pods_or_nodes_are_seen_first() -> None:
    world = World()
    world.pods(running("t/x-0", since=100), asking("t/b"))
    world.node(agent(by_name=HELD, at=200))
    assert world.given == {"b": "GPU-c,GPU-d"}


def test_the_next_pod_of_a_name_does_not_have_what_the_last_one_had() -> None:
    world = World()
    world.node(agent(by_name=HELD, at=200))
    world.pods(running("t/x-0", since=100, uid="u-1"))
    world.step(PodGone("u-1"))
    world.pods(running("t/x-0", since=300, uid="u-2"), asking("t/b"))
    assert world.given == {}
    assert world.why("b").endswith("on n1 because pods there have some of which nobody says which")

    world.node(agent(by_name={"t/x-0": [2, 3]}, at=400))
    assert world.given == {"b": "GPU-a,GPU-b"}


def test_nor_does_it_after_a_restart() -> None:
    world = World()
    world.node(agent(by_name=HELD, at=200))
    world.pods(running("t/x-0", since=300, uid="u-2"), asking("t/b"))
    assert world.given == {}


def test_a_name_on_one_node_says_nothing_of_a_pod_of_that_name_on_another() -> None:
    world = World()
    world.node(agent(by_name=HELD, at=200))
    world.node({}, "n2")
    world.pods(running("t/x-0", since=100, node="n2"), asking("t/b", gpu=4))
    assert world.given == {"b": "GPU-a,GPU-b,GPU-c,GPU-d"}
    assert world.node_of == {"b": "n1"}


def test_a_pod_that_its_kubelet_has_not_accepted_yet_is_not_the_one_that_was_read() -> None:
    world = World()
    world.node(agent(by_name=HELD, at=200))
    world.pods(running("t/x-0", since=None), asking("t/b"))
    assert world.given == {}

    world.pods(running("t/x-0", since=100))
    assert world.given == {"b": "GPU-c,GPU-d"}, "the word of its start alone opens the node"


def test_until_it_is_read_what_was_predicted_for_it_counts() -> None:
    world = World()
    world.node(agent(by_name={}, at=200))
    world.pods(running("t/x-0", since=300, annotations=told([2, 3])), asking("t/b"))
    assert world.given == {"b": "GPU-a,GPU-b"}

    world.node(agent(by_name=HELD, at=400))
    world.pods(asking("t/c"))
    assert world.given == {"b": "GPU-a,GPU-b"}, "two have the same by now: that cannot be true"


def test_uids_and_names_may_stand_side_by_side() -> None:
    world = World()
    world.node(agent({"u-y": [2]}, by_name=HELD, at=200))
    one = pod("t/y", gpu=1, node="n1", uid="u-y")
    world.pods(running("t/x-0", since=100), one, asking("t/b", gpu=1))
    assert world.given == {"b": "GPU-d"}
