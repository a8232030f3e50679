"""What Muster writes into the status of a PodGroup, and when it keeps its hands off it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.cluster import mirror
from scheduler.cluster.group_status import GroupStatus, StatusActuator
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.resources import Meta, Resource, pod_groups
from scheduler.cluster.transport import Answer
from scheduler.core.messages import Bind, Effect, Record
from scheduler.model import Declaration, GangKey, GroupKey, Pod, PodRef

GANG = GangKey("t", "a")
NATIVE, VOLCANO = "PodGroup.scheduling.k8s.io", "PodGroup.scheduling.volcano.sh"
VERSIONS = {NATIVE: "v1beta1", VOLCANO: "v1beta1"}
FOREIGN = {"type": "Other", "status": "True", "reason": "Theirs"}


class Api:
    """One PodGroup, which may be refused or changed behind one's back."""

    def __init__(self) -> None:
        self.group: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "status": {}}
        self.asked: list[str] = []
        self.written = 0
        self.refuse: list[int] = []
        self.changed = threading.Condition()

    def get(self, path: str) -> Answer:
        return Answer(200, json.dumps(self.group).encode())

    def patch(self, path: str, body: Any) -> Answer:
        with self.changed:
            self.asked.append(path)
            status = self.refuse.pop(0) if self.refuse else 200
            if status == 200 and body["metadata"]["resourceVersion"] == self._version:
                self.group["status"] = {**self.group["status"], **body["status"]}
                self.written += 1
            self.changed.notify_all()
            return Answer(status, b"{}")

    @property
    def _version(self) -> str:
        return str(self.group["metadata"]["resourceVersion"])

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = self.group["status"].get("conditions", [])
        return next((item for item in conditions if item["type"] == kind), {})

    def wait(self, what: Any) -> None:
        with self.changed:
            assert self.changed.wait_for(what, 10.0)


class Written:
    """The writer over that API, and a pod that names the group."""

    def __init__(self, kind: str) -> None:
        self.api = Api()
        self.pods: Mirror[Pod] = mirror.pods()
        self.status = GroupStatus(self.api, self.pods, self._resource)  # type: ignore[arg-type]
        self.status.start()
        declared = Declaration("a", "x", group=GroupKey(kind, "t", "group"))
        pod = Pod("t", "a-0", "uid-a-0", declaration=declared)
        self.pods.put(Meta("t", "a-0", pod.uid), pod, lambda event: None)
        self.ref = pod.ref

    def _resource(self, key: GroupKey) -> Resource | None:
        return pod_groups(key.kind.partition(".")[2], VERSIONS[key.kind])

    def waits(self, reason: str = "GangWaiting", text: str = "no room") -> None:
        self.status.note(Record(1, GANG, (self.ref,), reason, text, warning=True))

    def close(self) -> None:
        self.status.stop(10.0)


@pytest.fixture(params=[NATIVE])
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    made = Written(request.param)
    yield made
    made.close()


def test_a_gang_that_waits_and_then_starts(written: Written) -> None:
    api = written.api
    api.group["status"] = {"phase": "Pending", "conditions": [FOREIGN]}
    written.waits()
    api.wait(lambda: api.condition("PodGroupScheduled").get("status") == "False")
    assert api.condition("PodGroupScheduled")["reason"] == "GangWaiting"
    assert api.condition("PodGroupScheduled")["message"] == "no room"
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/t/podgroups/group/status"
    assert set(api.asked) == {path}

    written.status.note(Bind(2, written.ref, "n1", {}, GANG, ""))
    written.status.started(GANG, 3)
    api.wait(lambda: api.condition("PodGroupScheduled").get("status") == "True")
    assert api.condition("Other") == FOREIGN
    assert api.group["status"]["phase"] == "Pending"


@pytest.mark.parametrize("written", [VOLCANO], indirect=True)
def test_volcanos_condition_has_its_own_name_and_an_id(written: Written) -> None:
    written.status.note(Bind(2, written.ref, "n1", {}, GANG, ""))
    written.status.started(GANG, 3)
    api = written.api
    api.wait(lambda: api.condition("Scheduled").get("status") == "True")
    assert api.condition("Scheduled")["transitionID"]


def test_the_time_of_the_last_change_is_that_of_the_state_and_the_same_is_not_written_again(
    written: Written,
) -> None:
    api = written.api
    since = "2020-01-01T00:00:00Z"
    said = {"type": "PodGroupScheduled", "status": "False", "reason": "GangWaiting"}
    api.group["status"]["conditions"] = [said | {"message": "no room", "lastTransitionTime": since}]
    written.waits()
    written.waits("GangBroken", "lost one")
    api.wait(lambda: api.condition("PodGroupScheduled").get("reason") == "GangBroken")
    assert api.written == 1
    assert api.condition("PodGroupScheduled")["lastTransitionTime"] == since


def test_a_conflict_is_tried_again(written: Written) -> None:
    written.api.refuse = [409, 409]
    written.waits()
    written.api.wait(lambda: written.api.written == 1)
    assert len(written.api.asked) == 3


def test_where_it_is_forbidden_it_is_given_up(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written.api.refuse = [403]
    written.waits()
    written.api.wait(lambda: len(written.api.asked) == 1)
    written.waits("GangBroken", "lost one")
    written.close()
    assert len(written.api.asked) == 1
    assert sum("are not written" in record.message for record in caplog.records) == 1


def test_other_records_and_groups_without_conditions_are_left_alone(written: Written) -> None:
    written.waits("MemberRejected")
    declared = Declaration("b", "x", group=GroupKey("PodGroup.scheduling.x-k8s.io", "t", "b"))
    pod = Pod("t", "b-0", "uid-b-0", declaration=declared)
    written.pods.put(Meta("t", "b-0", pod.uid), pod, lambda event: None)
    written.status.note(Record(1, GangKey("t", "b"), (pod.ref,), "GangWaiting", "no room"))
    written.status.started(GangKey("t", "never-heard-of"), 1)
    written.close()
    assert written.api.asked == []


def test_effects_pass_on_as_they_came(written: Written) -> None:
    class Behind:
        def __init__(self) -> None:
            self.had: list[Effect] = []

        def start(self, post: Any) -> None:
            """Nothing to do."""

        def submit(self, effects: Any) -> None:
            self.had += effects

        def stop(self, deadline_s: float) -> None:
            """Nothing to do."""

    behind = Behind()
    effects = [Bind(2, PodRef("t", "x", "u"), "n1", {}, GANG, "")]
    StatusActuator(behind, written.status).submit(effects)
    assert behind.had == effects


def test_what_was_not_written_is_logged_with_its_gang(
    written: Written, caplog: pytest.LogCaptureFixture
) -> None:
    written.api.refuse = [500]
    written.waits()
    written.api.wait(lambda: len(written.api.asked) == 1)
    written.close()
    (said,) = (record for record in caplog.records if "was not written" in record.message)
    assert said.gang == str(GANG)  # type: ignore[attr-defined]
