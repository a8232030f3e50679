"""The embedded kube-scheduler keeps to the extender protocol, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from simulation_objects import live, pod, uid
from stub_extender import StubExtender

from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.clock import EventLoop
from scheduler.simulation.fleet import node
from scheduler.simulation.kube_scheduler import KubeScheduler
from scheduler.simulation.node_choice import sample_size
from scheduler.simulation.objects import Key
from scheduler.simulation.readings import Readings
from scheduler.simulation.scheduler_options import SchedulerOptions


class Stage:
    """An API server, a kube-scheduler and a stub extender; bind calls bind as Muster would."""

    def __init__(self, extender: StubExtender) -> None:
        self.extender = extender
        self.loop = EventLoop()
        self.api = ApiServer(self.loop)
        self.slow: set[str] = set()
        """Uids of pods whose bind call waits for virtual time to pass."""
        self.scheduler = KubeScheduler(
            self.api,
            self.loop,
            Readings(),
            extender.url,
            SchedulerOptions(max_backoff_s=8),
            binding=self.slow.__contains__,
        )
        extender.answers["bind"] = self.bind

    def bind(self, body: dict[str, Any]) -> dict[str, str]:
        written: Future[str] = Future()
        ref = (body["PodNamespace"], body["PodName"], body["PodUID"])
        self.loop.call_threadsafe(
            lambda: written.set_result(self.api.bind(*ref, body["Node"], {}).message)
        )
        return {"Error": written.result(timeout=10)}

    def nodes(self, count: int, gpus: int = 4) -> None:
        for number in range(count):
            self.api.create(node(f"n{number:04d}", "b0", "r0", gpus))
        self.loop.run_until(self.loop.now() + 0.01)

    def node_of(self, name: str = "a") -> str:
        return str(live(self.api, name)["spec"].get("nodeName", ""))

    def message(self, name: str = "a") -> str:
        conditions = live(self.api, name)["status"].get("conditions", [])
        return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.fixture
def stage() -> Iterator[Stage]:
    with StubExtender() as extender:
        stage = Stage(extender)
        yield stage
        stage.scheduler.close()


def hold(_body: dict[str, Any]) -> dict[str, Any]:
    return {"FailedAndUnresolvableNodes": {"muster": "gang t/g: 1 of 2 pods exist"}}


def test_a_pod_is_filtered_scored_and_bound_through_the_extender(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["prioritize"] = lambda body: [
        {"Host": name, "Score": 10 * (name == "n0002")} for name in body["NodeNames"]
    ]
    stage.api.create(pod())
    stage.loop.run_until(1)
    assert stage.node_of() == "n0002"
    assert [verb for verb, _ in stage.extender.calls] == ["filter", "prioritize", "bind"]
    assert stage.extender.calls[2][1] == {
        "PodName": "a",
        "PodNamespace": "t",
        "PodUID": uid(stage.api),
        "Node": "n0002",
    }


def test_filter_is_not_called_when_the_in_tree_plugins_leave_no_node(stage: Stage) -> None:
    stage.nodes(3, gpus=1)
    stage.api.create(pod(gpus=4))
    stage.loop.run_until(60)
    assert stage.extender.calls == []
    assert stage.message() == "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


def test_only_nodes_that_fit_are_offered(stage: Stage) -> None:
    stage.nodes(2, gpus=1)
    stage.api.create(node("big", "b0", "r0", gpus=8))
    stage.loop.run_until(0.1)
    stage.api.create(pod(gpus=4))
    stage.loop.run_until(1)
    assert stage.extender.asked("filter")[0]["NodeNames"] == ["big"]
    assert stage.node_of() == "big"


def test_one_node_left_is_not_scored(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = lambda body: {"NodeNames": ["n0001"]}
    stage.api.create(pod())
    stage.loop.run_until(1)
    assert stage.extender.asked("prioritize") == []
    assert stage.node_of() == "n0001"


def test_a_nominated_pod_is_offered_its_node_alone(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = lambda body: (
        {"NodeNames": body["NodeNames"]} if len(body["NodeNames"]) == 1 else hold(body)
    )
    stage.api.create(pod())
    stage.loop.run_until(1)
    stage.api.nominate("t", "a", uid(stage.api), "n0001")
    stage.loop.run_until(10)
    assert stage.extender.asked("filter")[-1]["NodeNames"] == ["n0001"]
    assert stage.node_of() == "n0001"


def test_a_nominated_pod_that_is_refused_gets_the_full_list_in_the_same_cycle(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = lambda body: (
        hold(body) if len(body["NodeNames"]) == 1 else {"NodeNames": body["NodeNames"]}
    )
    item = pod()
    item["status"] = {"nominatedNodeName": "n0001"}
    stage.api.create(item)
    stage.loop.run_until(1)
    assert [len(body["NodeNames"]) for body in stage.extender.asked("filter")] == [1, 3]
    assert stage.node_of()


def test_a_nominated_pod_keeps_its_room_from_equals_but_not_from_the_api(stage: Stage) -> None:
    stage.nodes(1, gpus=4)
    stage.extender.answers["filter"] = lambda body: (
        hold(body) if body["Pod"]["metadata"]["name"] == "a" else {"NodeNames": body["NodeNames"]}
    )
    stage.api.create(pod("a", 4))
    stage.loop.run_until(1)
    stage.api.nominate("t", "a", uid(stage.api), "n0000")
    stage.loop.run_until(2)
    stage.api.create(pod("b", 1))
    stage.loop.run_until(60)
    assert stage.node_of("b") == ""
    assert stage.api.bind("t", "b", uid(stage.api, "b"), "n0000", {}).code == 201


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [
        (99, 0, 99),
        (100, 0, 100),
        (1000, 0, 420),
        (5000, 0, 500),
        (20000, 0, 1000),
        (1000, 1, 100),
        (1000, 30, 300),
        (1000, 100, 1000),
    ],
)
def test_large_clusters_are_sampled(nodes: int, percentage: int, wanted: int) -> None:
    assert sample_size(nodes, percentage) == wanted


def test_the_sample_rotates(stage: Stage) -> None:
    stage.nodes(250)
    stage.extender.answers["filter"] = hold
    for name in ("a", "b", "c"):
        stage.api.create(pod(name))
    stage.loop.run_until(stage.loop.now() + 0.1)
    offered = [set(body["NodeNames"]) for body in stage.extender.asked("filter")]
    assert [len(names) for names in offered] == [120, 120, 120]
    assert len(offered[0] | offered[1]) == 240
    assert offered[0] | offered[1] | offered[2] == {f"n{n:04d}" for n in range(250)}


def test_a_hold_shows_its_reason_and_a_constant_one_costs_no_calls_in_silence(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = hold
    stage.api.create(pod())
    stage.loop.run_until(20)
    assert stage.message() == "0/3 nodes are available: 1 gang t/g: 1 of 2 pods exist."
    calls = len(stage.extender.asked("filter"))
    assert calls == 2, "once more after its own condition was written"
    stage.loop.run_until(250)
    assert len(stage.extender.asked("filter")) == calls


def test_a_cluster_event_wakes_a_held_pod_after_its_back_off(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = hold
    stage.api.create(pod())
    stage.loop.run_until(20)
    stage.extender.answers["filter"] = lambda body: {"NodeNames": ["n0000"]}
    stage.api.create(node("new", "b0", "r0", 4))
    stage.loop.run_until(21)
    assert stage.node_of() == "n0000"


def test_a_patch_of_the_pod_wakes_it(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = hold
    stage.api.create(pod())
    stage.loop.run_until(20)
    stage.extender.answers["filter"] = lambda body: {"NodeNames": ["n0000"]}
    stage.api.annotate("t", "a", uid(stage.api), {"wake": "1"})
    stage.loop.run_until(21)
    assert stage.node_of() == "n0000"


def test_a_refused_bind_is_tried_again_after_a_back_off(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["bind"] = lambda _: {"Error": "not now"}
    stage.api.create(pod())
    stage.loop.run_until(0.5)
    assert "not now" in stage.message()
    assert len(stage.extender.asked("bind")) == 1
    stage.extender.answers["bind"] = stage.bind
    stage.loop.run_until(10)
    assert stage.node_of()


def test_an_assumed_pod_takes_room_until_its_bind_failed(stage: Stage) -> None:
    stage.nodes(1, gpus=4)
    stage.api.create(pod("a", 4))
    first, outcome = uid(stage.api, "a"), Future[dict[str, str]]()
    stage.slow.add(first)
    stage.extender.answers["bind"] = lambda body: (
        outcome.result(timeout=30) if body["PodName"] == "a" else stage.bind(body)
    )

    def fail() -> None:
        stage.slow.discard(first)
        outcome.set_result({"Error": "too late"})

    stage.loop.call_at(20, fail)
    stage.api.create(pod("b", 4))
    stage.loop.run_until(19)
    assert len(stage.extender.asked("filter")) == 1, "b found no room"
    stage.loop.run_until(30)
    assert (stage.node_of("a"), stage.node_of("b")) == ("", "n0000")


@pytest.mark.parametrize(
    "answer",
    [{"Error": "broken"}, {"NodeNames": ["not-offered"]}],
)
def test_an_error_or_a_node_not_offered_ends_the_cycle(stage: Stage, answer: Any) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = lambda _: answer
    stage.api.create(pod())
    stage.loop.run_until(0.5)
    assert stage.node_of() == ""
    assert stage.message().startswith("extender filter")


def test_both_lists_null_means_no_node(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = lambda _: {"NodeNames": None, "Nodes": None}
    stage.api.create(pod())
    stage.loop.run_until(0.5)
    assert stage.node_of() == ""
    assert stage.message().startswith("0/3 nodes are available")


def test_a_pod_bound_from_outside_leaves_the_queue(stage: Stage) -> None:
    stage.nodes(3)
    stage.extender.answers["filter"] = hold
    stage.api.create(pod())
    stage.loop.run_until(20)
    calls = len(stage.extender.calls)
    stage.api.bind("t", "a", uid(stage.api), "n0001", {})
    stage.api.create(node("new", "b0", "r0", 4))
    stage.loop.run_until(100)
    assert len(stage.extender.calls) == calls


def test_a_gated_pod_is_not_tried_until_its_gate_is_lifted(stage: Stage) -> None:
    stage.nodes(1)
    stage.api.create(pod(schedulingGates=[{"name": "g"}]))
    stage.loop.run_until(400)
    assert stage.extender.calls == []
    stage.api.update(pod_key("t", "a"), lambda item: item["spec"].pop("schedulingGates"))
    stage.loop.run_until(401)
    assert stage.node_of() == "n0000"


def test_pods_of_other_schedulers_only_take_room(stage: Stage) -> None:
    stage.nodes(1, gpus=4)
    stage.api.create(pod("a", 4, schedulerName="default-scheduler"))
    stage.loop.run_until(1)
    assert stage.extender.calls == []
    stage.api.bind("t", "a", uid(stage.api), "n0000", {})
    stage.api.create(pod("b", 1))
    stage.loop.run_until(60)
    assert stage.node_of("b") == ""


def test_a_deleted_node_is_offered_no_more(stage: Stage) -> None:
    stage.nodes(2)
    stage.api.delete(Key("Node", "", "n0000"))
    stage.api.create(pod())
    stage.loop.run_until(1)
    assert stage.extender.asked("filter")[0]["NodeNames"] == ["n0001"]


class TestPreemption:
    """A pod of high priority that fits nowhere asks the extender before anything is evicted."""

    @pytest.fixture(autouse=True)
    def full(self, stage: Stage) -> None:
        stage.nodes(2, gpus=4)
        for number, name in enumerate(("low", "mid")):
            stage.api.create(pod(name, 4, priority=number))
            stage.loop.run_until(stage.loop.now() + 1)
        stage.extender.calls.clear()

    def urgent(self, stage: Stage) -> None:
        stage.api.create(pod("urgent", 2, priority=10))
        stage.loop.run_until(stage.loop.now() + 1)

    def test_an_empty_answer_evicts_nobody(self, stage: Stage) -> None:
        self.urgent(stage)
        low, mid = stage.node_of("low"), stage.node_of("mid")
        victims = stage.extender.asked("preempt")[0]["NodeNameToMetaVictims"]
        assert {node: entry["Pods"] for node, entry in victims.items()} == {
            low: [{"UID": uid(stage.api, "low")}],
            mid: [{"UID": uid(stage.api, "mid")}],
        }
        assert not live(stage.api, "low")["metadata"].get("deletionTimestamp")
        assert not live(stage.api, "mid")["metadata"].get("deletionTimestamp")

    def test_of_the_kept_nodes_the_least_important_victim_goes(self, stage: Stage) -> None:
        stage.extender.answers["preempt"] = lambda body: {
            "NodeNameToMetaVictims": body["NodeNameToMetaVictims"]
        }
        self.urgent(stage)
        assert live(stage.api, "low")["metadata"]["deletionTimestamp"]
        assert not live(stage.api, "mid")["metadata"].get("deletionTimestamp")
        assert live(stage.api, "urgent")["status"]["nominatedNodeName"] == stage.node_of("low")
        assert stage.extender.asked("filter") == []

    def test_the_extender_can_shrink_the_choice_but_add_no_victim(self, stage: Stage) -> None:
        mid = stage.node_of("mid")
        stage.extender.answers["preempt"] = lambda body: {
            "NodeNameToMetaVictims": {
                mid: body["NodeNameToMetaVictims"][mid],
                "elsewhere": {"Pods": [{"UID": uid(stage.api, "low")}]},
            }
        }
        self.urgent(stage)
        assert live(stage.api, "mid")["metadata"]["deletionTimestamp"]
        assert not live(stage.api, "low")["metadata"].get("deletionTimestamp")

    def test_the_preemptor_comes_back_with_its_node_alone(self, stage: Stage) -> None:
        stage.extender.answers["preempt"] = lambda body: {
            "NodeNameToMetaVictims": body["NodeNameToMetaVictims"]
        }
        self.urgent(stage)
        freed = stage.node_of("low")
        stage.api.finalize(pod_key("t", "low"), uid(stage.api, "low"))
        stage.loop.run_until(stage.loop.now() + 60)
        assert stage.node_of("urgent") == freed
        assert stage.extender.asked("filter")[-1]["NodeNames"] == [freed]

    def test_equal_priority_is_no_victim(self, stage: Stage) -> None:
        stage.api.create(pod("equal", 4, priority=0))
        stage.loop.run_until(stage.loop.now() + 60)
        assert stage.extender.asked("preempt") == []
