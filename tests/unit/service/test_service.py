"""The service around a scripted engine: whatever the engine does, callers get a safe answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from scheduler.core.messages import (
    BindCall,
    BindReply,
    Cancel,
    EffectDone,
    Event,
    Filter,
    NodeGone,
    Outcome,
    PodGone,
    Preempt,
    Prioritize,
    Synced,
    Tick,
)
from scheduler.errors import DecodeError
from scheduler.model import Declaration, Pod
from scheduler.service import BusyError, Service
from scheduler.settings import Settings
from service.scripted import (
    OVERVIEW,
    ManualTimer,
    RecordingActuator,
    ScriptedEngine,
    Taken,
    bind_effect,
    binding,
    member,
    plain,
    ref,
)

PATIENCE_S = 10.0


class World:
    """A service with everything around it scripted."""

    def __init__(self, **options: Any) -> None:
        self.engine = ScriptedEngine()
        self.actuator = RecordingActuator()
        self.timer = ManualTimer()
        self.now = 100.0
        self.service = Service(
            Settings(),
            self.actuator,
            engine=self.engine,
            clock=lambda: self.now,
            timer=self.timer,
            **options,
        )
        self.service.start()

    def outcome(self, done: EffectDone) -> None:
        self.service.post(done)

    def metric(self, name: str, **labels: str) -> float:
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Keep the engine busy, as a long plan would."""
        began, ended = threading.Event(), threading.Event()

        def plan(event: NodeGone) -> Taken:
            began.set()
            assert ended.wait(PATIENCE_S)
            return Taken()

        self.engine.on(NodeGone, plan)
        thread = threading.Thread(target=self.service.post, args=(NodeGone("n9"),))
        thread.start()
        assert began.wait(PATIENCE_S)
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.fixture
def world() -> World:
    return World()


def never() -> Pod:
    raise AssertionError("the pod of the request was decoded without need")


def unreadable() -> Pod:
    raise DecodeError("metadata.name is missing")


def failing(event: Event) -> Taken:
    raise RuntimeError("a bug")


class TestRequests:
    def test_a_known_pod_is_not_decoded_again(self, world: World) -> None:
        world.engine.seen.add("uid-a-0")
        assert world.service.filter(ref("a-0"), ["n1", "n2"], never).nodes == ["n1", "n2"]

    def test_an_unknown_pod_reaches_the_engine_whole(self, world: World) -> None:
        pod = member("a-0")
        world.service.filter(ref("a-0"), ["n1"], lambda: pod)
        world.service.prioritize(ref("a-0"), ["n1"], lambda: pod)
        world.service.preempt(ref("a-0"), {"n1": ["v"]}, lambda: pod)
        assert [event.pod for event in world.engine.events] == [pod, pod, pod]  # type: ignore[union-attr]

    def test_an_unreadable_pod_is_held_with_the_reason(self, world: World) -> None:
        reply = world.service.filter(ref("a-0"), ["n1"], unreadable)
        assert reply.nodes == ()
        assert "metadata.name is missing" in reply.unresolvable["muster"]
        assert world.service.prioritize(ref("a-0"), ["n1"], unreadable).scores == {"n1": 0}
        assert world.service.preempt(ref("a-0"), {"n1": ["v"]}, unreadable).victims == {}

    def test_sixteen_callers_at_once_are_served_one_by_one(self, world: World) -> None:
        def call(number: int) -> None:
            world.service.filter(ref(f"p{number}"), ["n1"], lambda: plain(f"p{number}"))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(call, range(320)))
        assert len(world.engine.events) == 320


class TestBusyPlanner:
    @pytest.fixture
    def world(self) -> World:
        return World(lock_wait_s=0.05)

    def test_a_member_is_held_and_a_plain_pod_passes(self, world: World) -> None:
        with world.planning():
            held = world.service.filter(ref("a-0"), ["n1"], lambda: member("a-0"))
            passed = world.service.filter(ref("p"), ["n1"], lambda: plain("p"))
        assert (held.nodes, held.unresolvable) == (
            (),
            {"muster": "planner busy; the scheduler asks again by itself"},
        )
        assert passed.nodes == ["n1"]
        assert world.metric("muster_fallback_answers_total", verb="filter", reason="busy") == 2

    @pytest.mark.parametrize(
        "pod",
        [
            Pod("t", "g", "u", requests={"nvidia.com/gpu": 1}),
            Pod("t", "g", "u", requests={"nvidia.com/mig-1g.10gb": 1}),
            Pod("t", "g", "u", fault="muster.scheduler/min-available: 'x' is not a number"),
        ],
        ids=["gpu", "mig", "unreadable declaration"],
    )
    def test_what_may_be_a_gang_is_held(self, world: World, pod: Pod) -> None:
        with world.planning():
            assert world.service.filter(pod.ref, ["n1"], lambda: pod).nodes == ()

    @pytest.mark.parametrize(
        "pod",
        [
            Pod("t", "g", "u", requests={"nvidia.com/gpu": 0}),
            Pod("t", "g", "u", declaration=Declaration("", "muster")),
            Pod("t", "g", "u", scheduler="other", declaration=Declaration("a", "muster")),
        ],
        ids=["no accelerator", "options but no gang", "another scheduler's"],
    )
    def test_what_is_no_gang_passes(self, world: World, pod: Pod) -> None:
        with world.planning():
            assert world.service.filter(pod.ref, ["n1"], lambda: pod).nodes == ["n1"]

    def test_nothing_is_evicted_scored_or_bound_meanwhile(self, world: World) -> None:
        with world.planning():
            assert world.service.busy
            assert world.service.preempt(ref("p"), {"n1": ["v"]}, never).victims == {}
            assert world.service.prioritize(ref("p"), ["n1"], lambda: plain("p")).scores == {
                "n1": 0
            }
            assert "busy" in world.service.bind(ref("a-0"), "n1").error
        assert not world.service.busy

    def test_views_say_so(self, world: World) -> None:
        with world.planning(), pytest.raises(BusyError):
            world.service.gangs()


class TestEngineFailure:
    def test_a_member_is_held_and_a_plain_pod_passes(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.engine.on(Filter, failing)
        held = world.service.filter(ref("a-0"), ["n1"], lambda: member("a-0"))
        passed = world.service.filter(ref("p"), ["n1"], lambda: plain("p"))
        assert held.nodes == ()
        assert "internal error" in held.unresolvable["muster"]
        assert passed.nodes == ["n1"]
        assert world.metric("muster_step_failures_total", event="Filter") == 2
        assert "a bug" in caplog.text

    def test_a_known_member_is_held_too(self, world: World) -> None:
        world.engine.seen.add("uid-a-0")
        world.engine.on(Filter, failing)
        assert world.service.filter(ref("a-0"), ["n1"], lambda: member("a-0")).nodes == ()

    def test_a_pod_that_cannot_even_be_read_is_held_and_named_in_the_log(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        world.engine.seen.add("uid-a-0")
        world.engine.on(Filter, failing)
        assert world.service.filter(ref("a-0"), ["n1"], unreadable).nodes == ()
        (said,) = (record for record in caplog.records if "cannot be read" in record.message)
        assert said.pod == str(ref("a-0"))  # type: ignore[attr-defined]

    def test_the_other_verbs_answer_the_safe_thing(self, world: World) -> None:
        for kind in (Prioritize, Preempt, BindCall):
            world.engine.on(kind, failing)
        assert world.service.prioritize(ref("a"), ["n1"], lambda: plain("a")).scores == {"n1": 0}
        assert world.service.preempt(ref("a"), {"n1": ["v"]}, lambda: plain("a")).victims == {}
        assert "internal error" in world.service.bind(ref("a"), "n1").error

    def test_a_bad_event_does_not_end_the_thread_that_brought_it(self, world: World) -> None:
        world.engine.on(PodGone, failing)
        world.service.post(PodGone("u"))
        assert world.service.filter(ref("p"), ["n1"], lambda: plain("p")).nodes == ["n1"]

    def test_ticks_go_on_after_a_failure(self, world: World) -> None:
        world.engine.on(Tick, failing)
        world.timer.fire()
        assert world.timer.due == world.now + 1.0

    def test_a_wrong_kind_of_answer_is_a_failure(self, world: World) -> None:
        world.engine.on(Filter, lambda event: Taken())
        assert world.service.filter(ref("a"), ["n1"], lambda: member("a")).nodes == ()


class TestReady:
    def test_ready_once_the_first_full_list_is_in(self, world: World) -> None:
        assert not world.service.ready
        assert "first full list" in world.service.unready_reason
        world.service.set_unready_reason("cannot list pods: 403")
        assert world.service.unready_reason == "cannot list pods: 403"
        world.service.post(Synced())
        assert (world.service.ready, world.service.unready_reason) == (True, "")

    def test_the_log_says_then_what_the_network_is_taken_to_be(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        world.service.post(Synced())
        said = [text for text in caplog.messages if text.startswith("levels of the network: ")]
        assert said == ["levels of the network: block > rack (the settings)"]

    def test_levels_that_look_wrong_are_warned_of(
        self, world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(OVERVIEW, "levels_doubts", ["no node has topo/blok"])
        world.service.post(Synced())
        warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
        assert warned == ["levels of the network look wrong: no node has topo/blok"]

    def test_not_ready_if_the_engine_failed_on_it(self, world: World) -> None:
        world.engine.on(Synced, failing)
        world.service.post(Synced())
        assert not world.service.ready


class TestTime:
    def test_the_engine_says_when_it_wants_a_tick(self, world: World) -> None:
        world.engine.on(NodeGone, lambda event: Taken(next_due=160.0))
        world.service.post(NodeGone("n1"))
        assert world.timer.due == 160.0
        world.now = 160.0
        world.timer.fire()
        assert world.engine.events[-1] == Tick()
        assert world.timer.due is None

    def test_time_never_runs_backwards(self, world: World) -> None:
        for now in (100.0, 200.0, 50.0, 201.0):
            world.now = now
            world.service.post(Tick())
        assert world.engine.times == [100.0, 200.0, 200.0, 201.0]


class TestEffects:
    def test_effects_reach_the_actuator_in_the_engines_order(self, world: World) -> None:
        numbers = iter(range(10_000))

        def both(event: PodGone) -> Taken:
            first = next(numbers)
            second = next(numbers)
            return Taken(effects=[bind_effect(first, "a", "n1"), Cancel(second, first)])

        world.engine.on(PodGone, both)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: world.service.post(PodGone(str(number))), range(400)))
        assert [effect.id for effect in world.actuator.submitted] == list(range(800))

    def test_the_lock_is_free_while_effects_are_submitted(self, world: World) -> None:
        busy: list[bool] = []
        world.actuator.react = lambda effect: busy.append(world.service.busy)
        world.engine.on(PodGone, lambda event: Taken(effects=[bind_effect(1, "a", "n1")]))
        world.service.post(PodGone("u"))
        assert busy == [False]

    def test_an_actuator_may_report_from_inside_submit(self, world: World) -> None:
        """Each outcome causes the next effect, far deeper than a stack of calls could go."""
        world.actuator.react = lambda effect: world.outcome(EffectDone(effect.id, Outcome.OK))
        last = 5_000

        def following(done: EffectDone) -> Taken:
            return Taken(effects=[bind_effect(done.id + 1, "a", "n1")] if done.id < last else ())

        world.engine.on(EffectDone, following)
        world.engine.on(PodGone, lambda event: Taken(effects=[bind_effect(1, "a", "n1")]))
        world.service.post(PodGone("u"))
        assert len(world.actuator.submitted) == last

    def test_outcomes_and_bind_seconds_are_measured(self, world: World) -> None:
        world.engine.on(PodGone, lambda event: Taken(effects=[bind_effect(1, "a", "n1")]))
        world.service.post(PodGone("u"))
        world.now += 0.25
        world.outcome(EffectDone(1, Outcome.CONFLICT))
        world.outcome(EffectDone(1, Outcome.CONFLICT))
        assert world.metric("muster_effects_total", kind="Bind", outcome="conflict") == 1
        assert world.metric("muster_bind_seconds_sum") == pytest.approx(0.25)

    def test_stop_ends_ticks_and_actuator(self, world: World) -> None:
        world.timer.set(5.0)
        world.service.stop()
        assert world.actuator.stopped
        assert world.timer.due is None


def confirming(node: str, error: str = "") -> Callable[[EffectDone], Taken]:
    return lambda done: Taken(BindReply(ref("a"), node, error))


class TestBind:
    @pytest.fixture
    def world(self) -> World:
        world = World(bind_deadline_s=PATIENCE_S)
        world.engine.on(BindCall, binding)
        world.engine.on(EffectDone, confirming("n1"))
        return world

    def test_an_immediate_answer_is_given_at_once(self, world: World) -> None:
        world.engine.on(BindCall, lambda call: Taken(BindReply(call.ref, call.node, "gated")))
        assert world.service.bind(ref("a"), "n1").error == "gated"

    def test_the_answer_comes_with_the_outcome(self, world: World) -> None:
        future = world.service.start_bind(ref("a"), "n1")
        assert not future.done()
        world.outcome(EffectDone(1, Outcome.OK))
        assert future.result(0) == BindReply(ref("a"), "n1", "")

    def test_the_outcome_may_come_before_the_call_returns(self, world: World) -> None:
        world.actuator.react = lambda effect: world.outcome(EffectDone(effect.id, Outcome.OK))
        assert world.service.bind(ref("a"), "n1").error == ""

    def test_three_calls_for_one_pod_all_hear_of_its_one_binding(self, world: World) -> None:
        futures = [world.service.start_bind(ref("a"), "n1") for _ in range(3)]
        world.outcome(EffectDone(1, Outcome.OK))
        assert [future.result(0).error for future in futures] == ["", "", ""]

    def test_success_elsewhere_is_an_error_to_who_asked_for_another_node(
        self, world: World
    ) -> None:
        future = world.service.start_bind(ref("a"), "n2")
        world.outcome(EffectDone(1, Outcome.OK))
        assert future.result(0).error == "pod t/a is bound to node n1, not n2"

    def test_other_pods_keep_waiting(self, world: World) -> None:
        other = world.service.start_bind(ref("b"), "n1")
        world.service.start_bind(ref("a"), "n1")
        world.outcome(EffectDone(1, Outcome.OK))
        assert not other.done()

    def test_after_the_deadline_the_answer_is_an_error(self, world: World) -> None:
        world.service.bind_deadline_s = 0.01
        reply = world.service.bind(ref("a"), "n1")
        assert "not confirmed within 0.01 s" in reply.error
        assert world.service.waiting_binds == 0
        world.outcome(EffectDone(1, Outcome.OK))

    def test_an_outcome_at_the_last_moment_wins_over_the_deadline(self, world: World) -> None:
        future = world.service.start_bind(ref("a"), "n1")
        world.outcome(EffectDone(1, Outcome.OK))
        assert world.service.give_up_bind(ref("a"), "n1", future).error == ""
