"""The embedded API server accepts and refuses what a real one does."""

from __future__ import annotations

import pytest
from simulation_objects import live, pod, uid

from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.clock import EventLoop
from scheduler.simulation.objects import Change, ChangeType


@pytest.fixture
def loop() -> EventLoop:
    return EventLoop()


@pytest.fixture
def api(loop: EventLoop) -> ApiServer:
    return ApiServer(loop)


def test_a_binding_sets_node_and_hint_in_one_write_and_drops_the_nomination(api: ApiServer) -> None:
    api.create(pod())
    api.nominate("t", "a", uid(api), "n7")
    seen: list[Change] = []
    api.store.watch(seen.append)

    answer = api.bind("t", "a", uid(api), "n1", {"muster.scheduler/hint": "{}"})

    assert answer.code == 201
    assert len(seen) == 1
    bound = seen[0].object
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"muster.scheduler/hint": "{}"}
    assert "nominatedNodeName" not in bound["status"]


def test_a_binding_keeps_the_annotations_that_the_pod_has(api: ApiServer) -> None:
    item = pod()
    item["metadata"]["annotations"] = {"mine": "1"}
    api.create(item)
    api.bind("t", "a", uid(api), "n1", {"hint": "x"})
    assert live(api)["metadata"]["annotations"] == {"mine": "1", "hint": "x"}


def test_a_gated_pod_is_not_bound(api: ApiServer) -> None:
    api.create(pod(schedulingGates=[{"name": "g"}]))
    assert api.bind("t", "a", uid(api), "n1", {}).code == 409
    assert "nodeName" not in live(api)["spec"]


def test_a_terminating_pod_is_not_bound(api: ApiServer) -> None:
    api.create(pod())
    api.update(
        pod_key("t", "a"),
        lambda item: item["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    assert api.bind("t", "a", uid(api), "n1", {}).code == 409


def test_another_uid_is_not_bound(api: ApiServer) -> None:
    api.create(pod())
    answer = api.bind("t", "a", "of-an-earlier-pod", "n1", {})
    assert answer.code == 409
    assert "UID" in answer.message


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_bound_pod_is_not_bound_again_even_to_the_same_node(api: ApiServer, node: str) -> None:
    api.create(pod())
    api.bind("t", "a", uid(api), "n1", {})
    assert api.bind("t", "a", uid(api), node, {"late": "1"}).code == 409
    assert "late" not in live(api)["metadata"].get("annotations", {})


def test_a_missing_pod_is_not_found(api: ApiServer) -> None:
    assert api.bind("t", "a", "", "n1", {}).code == 404


def test_the_node_of_a_binding_is_not_checked(api: ApiServer) -> None:
    api.create(pod())
    assert api.bind("t", "a", uid(api), "no-such-node", {}).code == 201


def test_a_name_can_be_taken_once(api: ApiServer) -> None:
    assert api.create(pod()).code == 201
    assert api.create(pod()).code == 409


def test_a_new_pod_of_an_old_name_has_another_uid(api: ApiServer) -> None:
    api.create(pod())
    first = uid(api)
    api.delete(pod_key("t", "a"))
    api.create(pod())
    assert uid(api) != first


def test_a_nomination_of_another_uid_is_invalid(api: ApiServer) -> None:
    api.create(pod())
    assert api.nominate("t", "a", "other", "n1").code == 422
    assert "nominatedNodeName" not in live(api)["status"]


def test_a_waiting_pod_goes_at_once_and_a_bound_one_terminates(api: ApiServer) -> None:
    api.create(pod("a"))
    api.create(pod("b"))
    api.bind("t", "b", uid(api, "b"), "n1", {})

    api.evict("t", "a", uid(api, "a"))
    api.evict("t", "b", uid(api, "b"), "broken gang")

    assert api.store.get(pod_key("t", "a")) is None
    assert live(api, "b")["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    conditions = {one["type"]: one["message"] for one in live(api, "b")["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "broken gang"


def test_an_eviction_of_another_uid_is_refused(api: ApiServer) -> None:
    api.create(pod())
    assert api.evict("t", "a", "other").code == 409
    live(api)


def test_a_finished_pod_never_runs_again(api: ApiServer) -> None:
    api.create(pod())
    api.set_phase(pod_key("t", "a"), "Failed", "OutOfcpu")
    api.set_phase(pod_key("t", "a"), "Running")
    assert live(api)["status"]["phase"] == "Failed"


def test_the_same_condition_again_is_no_write(api: ApiServer) -> None:
    api.create(pod())
    key = pod_key("t", "a")
    api.set_condition(key, "PodScheduled", "False", "Unschedulable", "no room")
    seen: list[Change] = []
    api.store.watch(seen.append)
    api.set_condition(key, "PodScheduled", "False", "Unschedulable", "no room")
    assert seen == []
    api.set_condition(key, "PodScheduled", "False", "Unschedulable", "still no room")
    assert [change.type for change in seen] == [ChangeType.MODIFIED]


def test_what_a_reader_was_given_does_not_change_under_it(api: ApiServer) -> None:
    api.create(pod())
    before = live(api)
    api.bind("t", "a", uid(api), "n1", {})
    assert "nodeName" not in before["spec"]
    assert before["metadata"]["resourceVersion"] != live(api)["metadata"]["resourceVersion"]
