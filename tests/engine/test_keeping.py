"""What is left out when it is decided for whom nodes are kept changes no decision.

The queue is kept in order instead of being sorted, and who could not be helped is not asked again
while the world is the same. An engine that does neither takes the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode
from scheduler.core import backfill, engine
from scheduler.core.gang import Gang
from scheduler.core.messages import (
    Bind,
    ChartSeen,
    Effect,
    Event,
    GroupSeen,
    NodeSeen,
    PodSeen,
    Synced,
    Tick,
)
from scheduler.core.queue import Queue, order
from scheduler.core.state import State
from scheduler.model import Chart, ChartLevel, GangKey, GroupKey
from scheduler.settings import Settings
from tests import builders

from . import kits, sequences
from .operations import Op
from .test_random_sequences import DRAWN, RUNS

History = Sequence[tuple[Event | None, float]]


class Sorted(Queue):
    """A queue that is sorted whenever it is looked at."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state

    def __iter__(self) -> Iterator[GangKey]:
        keys = super().__iter__()
        return iter([gang.key for gang in order(self.state.gangs[key] for key in keys)])


def thorough(kit: kits.Kit, history: History) -> list[engine.Step]:
    """The steps of an engine that sorts and asks anew each time."""
    steps: list[engine.Step] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backfill, "_world", lambda state: object())
        state = engine.new_state(kit.settings)
        state.wanting = Sorted(state)
        for event, now in history:
            if event is None:
                state = engine.new_state(kit.settings)
                state.wanting = Sorted(state)
            else:
                steps.append(engine.step(state, event, now))
    return steps


def crowded(seed: int) -> kits.Kit:
    """A kit in which gangs soon wait for kept nodes, and some of them in vain."""
    kit = kits.make(seed)
    kinds = [
        replace(kind, options=replace(kind.options, segment_size=2, segment_level="rack"))
        if at == seed % 4 and not kind.launcher and kind.group is None
        else kind
        for at, kind in enumerate(kit.gangs)
    ]
    return replace(kit, gangs=tuple(kinds), settings=replace(kit.settings, backfill_wait_s=5.0))


@pytest.mark.parametrize("block", range(max(1, RUNS // 40)))
def test_nothing_that_is_left_out_changes_a_step(block: int) -> None:
    for seed in range(40 * block, 40 * (block + 1)):
        trial = sequences.run(crowded(seed), sequences.draw(seed))

        assert thorough(trial.kit, trial.history) == trial.steps, f"seed {seed}"


@settings(max_examples=max(25, RUNS // 5), derandomize=True, database=None)
@given(seed=st.integers(0, 2**16), operations=st.lists(DRAWN, max_size=60))
def test_nor_in_sequences_that_can_be_shrunk(seed: int, operations: list[Op]) -> None:
    trial = sequences.run(crowded(seed), operations)

    assert thorough(trial.kit, trial.history) == trial.steps


# ── what it costs ──


def waited_long(vain: int, others: int) -> State:
    """Gangs that have waited long: first those whose segments no rack can hold, then small ones."""
    state = engine.new_state(Settings(levels=("topo/rack",), backfill_wait_s=60))
    for number in range(20):
        node = builders.node(f"n{number:02}", gpu=4, rack=f"r{number}")
        engine.step(state, NodeSeen(decode.node(node)), 0.0)
        full = builders.pod(f"t/full-{number}", gpu=4, node=f"n{number:02}", scheduler="other")
        engine.step(state, PodSeen(decode.pod(full)), 0.0)
    engine.step(state, Synced(), 0.0)
    segments = {"segment-size": "2", "segment-topology": "rack"}
    for number in range(vain + others):
        name, options = f"g{number:03}", segments if number < vain else None
        for member in range(2):
            pod = builders.pod(f"t/{name}-{member}", gang=name, min=2, gpu=4, options=options)
            engine.step(state, PodSeen(decode.pod(pod)), 0.0)
    engine.step(state, Tick(), 61.0)
    assert state.kept is not None
    assert state.kept.gang.name == f"g{vain:03}"
    return state


def one_of_many() -> PodSeen:
    return PodSeen(decode.pod(builders.pod("t/forms-0", gang="forms", min=3, gpu=1)))


def test_who_queues_behind_the_gang_for_which_nodes_are_kept_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a thousand gangs in the queue each event would cost a millisecond."""
    state = waited_long(vain=2, others=40)
    looked: list[GangKey] = []

    def waits(state: State, gang: Gang) -> bool:
        looked.append(gang.key)
        return _waits(state, gang)

    _waits = backfill._waits
    monkeypatch.setattr(backfill, "_waits", waits)
    engine.step(state, one_of_many(), 62.0)

    assert {key.name for key in looked} == {"g000", "g001", "g002"}


def test_for_whom_no_nodes_can_be_kept_is_not_planned_again_with_every_event() -> None:
    state = waited_long(vain=2, others=1)
    before = state.work.rows

    engine.step(state, one_of_many(), 62.0)
    engine.step(state, Tick(), 63.0)

    assert state.work.rows == before


# ── when it is asked again ──

BLOCKS = 5
"""One more than places are tried out; only the last has racks of two nodes."""


class Blocks:
    """Five blocks of four nodes, all in use; A needs two racks of two nodes of one block.

    Such are only in the last block, which is tried once it is among the first four. Until then
    nodes are kept for B.
    """

    def __init__(self) -> None:
        self.state = engine.new_state(Settings(backfill_wait_s=60, backfill_share=1))
        self.tell(Synced())
        self.levels("topo/block", "topo/rack")
        for block in range(BLOCKS):
            for at in range(4):
                name = f"n{block}{at}"
                rack = at // 2 if block == BLOCKS - 1 else at
                twins = {"topo/pair": f"p{block}{at // 2}"}
                self.node(name, gpu=4, block=f"b{block}", rack=f"r{block}{rack}", labels=twins)
                self.runs(name)

    def tell(self, event: Event, now: float = 0.0) -> list[Effect]:
        return list(engine.step(self.state, event, now).effects)

    def node(self, name: str, now: float = 0.0, **fields: Any) -> None:
        self.tell(NodeSeen(decode.node(builders.node(name, **fields))), now)

    def pod(self, key: str, now: float = 0.0, **fields: Any) -> list[Effect]:
        return self.tell(PodSeen(decode.pod(builders.pod(key, **fields))), now)

    def runs(self, node: str, **fields: Any) -> None:
        """Three of a node's four accelerators are in use."""
        self.pod(f"t/x-{node}", **{"gpu": 3, "node": node, "gang": f"x-{node}", "min": 1} | fields)

    def group(self, name: str, now: float = 0.0, **fields: Any) -> None:
        found = decode.group(builders.pod_group(f"t/{name}", **fields))
        assert found is not None
        self.tell(GroupSeen(found), now)

    def levels(self, block: str, rack: str, now: float = 0.0) -> None:
        """The labels by which blocks and racks are told."""
        named = (ChartLevel(block, "block"), ChartLevel(rack, "rack"))
        key = GroupKey("Topology.kueue.x-k8s.io", "", "racks")
        self.tell(ChartSeen(Chart(key, levels=named)), now)

    def asks(self, segment: int, now: float = 0.0) -> None:
        """A asks for segments of so many members in one rack each."""
        shared = {"topology-required": "block", "segment-topology": "rack"}
        options = {**shared, "segment-size": str(segment)}
        for member in range(4):
            self.pod(f"t/A-{member}", now, gang="A", min=4, gpu=4, options=options)

    def wait(self) -> None:
        """Until nodes are kept, for the second in the queue."""
        self.asks(segment=2)
        self.pod("t/B", gpu=4)
        self.tell(Tick(), 61.0)
        assert self.keeps_for == "B"

    @property
    def keeps_for(self) -> str:
        return self.state.kept.gang.name if self.state.kept is not None else ""


def test_once_it_asks_for_less_it_is_asked_again() -> None:
    world = Blocks()
    world.wait()

    world.asks(segment=1, now=62.0)

    assert world.keeps_for == "A"


def test_once_racks_are_told_by_another_label_it_is_asked_again() -> None:
    world = Blocks()
    world.wait()

    world.levels("topo/block", "topo/pair", 62.0)

    assert world.keeps_for == "A"


def test_once_more_runs_elsewhere_it_is_asked_again() -> None:
    world = Blocks()
    world.wait()

    world.pod("other/y", 62.0, gpu=1, node="n00", scheduler="other")

    assert world.keeps_for == "A"


def test_once_it_is_known_when_what_runs_will_end_it_is_asked_again() -> None:
    """A gang is taken to have started when its minimum, which a member that waits has lowered, is
    bound."""
    world = Blocks()
    for at in range(4):
        world.pod(f"t/more-{at}", gang=f"late-{at}", min=2, gpu=4)
        world.runs(f"n4{at}", gang=f"late-{at}", options={"max-runtime": "1h"})
    world.wait()

    for at in range(4):
        world.pod(f"t/more-{at}", 62.0, gang=f"late-{at}", min=1, gpu=4)

    assert world.keeps_for == "A"


def test_once_others_no_longer_say_when_they_will_end_it_is_asked_again() -> None:
    world = Blocks()
    world.group("g", min=1, annotations={"muster.scheduler/max-runtime": "1h"})
    for node in (f"n{block}{at}" for block in range(BLOCKS - 1) for at in range(4)):
        world.runs(node, options={"max-runtime": "1h"})
        world.pod(f"t/c-{node}", node=node, **builders.in_group("g"))
    world.runs("n40", gpu=2)
    world.wait()

    world.group("g", 62.0, kind="basic")

    assert world.keeps_for == "A"


def test_once_a_binding_was_given_up_elsewhere_it_is_asked_again() -> None:
    world = Blocks()
    world.pod("other/y", gpu=1, node="n40", scheduler="other")
    for at in range(1, BLOCKS * 4):
        if at != 16:
            world.pod(f"other/y{at}", gpu=1, node=f"n{at // 4}{at % 4}", scheduler="other")
    sent = world.pod("t/C", 5.0, gpu=1, options={"timeout": "60s"})
    assert [effect.node for effect in sent if isinstance(effect, Bind)] == ["n00"]
    world.wait()

    world.tell(Tick(), 65.0)

    assert world.keeps_for == "A"
