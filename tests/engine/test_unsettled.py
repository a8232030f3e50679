"""Answers that are about to change say so, so that the scheduler can be kept waiting for them."""

from __future__ import annotations

from scheduler import decode
from scheduler.core import engine
from scheduler.core.answers import ARRIVING_S
from scheduler.core.messages import (
    Bind,
    BindCall,
    EffectDone,
    Event,
    Filter,
    FilterReply,
    NodeSeen,
    Nominate,
    Outcome,
    PodSeen,
    Record,
    Synced,
)
from scheduler.model import PodRef, Start
from scheduler.settings import Settings
from tests.builders import node, pod


class World:
    """An engine, a node with eight GPUs, and a clock that stands still but for ``wait``."""

    def __init__(self, start: Start = Start.BURST) -> None:
        self.state = engine.new_state(Settings(start=start))
        self.now = 100.0
        self.binds: list[Bind] = []
        self.nominations: list[Nominate] = []
        self.told: list[str] = []
        self.step(NodeSeen(decode.node(node("n1", gpu=8))))
        self.step(Synced())

    def step(self, event: Event) -> engine.Step:
        done = engine.step(self.state, event, self.now)
        self.binds += [effect for effect in done.effects if isinstance(effect, Bind)]
        self.nominations += [effect for effect in done.effects if isinstance(effect, Nominate)]
        self.told += [effect.reason for effect in done.effects if isinstance(effect, Record)]
        return done

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def member(self, number: int, *, of: int, gpu: int = 1) -> None:
        self.step(PodSeen(decode.pod(pod(f"t/a-{number}", gang="a", min=of, gpu=gpu))))

    def lands(self) -> None:
        self.step(EffectDone(self.binds.pop(0).id, Outcome.OK))

    def nominations_land(self) -> None:
        while self.nominations:
            self.step(EffectDone(self.nominations.pop(0).id, Outcome.OK))

    def ref(self, number: int) -> PodRef:
        return PodRef("t", f"a-{number}", self.state.by_name.get(("t", f"a-{number}"), "unseen"))

    def ask(self, number: int, *names: str) -> FilterReply:
        ref = self.ref(number)
        other = decode.pod(pod(f"t/a-{number}", gang="a", min=2, uid=ref.uid))
        reply = self.step(Filter(ref, names or ["n1"], other)).reply
        assert isinstance(reply, FilterReply)
        return reply


def test_while_the_members_of_a_gang_are_being_made() -> None:
    world = World()
    world.member(0, of=3)
    assert world.ask(0).unsettled
    world.wait(0.9 * ARRIVING_S)
    world.member(1, of=3)
    world.wait(0.9 * ARRIVING_S)
    assert world.ask(0).unsettled


def test_not_when_no_more_come() -> None:
    world = World()
    world.member(0, of=3)
    world.wait(1.1 * ARRIVING_S)
    assert not world.ask(0).unsettled


def test_a_change_of_a_member_is_no_new_one() -> None:
    world = World()
    world.member(0, of=3)
    world.wait(1.1 * ARRIVING_S)
    world.step(PodSeen(decode.pod(pod("t/a-0", gang="a", min=3, gpu=2))))
    assert not world.ask(0).unsettled


def test_not_when_the_gang_is_complete_and_has_no_room() -> None:
    world = World()
    world.member(0, of=2, gpu=8)
    world.member(1, of=2, gpu=8)
    assert not world.ask(0).unsettled


def test_until_all_members_are_bound() -> None:
    world = World()
    world.member(0, of=2)
    world.member(1, of=2)
    assert (world.ask(0).nodes, world.ask(0).unsettled) == (("n1",), True)
    world.lands()
    assert [world.ask(number).unsettled for number in (0, 1)] == [True, True]
    world.lands()
    assert [world.ask(number).unsettled for number in (0, 1)] == [False, False]


def test_also_where_the_scheduler_offers_other_nodes() -> None:
    world = World()
    world.step(NodeSeen(decode.node(node("n2", gpu=1))))
    world.member(0, of=2, gpu=4)
    world.member(1, of=2, gpu=4)
    assert (world.ask(0, "n2").nodes, world.ask(0, "n2").unsettled) == ((), True)
    world.lands()
    world.lands()
    assert not world.ask(0, "n2").unsettled


def test_looks_for_one_call_do_not_prove_that_nominations_are_ignored() -> None:
    """One call about each pod, from before the nominations were seen, is looked at many times."""
    world = World(Start.NOMINATE)
    world.step(NodeSeen(decode.node(node("n2", gpu=8))))
    for number in range(5):
        world.member(number, of=5)
    world.nominations_land()
    world.step(BindCall(world.ref(0), world.ask(0, "n1", "n2").nodes[0]))
    for number in range(1, 5):
        looks = [world.ask(number, "n1", "n2") for _ in range(25)]
        assert all(look.nodes and look.unsettled for look in looks)
    assert world.told == []
    assert world.state.nominations.ignored_until is None


def test_until_the_watch_has_shown_the_pod() -> None:
    world = World()
    assert world.ask(0).unsettled
    world.member(0, of=1)
    world.lands()
    assert not world.ask(0).unsettled
