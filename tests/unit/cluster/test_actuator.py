"""Effects against an API server that fails in every way: one true outcome each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cluster.fake_apiserver import PODS, FakeApi, Json, pod
from cluster.recording import RecordingWorld
from scheduler import decode
from scheduler.cluster import ClusterActuator, Transport, load, mirror
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.resources import Meta
from scheduler.core.messages import (
    Bind,
    Cancel,
    ClearNomination,
    Effect,
    EffectDone,
    Evict,
    Nominate,
    Outcome,
    PodGone,
    PodSeen,
    Record,
    Wake,
)
from scheduler.model import GangKey, Pod, PodRef

GANG = GangKey("t", "a")
HINT = "muster.scheduler/hint"
BINDING = r"/api/v1/namespaces/t/pods/\S+/binding"
STATUS = r"/api/v1/namespaces/t/pods/\S+/status"
EVENTS = r"/apis/events.k8s.io/v1/namespaces/t/events"


def ref(name: str, uid: str = "") -> PodRef:
    return PodRef("t", name, uid or f"uid-{name}")


def bind(number: int, name: str, node: str = "n1", **annotations: str) -> Bind:
    hint = annotations or {HINT: '{"v":1}'}
    return Bind(number, ref(name), node, hint, GANG, "gang t/a, rank 0 of 2")


class Stage:
    """An actuator, what it reports, and the pods that the watch is believed to have shown."""

    def __init__(self, api: FakeApi, transport: Transport, workers: int = 4) -> None:
        self.api = api
        self.world = RecordingWorld()
        self.mirror: Mirror[Pod] = mirror.pods()
        self.actuator = ClusterActuator(
            transport, self.mirror, self.world.metrics, workers=workers, limit=50
        )
        self.actuator.start(self.world.post)

    def pod(self, name: str, uid: str = "", **spec: Any) -> Json:
        """A pod that the API server and the watch have."""
        made = self.api.put(PODS, pod(name, uid, **spec))
        meta = Meta("t", name, made["metadata"]["uid"])
        self.mirror.put(meta, decode.pod(made), lambda event: None)
        return made

    def send(self, *effects: Effect) -> None:
        self.actuator.submit(effects)

    def outcome(self, number: int) -> EffectDone:
        """The one outcome of an effect."""
        self.world.wait(lambda: bool(self._outcomes(number)))
        return self._outcomes(number)[0]

    def run(self, effect: Effect) -> EffectDone:
        self.send(effect)
        return self.outcome(effect.id)

    def learnt(self) -> list[Any]:
        return [event for event in self.world.events if not isinstance(event, EffectDone)]

    def outcomes(self) -> list[EffectDone]:
        return [event for event in self.world.events if isinstance(event, EffectDone)]

    def _outcomes(self, number: int) -> list[EffectDone]:
        return [event for event in self.outcomes() if event.id == number]


@pytest.fixture
def stage(api: FakeApi, transport: Transport) -> Iterator[Stage]:
    stage = Stage(api, transport)
    yield stage
    api.heal()
    stage.actuator.stop(5.0)


class TestBind:
    def test_the_hint_goes_with_the_binding(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK
        assert api.pod("a-0")["spec"]["nodeName"] == "n1"
        assert api.pod("a-0")["metadata"]["annotations"] == {HINT: '{"v":1}'}
        sent = next(request for request in api.requests if request.path.endswith("/binding"))
        assert sent.body["metadata"] == {
            "namespace": "t",
            "name": "a-0",
            "uid": "uid-a-0",
            "annotations": {HINT: '{"v":1}'},
        }
        assert sent.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}

    def test_a_scheduled_event_follows(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        stage.send(bind(1, "a-0"))
        api.wait(lambda: len(api.events) == 1)
        event = api.events[0]
        assert event["reason"] == "Scheduled"
        assert event["note"] == "Successfully assigned t/a-0 to n1: gang t/a, rank 0 of 2"
        assert event["regarding"]["uid"] == "uid-a-0"
        assert event["type"] == "Normal"

    def test_all_of_a_burst_is_bound(self, api: FakeApi, transport: Transport) -> None:
        stage = Stage(api, transport, workers=16)
        for at in range(40):
            stage.pod(f"a-{at}")
        stage.send(*(bind(at, f"a-{at}") for at in range(40)))
        stage.world.wait(lambda: len(stage.outcomes()) == 40)
        stage.actuator.stop(5.0)
        assert {done.outcome for done in stage.outcomes()} == {Outcome.OK}
        assert sorted(done.id for done in stage.outcomes()) == list(range(40))

    def test_neither_a_failure_nor_a_write_that_hangs_keeps_a_burst_s_outcomes_back(
        self, api: FakeApi, transport: Transport
    ) -> None:
        stage = Stage(api, transport, workers=16)
        for at in range(1, 40):
            stage.pod(f"a-{at}")
        api.fail("POST", BINDING.replace(r"\S+", "a-1"), "hang")
        stage.send(*(bind(at, f"a-{at}") for at in range(40)))
        assert stage.outcome(0).outcome is Outcome.GONE
        stage.world.wait(lambda: len(stage.outcomes()) == 39)
        assert {done.id for done in stage.outcomes()} == set(range(40)) - {1}
        api.close()
        stage.actuator.stop(5.0)

    def test_a_burst_that_is_too_much_at_once_ends_whole(
        self, api: FakeApi, transport: Transport
    ) -> None:
        """Refused ones are sent again, each as often as it was refused and once more."""
        stage = Stage(api, transport, workers=16)
        for at in range(40):
            stage.pod(f"a-{at}")
        api.fail("POST", BINDING, 429, times=2, headers={"Retry-After": "0"})
        stage.send(*(bind(at, f"a-{at}") for at in range(40)))
        stage.world.wait(lambda: len(stage.outcomes()) == 40)
        stage.actuator.stop(5.0)
        assert {done.outcome for done in stage.outcomes()} == {Outcome.OK}
        assert api.count("POST", BINDING) == 42

    def test_a_node_whose_bindings_hang_does_not_hold_the_others_up(
        self, api: FakeApi, tmp_path: Path
    ) -> None:
        patient = Transport(load(str(api.kubeconfig(tmp_path))), read_s=60.0)
        stage = Stage(api, patient, workers=16)
        for at in range(40):
            stage.pod(f"a-{at}")
        api.fail("POST", r".*/pods/a-[0-9]/binding|.*/pods/a-[12][0-9]/binding", "hang", times=30)
        stage.send(*(bind(at, f"a-{at}", "n1" if at < 30 else "n2") for at in range(40)))
        stage.world.wait(lambda: len(stage.outcomes()) == 10)
        assert {done.id for done in stage.outcomes()} == set(range(30, 40))
        api.close()
        stage.actuator.stop(5.0)
        patient.close()

    def test_one_worker_sends_in_rank_order(self, api: FakeApi, transport: Transport) -> None:
        stage = Stage(api, transport, workers=1)
        for at in range(10):
            stage.pod(f"a-{at}")
        stage.send(*(bind(at, f"a-{at}") for at in range(10)))
        stage.world.wait(lambda: len(stage.outcomes()) == 10)
        stage.actuator.stop(5.0)
        assert [done.id for done in stage.outcomes()] == list(range(10))

    def test_bound_before_by_us_is_a_success(self, stage: Stage) -> None:
        stage.pod("a-0", nodeName="n1")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK
        assert [event.pod.node for event in stage.learnt()] == ["n1"]

    def test_bound_elsewhere_is_a_conflict(self, stage: Stage) -> None:
        stage.pod("a-0", nodeName="n7")
        done = stage.run(bind(1, "a-0"))
        assert done.outcome is Outcome.CONFLICT
        assert "n7" in done.detail
        assert [event.pod.node for event in stage.learnt()] == ["n7"]

    def test_gated_is_a_conflict_and_the_gate_is_learnt(self, stage: Stage) -> None:
        stage.pod("a-0", schedulingGates=[{"name": "g"}])
        assert stage.run(bind(1, "a-0")).outcome is Outcome.CONFLICT
        assert [event.pod.gates for event in stage.learnt()] == [("g",)]

    def test_another_pod_of_that_name_means_gone(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", "uid-new")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.GONE
        assert stage.learnt() == [PodGone("uid-a-0")]
        assert "nodeName" not in api.pod("a-0")["spec"]

    def test_a_missing_pod_is_gone(self, stage: Stage) -> None:
        assert stage.run(bind(1, "a-0")).outcome is Outcome.GONE
        assert stage.learnt() == [PodGone("uid-a-0")]

    def test_what_was_learnt_comes_before_the_outcome(self, stage: Stage) -> None:
        stage.run(bind(1, "a-0"))
        assert [type(event) for event in stage.world.events] == [PodGone, EffectDone]

    @pytest.mark.parametrize("action", ["lost", "hang"])
    def test_a_lost_reply_of_a_binding_that_was_made_is_a_success(
        self, stage: Stage, api: FakeApi, action: str
    ) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, action)
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK
        assert api.count("POST", BINDING) == 1

    def test_a_connection_lost_before_the_binding_is_an_error(
        self, stage: Stage, api: FakeApi
    ) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, "reset")
        done = stage.run(bind(1, "a-0"))
        assert done.outcome is Outcome.ERROR
        assert "connection was lost" in done.detail

    def test_no_answer_and_not_bound_is_a_timeout(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", schedulingGates=[{"name": "g"}])
        api.fail("POST", BINDING, "hang")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.TIMEOUT

    def test_no_answer_and_nobody_to_ask_is_a_timeout(self, stage: Stage, api: FakeApi) -> None:
        """The Binding may have been made, so it is no plain error."""
        stage.pod("a-0")
        api.fail("POST", BINDING, "lost")
        api.fail("GET", r"/api/v1/namespaces/t/pods/a-0", "reset")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.TIMEOUT

    def test_a_5xx_after_the_binding_was_made_is_a_success(
        self, stage: Stage, api: FakeApi
    ) -> None:
        stage.pod("a-0", nodeName="n1")
        api.fail("POST", BINDING, 504)
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK

    @pytest.mark.parametrize("status", [500, 503, 403, 400])
    def test_any_other_refusal_is_an_error_with_its_text(
        self, stage: Stage, api: FakeApi, status: int
    ) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, status)
        done = stage.run(bind(1, "a-0"))
        assert done.outcome is Outcome.ERROR
        assert f"{status} fault {status}" in done.detail

    def test_a_throttled_binding_is_sent_again(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, 429, times=2, headers={"Retry-After": "0"})
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK
        assert api.count("POST", BINDING) == 3

    def test_throttled_for_too_long_is_an_error(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, 429, times=9, headers={"Retry-After": "0"})
        assert stage.run(bind(1, "a-0")).outcome is Outcome.ERROR
        assert api.count("POST", BINDING) == 3

    @pytest.mark.parametrize(
        ("annotations", "text"),
        [
            ({"bad key": "x"}, "not a qualified name"),
            ({"a/b/c": "x"}, "not a qualified name"),
            ({"/x": "x"}, "not a qualified name"),
            ({"x" * 64: "x"}, "not a qualified name"),
            ({"ok\n": "x"}, "not a qualified name"),
            ({"Upper.Case/x": "x"}, "not a qualified name"),
            ({HINT: "x" * 8192}, "more than 8192"),
            ({HINT: "ü" * 4096}, "more than 8192"),
        ],
    )
    def test_what_would_spoil_the_pod_for_good_is_not_sent(
        self, stage: Stage, api: FakeApi, annotations: dict[str, str], text: str
    ) -> None:
        stage.pod("a-0")
        done = stage.run(bind(1, "a-0", **annotations))
        assert (done.outcome, text in done.detail) == (Outcome.ERROR, True)
        assert api.requests == []

    @pytest.mark.parametrize("key", ["plain", "a.b/c", "a-1.b/C_d.e-f", "x" * 63])
    def test_good_keys_are_sent(self, stage: Stage, key: str) -> None:
        stage.pod("a-0")
        assert stage.run(bind(1, "a-0", **{key: "x"})).outcome is Outcome.OK


class TestGhosts:
    def test_a_pod_that_the_watch_has_seen_go_is_not_brought_back(self, stage: Stage) -> None:
        made = stage.pod("a-0", nodeName="n7")
        stage.mirror.drop(Meta("t", "a-0", made["metadata"]["uid"]), lambda event: None)
        assert stage.run(bind(1, "a-0")).outcome is Outcome.CONFLICT
        assert not [event for event in stage.world.events if isinstance(event, PodSeen)]


class TestCancel:
    def test_a_cancelled_effect_is_never_sent(self, api: FakeApi, transport: Transport) -> None:
        stage = Stage(api, transport, workers=1)
        stage.pod("a-0")
        stage.pod("a-1")
        entered, release = threading.Event(), threading.Event()
        post = stage.actuator._post

        def holding(event: Any) -> None:
            post(event)
            entered.set()
            assert release.wait(10)

        stage.actuator._post = holding
        stage.send(bind(1, "a-0"))
        assert entered.wait(10)
        stage.send(bind(2, "a-1"), Cancel(3, 2), Cancel(4, 77))
        release.set()
        assert stage.outcome(2).outcome is Outcome.CANCELLED
        assert "nodeName" not in api.pod("a-1")["spec"]
        stage.actuator.stop(5.0)

    def test_a_throttled_effect_can_still_be_cancelled(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        api.fail("POST", BINDING, 429, headers={"Retry-After": "1"})
        stage.send(bind(1, "a-0"))
        api.wait_for_request("POST", BINDING)
        stage.send(Cancel(2, 1))
        assert stage.outcome(1).outcome is Outcome.CANCELLED
        assert "nodeName" not in api.pod("a-0")["spec"]

    def test_cancelling_what_was_sent_changes_nothing(self, stage: Stage) -> None:
        stage.pod("a-0")
        assert stage.run(bind(1, "a-0")).outcome is Outcome.OK
        stage.send(Cancel(2, 1))
        stage.pod("a-1")
        assert stage.run(bind(3, "a-1")).outcome is Outcome.OK
        assert len(stage.outcomes()) == 2


class TestOtherEffects:
    def test_nominate_and_clear(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        assert stage.run(Nominate(1, ref("a-0"), "n1")).outcome is Outcome.OK
        assert api.pod("a-0")["status"] == {"phase": "Pending", "nominatedNodeName": "n1"}
        assert stage.run(ClearNomination(2, ref("a-0"))).outcome is Outcome.OK
        assert api.pod("a-0")["status"] == {"phase": "Pending"}
        sent = [request for request in api.requests if request.method == "PATCH"]
        assert {request.headers["Content-Type"] for request in sent} == {
            "application/merge-patch+json"
        }
        assert all(request.path.endswith("/status") for request in sent)

    def test_nominating_a_pod_that_was_replaced_is_gone(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", "uid-new")
        assert stage.run(Nominate(1, ref("a-0"), "n1")).outcome is Outcome.GONE
        assert "nominatedNodeName" not in api.pod("a-0")["status"]

    def test_a_5xx_on_a_nomination_is_an_error(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        api.fail("PATCH", STATUS, 500)
        assert stage.run(Nominate(1, ref("a-0"), "n1")).outcome is Outcome.ERROR

    def test_wake_changes_an_annotation_each_time(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        seen = set()
        for number in (1, 2):
            assert stage.run(Wake(number, ref("a-0"))).outcome is Outcome.OK
            seen.add(api.pod("a-0")["metadata"]["annotations"]["muster.scheduler/woken"])
        assert len(seen) == 2

    def test_evict(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        assert stage.run(Evict(1, ref("a-0"), "node lost")).outcome is Outcome.OK
        assert ("t", "a-0") not in api.collections[PODS].objects

    def test_evict_spares_another_pod_of_that_name(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", "uid-new")
        assert stage.run(Evict(1, ref("a-0"), "node lost")).outcome is Outcome.GONE
        assert api.pod("a-0")["metadata"]["uid"] == "uid-new"

    def test_a_disruption_budget_is_not_fought(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0")
        api.fail("POST", r".*/eviction", 429, headers={"Retry-After": "10"})
        assert stage.run(Evict(1, ref("a-0"), "node lost")).outcome is Outcome.ERROR
        assert api.count("POST", r".*/eviction") == 1

    def test_a_record_is_written_on_the_first_pods_and_has_no_outcome(
        self, stage: Stage, api: FakeApi
    ) -> None:
        refs = tuple(ref(f"a-{at}") for at in range(40))
        stage.send(Record(1, GANG, refs, "GangWaiting", "no room " + "ü" * 1000, warning=True))
        stage.send(Record(2, GANG, (ref("last"),), "GangWaiting", "no room"))
        api.wait(lambda: any(event["regarding"]["name"] == "last" for event in api.events))
        names = [event["regarding"]["name"] for event in api.events]
        assert names == [*(f"a-{at}" for at in range(16)), "last"]
        event = api.events[0]
        assert (event["type"], event["reason"]) == ("Warning", "GangWaiting")
        assert 1000 < len(event["note"].encode()) <= 1024
        assert stage.outcomes() == []

    def test_a_record_is_written_on_the_owner_of_the_pods_too(
        self, stage: Stage, api: FakeApi
    ) -> None:
        job = {"kind": "Job", "name": "train", "uid": "uid-job", "controller": True}
        for at in range(2):
            made = pod(f"a-{at}")
            made["metadata"]["ownerReferences"] = [job]
            meta = Meta("t", f"a-{at}", f"uid-a-{at}")
            # From within a post of the watch, which holds the mirror.
            stage.mirror.put(
                meta,
                decode.pod(made),
                lambda _: stage.send(Record(1, GANG, (ref("a-0"),), "GangWaiting", "no room")),
            )
        api.wait(lambda: sum(event["regarding"]["kind"] == "Pod" for event in api.events) == 2)
        told = [event["regarding"] for event in api.events if event["regarding"]["kind"] != "Pod"]
        assert told == [{"kind": "Job", "namespace": "t", "name": "train", "uid": "uid-job"}]

    def test_what_fails_and_what_gangs_meet_with_is_logged_with_its_keys(
        self, stage: Stage, api: FakeApi, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        stage.pod("a-0")
        api.fail("POST", r".*/binding", 403)
        assert stage.run(bind(1, "a-0")).outcome is Outcome.ERROR
        stage.send(Record(2, GANG, (ref("a-0"),), "GangWaiting", "no room"))
        api.wait(lambda: bool(api.events))
        about = {
            (getattr(record, "gang", ""), getattr(record, "pod", ""), record.message.split(":")[0])
            for record in caplog.records
        }
        assert (str(GANG), "t/a-0", "Bind t/a-0 to n1") in about
        assert (str(GANG), "", "GangWaiting") in about

    def test_events_that_are_refused_harm_nothing(
        self, stage: Stage, api: FakeApi, caplog: pytest.LogCaptureFixture
    ) -> None:
        api.fail("POST", EVENTS, 403, times=2)
        api.fail("POST", EVENTS, "reset", times=1)
        for at in range(4):
            stage.pod(f"a-{at}")
            assert stage.run(bind(at, f"a-{at}")).outcome is Outcome.OK
        api.wait(lambda: len(api.events) == 1)
        said = [record for record in caplog.records if "was not written" in record.message]
        assert len(said) == 2
        assert said[0].pod == "t/a-0"  # type: ignore[attr-defined]
        dropped = stage.world.metrics.registry.get_sample_value("muster_events_dropped_total")
        assert dropped == 3


class TestOwnGate:
    """Muster's own scheduling gate goes just before the pod may start."""

    GATES: ClassVar[Json] = {"schedulingGates": [{"name": "muster.scheduler/gang"}]}

    def sent(self, api: FakeApi) -> list[tuple[str, str]]:
        return [(item.method, item.path.rpartition("/")[2]) for item in api.requests]

    def test_it_is_taken_off_and_the_pod_bound(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", **self.GATES)
        assert stage.run(replace(bind(1, "a-0"), lift=True)).outcome is Outcome.OK
        assert self.sent(api)[:2] == [("PATCH", "a-0"), ("POST", "binding")]
        assert api.requests[0].body == {
            "metadata": {"uid": "uid-a-0"},
            "spec": {"schedulingGates": None},
        }
        assert api.pod("a-0")["spec"]["nodeName"] == "n1"
        assert "schedulingGates" not in api.pod("a-0")["spec"]

    def test_one_that_is_off_already_is_no_trouble(self, stage: Stage) -> None:
        stage.pod("a-0")
        assert stage.run(replace(bind(1, "a-0"), lift=True)).outcome is Outcome.OK

    @pytest.mark.parametrize("status", [403, 500])
    def test_where_it_stays_on_nothing_is_bound(
        self, stage: Stage, api: FakeApi, status: int
    ) -> None:
        stage.pod("a-0", **self.GATES)
        api.fail("PATCH", r".*/pods/a-0", status)
        done = stage.run(replace(bind(1, "a-0"), lift=True))
        assert done.outcome is Outcome.ERROR
        assert str(status) in done.detail
        assert api.count("POST", BINDING) == 0

    def test_another_pod_of_that_name_keeps_its_own(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", "uid-new", **self.GATES)
        assert stage.run(replace(bind(1, "a-0"), lift=True)).outcome is Outcome.GONE
        assert api.pod("a-0")["spec"]["schedulingGates"] == self.GATES["schedulingGates"]

    def test_too_many_requests_are_sent_again(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", **self.GATES)
        api.fail("PATCH", r".*/pods/a-0", 429, headers={"Retry-After": "0"})
        assert stage.run(replace(bind(1, "a-0"), lift=True)).outcome is Outcome.OK

    def test_a_lost_reply_leaves_no_doubt_unsolved(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", **self.GATES)
        api.fail("PATCH", r".*/pods/a-0", "lost")
        assert stage.run(replace(bind(1, "a-0"), lift=True)).outcome is Outcome.ERROR
        assert [event.pod.gates for event in stage.learnt()] == [()]
        assert stage.run(replace(bind(2, "a-0"), lift=True)).outcome is Outcome.OK

    def test_a_nomination_is_there_when_the_scheduler_gets_to_see_the_pod(
        self, stage: Stage, api: FakeApi
    ) -> None:
        stage.pod("a-0", **self.GATES)
        assert stage.run(Nominate(1, ref("a-0"), "n1", lift=True)).outcome is Outcome.OK
        assert self.sent(api) == [("PATCH", "status"), ("PATCH", "a-0")]
        assert api.pod("a-0")["status"]["nominatedNodeName"] == "n1"
        assert "schedulingGates" not in api.pod("a-0")["spec"]

    def test_waking_takes_one_request(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", **self.GATES)
        assert stage.run(Wake(1, ref("a-0"), lift=True)).outcome is Outcome.OK
        assert len(api.requests) == 1
        assert "schedulingGates" not in api.pod("a-0")["spec"]
        assert "muster.scheduler/woken" in api.pod("a-0")["metadata"]["annotations"]

    def test_gates_stay_where_nobody_said_so(self, stage: Stage, api: FakeApi) -> None:
        stage.pod("a-0", **self.GATES)
        assert stage.run(Wake(1, ref("a-0"))).outcome is Outcome.OK
        assert stage.run(Nominate(2, ref("a-0"), "n1")).outcome is Outcome.OK
        assert stage.run(bind(3, "a-0")).outcome is Outcome.CONFLICT
        assert api.pod("a-0")["spec"]["schedulingGates"] == self.GATES["schedulingGates"]


class TestLimits:
    def test_too_many_effects_end_as_errors_and_none_is_lost(
        self, api: FakeApi, transport: Transport
    ) -> None:
        stage = Stage(api, transport, workers=1)
        stage.pod("a-0")
        api.fail("POST", BINDING, 429, times=1, headers={"Retry-After": "1"})
        stage.send(bind(0, "a-0"))
        api.wait_for_request("POST", BINDING)
        stage.send(*(bind(at, f"x-{at}") for at in range(1, 61)))
        stage.world.wait(lambda: len(stage.outcomes()) == 61)
        stage.actuator.stop(5.0)
        refused = [done for done in stage.outcomes() if "too many" in done.detail]
        assert [done.id for done in refused] == list(range(51, 61))
        assert sorted(done.id for done in stage.outcomes()) == list(range(61))

    def test_stop_ends_what_waits_as_cancelled_and_lets_the_rest_finish(
        self, api: FakeApi, transport: Transport
    ) -> None:
        stage = Stage(api, transport, workers=1)
        stage.pod("a-0")
        api.fail("POST", BINDING, "hang")
        stage.send(*(bind(at, "a-0") for at in range(5)))
        api.wait_for_request("POST", BINDING)
        stage.actuator.stop(10.0)
        assert stage.outcome(0).outcome is Outcome.OK
        assert [stage.outcome(at).outcome for at in range(1, 5)] == [Outcome.CANCELLED] * 4
        stage.send(bind(9, "a-0"))
        assert len(stage.outcomes()) == 5

    def test_an_api_server_that_is_not_there_is_an_error_each_time(
        self, api: FakeApi, stage: Stage, transport: Transport
    ) -> None:
        api.close()
        done = stage.run(bind(1, "a-0"))
        assert done.outcome is Outcome.ERROR
        assert "cannot be reached" in done.detail
