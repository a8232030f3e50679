"""What the agent publishes over time, what it says, and how long it waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from agent_nodes import CHECKPOINT, Root, held

from scheduler.agent import (
    Agent,
    Failed,
    NoDevices,
    Publisher,
    Reading,
    Source,
    Watcher,
    read_holders,
)
from scheduler.agent.publishing import CHECK_S
from scheduler.agent.watching import TOPOLOGY_S
from scheduler.core.devices import (
    IN_USE_KEY,
    TOPOLOGY_KEY,
    Link,
    Matrix,
    NodeDevices,
    parse_annotation,
    parse_in_use,
)
from scheduler.errors import ClusterError

INTERVAL = 30.0
PAIR = Reading(
    NodeDevices(Matrix(2, (Link(0, 1, "NV4"),)), ("GPU-a", "GPU-b")), {"GPU-a": 0, "GPU-b": 1}, "t"
)
SINGLE = Reading(NodeDevices(Matrix(1), ("GPU-a",)), {"GPU-a": 0}, "t")
NONE = NoDevices("no GPU here")
BROKEN = Failed("the driver is stuck")


class Node:
    """A node of the API that remembers what it was asked."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {"of/others": "stays"}
        self.asked: list[str] = []
        self.down = False

    def annotations(self) -> Mapping[str, str]:
        self._ask("get")
        return self.there

    def annotate(self, changes: Mapping[str, str | None]) -> None:
        self._ask("patch")
        merged = {**self.there, **changes}
        self.there = {key: text for key, text in merged.items() if text is not None}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.down:
            raise ClusterError("the API server cannot be reached")


class World:
    """An agent, its node, and a clock that is set by hand."""

    def __init__(self, folder: Path) -> None:
        self.root = Root(folder)
        self.node = Node()
        self.now = 1000.0
        self.sees: Reading | NoDevices | Failed = PAIR
        self.looks = 0
        self.draw = 0.5
        self.agent = Agent(
            Watcher(self._read, lambda: read_holders(folder, Source.CHECKPOINT), INTERVAL),
            Publisher(self.node),
            INTERVAL,
            clock=lambda: self.now,
            draw=lambda: self.draw,
        )

    def _read(self) -> Reading | NoDevices | Failed:
        self.looks += 1
        return self.sees

    def step(self, seconds: float = INTERVAL) -> list[str]:
        """Some time later the agent looks once more; what it asked the API."""
        self.now += seconds
        before = len(self.node.asked)
        self.agent.once()
        return self.node.asked[before:]

    def gpus(self) -> int | None:
        devices = parse_annotation(self.node.there.get(TOPOLOGY_KEY, ""))
        return devices.matrix.gpus if devices else None

    def in_use(self) -> object:
        use = parse_in_use(self.node.there.get(IN_USE_KEY, ""))
        return None if use is None else dict(use.by_uid)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_both_annotations_appear_with_one_write(world: World) -> None:
    world.root.checkpoint([held("uid-a", "nvidia.com/gpu", ["GPU-b"])])

    assert world.step() == ["get", "patch"]

    assert world.gpus() == 2
    assert world.in_use() == {"uid-a": (1,)}
    assert world.node.there["of/others"] == "stays"


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.root.checkpoint([])
    world.step()

    assert [world.step() for _ in range(5)] == [[]] * 5


def test_a_restarted_agent_writes_nothing_anew(world: World, tmp_path: Path) -> None:
    world.root.checkpoint([])
    world.step()
    watcher = Watcher(lambda: PAIR, lambda: read_holders(tmp_path, Source.AUTO), INTERVAL)
    again = Agent(watcher, Publisher(world.node), INTERVAL)

    again.once()

    assert world.node.asked == ["get", "patch", "get"]


def test_a_pod_that_gets_gpus_is_published_at_the_next_look(world: World) -> None:
    world.root.checkpoint([])
    world.step()

    world.root.checkpoint([held("uid-a", "nvidia.com/gpu", ["GPU-a", "GPU-b"])])

    assert world.step() == ["patch"]
    assert world.in_use() == {"uid-a": (0, 1)}
    assert world.looks == 1, "the slow look at the topology was not needed"


def test_a_node_that_was_registered_anew_gets_its_annotations_back(world: World) -> None:
    world.step()
    world.node.there = {}

    assert world.step(CHECK_S) == ["get", "patch"]
    assert world.gpus() == 2


def test_a_repaired_node_is_seen(world: World) -> None:
    world.step()
    world.sees = SINGLE

    world.step()
    assert world.gpus() == 2, "the topology is looked at now and then only"

    world.step(TOPOLOGY_S)
    assert world.gpus() == 1


def test_a_node_without_gpus_publishes_nothing(world: World) -> None:
    world.sees = NONE

    assert world.step() == ["get"]
    assert [world.step() for _ in range(3)] == [[]] * 3
    assert world.node.there == {"of/others": "stays"}


def test_a_node_that_lost_its_gpus_for_good_takes_back_what_it_said(world: World) -> None:
    world.root.checkpoint([])
    world.step()
    world.sees = NONE

    assert world.step(TOPOLOGY_S) == ["get", "patch"]
    assert world.node.there == {"of/others": "stays"}


def test_a_failing_driver_leaves_what_is_known(world: World) -> None:
    world.root.checkpoint([])
    world.step()
    world.sees = BROKEN
    world.root.checkpoint([held("uid-a", "nvidia.com/gpu", ["GPU-a"])])

    world.step(TOPOLOGY_S)

    assert world.gpus() == 2
    assert world.in_use() == {"uid-a": (0,)}


def test_a_driver_that_fails_from_the_start_writes_nothing(world: World) -> None:
    world.sees = BROKEN
    world.node.there[TOPOLOGY_KEY] = "of an earlier agent"

    assert world.step() == ["get"]
    assert world.node.there[TOPOLOGY_KEY] == "of an earlier agent"


def test_a_failing_driver_is_asked_ever_more_rarely(world: World) -> None:
    def pauses(steps: int) -> list[float]:
        asked_at = []
        for _ in range(steps):
            before = world.looks
            world.step(10)
            asked_at += [world.now] * (world.looks - before)
        return [later - sooner for sooner, later in pairwise(asked_at)]

    world.sees = BROKEN
    assert pauses(100) == [30, 60, 120, 240, 480]

    world.sees = PAIR
    world.step(TOPOLOGY_S)
    assert world.gpus() == 2

    world.sees = BROKEN
    assert pauses(100)[:3] == [30, 60, 120]


def test_without_the_kubelets_file_nothing_is_said_of_use(world: World) -> None:
    world.root.checkpoint([])
    world.step()
    assert world.in_use() == {}

    (world.root.folder / CHECKPOINT).unlink()
    world.step()

    assert world.in_use() is None
    assert world.gpus() == 2


def test_a_file_that_is_half_written_changes_nothing(world: World) -> None:
    world.root.checkpoint([held("uid-a", "nvidia.com/gpu", ["GPU-a"])])
    world.step()

    world.root.write(CHECKPOINT, '{"Data":')

    assert world.step() == []
    assert world.in_use() == {"uid-a": (0,)}


# ── failures of the API server, pauses ──


def test_after_a_failure_of_the_api_server_all_is_looked_at_again(world: World) -> None:
    world.node.down = True
    assert world.step() == ["get"]

    world.node.down = False
    assert world.step() == ["get", "patch"]
    assert world.gpus() == 2


def test_a_write_that_may_have_been_lost_is_checked(world: World) -> None:
    world.root.checkpoint([])
    world.step()
    world.node.down = True
    world.root.checkpoint([held("uid-a", "nvidia.com/gpu", ["GPU-a"])])
    assert world.step() == ["patch"]

    world.node.down = False

    assert world.step() == ["get", "patch"]
    assert world.in_use() == {"uid-a": (0,)}


def test_pauses_differ_by_chance(world: World) -> None:
    world.step()

    pauses = []
    for world.draw in (0.0, 0.5, 1.0):
        pauses.append(world.agent.pause())

    assert pauses == pytest.approx([27, 30, 33])


def test_pauses_grow_while_the_api_server_is_away(world: World) -> None:
    world.node.down, world.draw = True, 1.0
    pauses = []
    for _ in range(7):
        world.step()
        pauses.append(world.agent.pause())

    assert pauses == [60, 120, 240, 480, 600, 600, 600]
    world.draw = 0.0
    assert world.agent.pause() == 300

    world.node.down, world.draw = False, 0.5
    world.step()
    assert world.agent.pause() == 30


def test_running_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    stopped = threading.Event()
    looks: list[int] = []

    def read() -> NoDevices:
        looks.append(1)
        if len(looks) == 3:
            stopped.set()
        return NONE

    watcher = Watcher(read, lambda: read_holders(tmp_path, Source.AUTO), 0.001)
    times = iter(range(0, 10**6, int(TOPOLOGY_S)))
    Agent(watcher, None, 0.001, clock=lambda: next(times)).run(stopped)

    assert len(looks) == 3


# ── what is said ──


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    caplog.set_level(logging.INFO)

    def since() -> list[tuple[str, str]]:
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return since


def test_what_stays_is_said_once(world: World, said: Callable[[], list[tuple[str, str]]]) -> None:
    world.sees = NONE
    world.step()
    assert said() == [("INFO", "no GPU here")]

    world.step()
    world.step()
    assert said() == []


def test_trouble_is_a_warning_once_and_again_when_it_comes_back(
    world: World, said: Callable[[], list[tuple[str, str]]]
) -> None:
    down = ("WARNING", "the API server cannot be reached")
    world.root.checkpoint([])
    world.node.down = True
    world.step()
    world.step()
    assert said() == [("INFO", "2 GPUs by t"), down]

    world.node.down = False
    world.step()
    assert said() == [("INFO", f"published {TOPOLOGY_KEY}, {IN_USE_KEY}")]

    world.node.down = True
    world.step(CHECK_S)
    assert said() == [down]


def test_doubts_about_the_topology_are_said(
    world: World, said: Callable[[], list[tuple[str, str]]]
) -> None:
    world.sees = Reading(PAIR.devices, PAIR.ids, "t", ("row GPU1 is missing",))
    world.root.checkpoint([])

    world.step()
    world.step()

    assert [line for line in said() if line[0] == "WARNING"] == [
        ("WARNING", "t: row GPU1 is missing")
    ]
