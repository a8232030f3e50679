"""Owners of pods are read when they are needed, once, and never on the watch's thread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.recording import RecordingWorld
from scheduler import decode
from scheduler.cluster.owners import REFRESH_S, Owners, owner_resources
from scheduler.cluster.transport import Answer, UnreachableError
from scheduler.core.messages import GroupGone, GroupSeen, NodeGone, PodGone, PodSeen
from scheduler.model import Group, Pod
from tests.unit.dialects.controller_pods import (
    env,
    job,
    job_pod,
    jobset,
    jobset_object,
    lws,
    lws_set,
    replicated,
)

JOB = "Job.batch t/train"
PATH = "/apis/batch/v1/namespaces/t/jobs/train"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Server:
    """Objects by path; whatever else it is told to answer."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.answers: dict[str, Answer | Exception] = {}
        self.asked: list[str] = []
        self.changed = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()
        for group, *versions in (
            ("batch", "v1"),
            ("jobset.x-k8s.io", "v1alpha2"),
            ("leaderworkerset.x-k8s.io", "v1"),
            ("kubeflow.org", "v1", "v2beta1"),
        ):
            self.objects[f"/apis/{group}"] = {"versions": [{"version": one} for one in versions]}

    def get(self, path: str) -> Answer:
        with self.changed:
            self.asked.append(path)
            self.changed.notify_all()
        assert threading.current_thread().name == "muster-owners"
        answer = self._answer(path)
        assert self.gate.wait(10)
        return answer

    def _answer(self, path: str) -> Answer:
        said = self.answers.get(path)
        if isinstance(said, Exception):
            raise said
        if said is not None:
            return said
        found = self.objects.get(path)
        if found is None:
            return Answer(404, b'{"kind":"Status","reason":"NotFound","code":404}')
        return Answer(200, json.dumps(found).encode())

    def count(self, path: str) -> int:
        return self.asked.count(path)

    def wait_for(self, path: str, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.count(path) >= count, 15.0), self.asked


class Bench:
    """Owners between a server and a world."""

    def __init__(self) -> None:
        self.server, self.world, self.clock = Server(), RecordingWorld(), Clock()
        self.owners = Owners(self.server, self.world.post, ["muster"], self.clock)
        self.owners.start()

    def see(self, pod: dict[str, Any]) -> Pod:
        found = decode.pod(pod)
        self.owners.post(PodSeen(found))
        return found

    def group(self, key: str = JOB) -> Group:
        self.world.wait(lambda: key in self.world.groups)
        return self.world.groups[key]

    def later(self, seconds: float) -> None:
        """Time passes; the thread looks at the clock again."""
        self.clock.now += seconds
        with self.owners._changed:
            self.owners._changed.notify_all()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.server.gate.set()
    made.owners.stop()
    assert not made.owners._thread.is_alive()


def test_a_jobs_pods_have_it_read_once(bench: Bench) -> None:
    bench.server.objects[PATH] = job(3, 3)
    for index in range(3):
        bench.see(job_pod("train", index))
    assert bench.group().options.min_available == 3
    bench.see(job_pod("train", 1, phase="Running", node="n1"))
    bench.owners.stop()
    assert bench.server.count(PATH) == 1


def test_the_pods_are_passed_on_before_the_answer_is_there(bench: Bench) -> None:
    bench.server.gate.clear()
    bench.see(job_pod("train", 0))
    assert [type(event) for event in bench.world.events] == [PodSeen]


def test_other_events_and_other_pods_pass_untouched(bench: Bench) -> None:
    bench.owners.post(NodeGone("n1"))
    bench.see(job_pod("train", 0, scheduler="default-scheduler"))
    bench.see(job_pod("train", 1, phase="Succeeded"))
    bench.see(job_pod("train", 2, gang="A"))
    assert len(bench.world.events) == 4
    bench.see(job_pod("other", 0))
    bench.group("Job.batch t/other")
    assert bench.server.asked == ["/apis/batch", PATH.replace("train", "other")]


def test_with_the_last_pod_the_owner_is_forgotten(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    pods = [bench.see(job_pod("train", index)) for index in range(2)]
    bench.group()
    bench.owners.post(PodGone(pods[0].uid))
    assert JOB in bench.world.groups
    bench.owners.post(PodGone(pods[1].uid))
    assert bench.world.groups == {}
    assert bench.owners._entries == {}
    bench.owners.post(PodGone(pods[1].uid))


def test_a_new_owner_of_the_name_is_read_before_its_pods_count(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    bench.see(job_pod("train", 0))
    assert bench.group().options.min_available == 2
    bench.server.objects[PATH] = job(4, 4)
    bench.server.gate.clear()

    bench.see(job_pod("train", 1, owner=("Job", "train", "uid-2"), uid="new"))

    kinds = [type(event) for event in bench.world.events]
    assert kinds == [PodSeen, GroupSeen, GroupGone, PodSeen], "the old size is gone first"
    bench.server.gate.set()
    bench.world.wait(lambda: JOB in bench.world.groups)
    assert bench.group().options.min_available == 4


def test_an_answer_that_was_overtaken_is_not_used(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    bench.server.gate.clear()
    bench.see(job_pod("train", 0))
    bench.server.wait_for("/apis/batch", 1)
    bench.server.gate.set()
    bench.group()
    bench.server.gate.clear()
    bench.later(REFRESH_S)
    bench.see(job_pod("train", 1))
    bench.server.wait_for(PATH, 2)
    bench.server.objects[PATH] = job(4, 4)
    bench.see(job_pod("train", 2, owner=("Job", "train", "uid-2"), uid="new"))
    bench.server.gate.set()
    bench.group()
    told = [
        event.group.options.min_available
        for event in bench.world.events
        if isinstance(event, GroupSeen)
    ]
    assert told == [2, 4], "the 2 of the second answer is that of the job before"


def test_an_owner_that_is_scaled_is_read_again_after_a_minute(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    bench.see(job_pod("train", 0))
    bench.group()
    bench.server.objects[PATH] = job(4, 4)
    bench.see(job_pod("train", 1))
    bench.later(REFRESH_S)

    bench.see(job_pod("train", 2))

    bench.world.wait(lambda: bench.world.groups[JOB].options.min_available == 4)
    assert bench.server.count(PATH) == 2


def test_orphans_are_single_pods(bench: Bench) -> None:
    bench.see(job_pod("train", 0))
    found = bench.group()
    assert (found.gang, found.fault) == (False, "")
    bench.see(job_pod("train", 1))

    bench.server.objects[PATH] = job(2, 2)
    bench.later(REFRESH_S)

    bench.world.wait(lambda: bench.world.groups[JOB].gang)
    assert bench.server.count(PATH) == 2, "that it was not there was remembered for a while"


def test_a_refusal_holds_the_gang_and_says_what_to_grant(bench: Bench) -> None:
    bench.server.answers[PATH] = Answer(403, b'{"message":"jobs is forbidden"}')
    bench.see(job_pod("train", 0))
    fault = bench.group().fault
    assert "jobs is forbidden" in fault
    assert "the verb get on jobs of the API group batch" in fault
    assert "muster.scheduler/min-available" in fault
    assert len(fault) < 1000

    del bench.server.answers[PATH]
    bench.server.objects[PATH] = job(2, 2)
    bench.later(REFRESH_S)

    bench.world.wait(lambda: bench.world.groups[JOB].options.min_available == 2)


@pytest.mark.parametrize("answer", [Answer(403, b"{}"), Answer(404, b"{}")])
def test_pods_that_state_their_size_do_without_the_owner(bench: Bench, answer: Answer) -> None:
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/t/leaderworkersets/serve"
    bench.server.answers[path] = answer
    bench.see(lws(0, 4))
    found = bench.group("LeaderWorkerSet.leaderworkerset.x-k8s.io t/serve")
    assert (found.gang, found.fault) == (True, "")


def test_a_size_that_is_stated_later_lifts_the_fault(bench: Bench) -> None:
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/t/jobsets/train"
    key = "JobSet.jobset.x-k8s.io t/train"
    bench.server.answers[path] = Answer(403, b"{}")
    bench.see(jobset("driver", 0, 0))
    assert bench.group(key).fault
    bench.see(jobset("workers", 0, 0, variables=env(PET_NNODES=4)))
    bench.world.wait(lambda: bench.world.groups[key].fault == "")


@pytest.mark.parametrize(
    "failure", [Answer(500, b"{}"), Answer(429, b"{}"), UnreachableError("no route")], ids=str
)
def test_a_passing_failure_is_tried_again(bench: Bench, failure: Any) -> None:
    bench.server.answers[PATH] = failure
    bench.see(job_pod("train", 0))
    assert "cannot be read" in bench.group().fault
    del bench.server.answers[PATH]
    bench.server.objects[PATH] = job(2, 2)
    bench.later(1.0)
    bench.world.wait(lambda: bench.world.groups[JOB].fault == "")


def test_a_passing_failure_takes_nothing_back(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    bench.see(job_pod("train", 0))
    before = bench.group()
    bench.server.answers[PATH] = Answer(503, b"{}")
    bench.later(REFRESH_S)
    bench.see(job_pod("train", 1))
    bench.server.wait_for(PATH, 2)
    del bench.server.answers[PATH]
    while bench.server.count(PATH) < 3:  # until the failure was taken in, and its pause is over
        bench.later(1.0)
        with bench.server.changed:
            bench.server.changed.wait(0.01)
    bench.owners.stop()
    told = [event for event in bench.world.events if not isinstance(event, PodSeen)]
    assert told == [GroupSeen(before)]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":"Job"}', b"\xff", b"[" * 100_000])
def test_an_answer_that_is_no_such_object_is_a_fault(bench: Bench, body: bytes) -> None:
    bench.server.answers[PATH] = Answer(200, body)
    bench.see(job_pod("train", 0))
    assert "is no such object" in bench.group().fault


def test_every_version_that_is_served_is_tried(bench: Bench) -> None:
    path = "/apis/kubeflow.org/v2beta1/namespaces/t/mpijobs/pi"
    from tests.unit.dialects.controller_pods import mpi, mpi_job

    bench.server.objects[path] = mpi_job(4)
    bench.see(mpi("worker", 0))
    assert bench.group("MPIJob.kubeflow.org t/pi").options.min_available == 5
    assert bench.server.asked[1:] == [path.replace("v2beta1", "v1"), path]


def test_a_kind_that_is_not_served_is_not_there(bench: Bench) -> None:
    del bench.server.objects["/apis/jobset.x-k8s.io"]
    bench.see(jobset("workers", 0, 0))
    assert bench.group("JobSet.jobset.x-k8s.io t/train").gang is False


def test_the_namesake_of_another_kind_is_another_owner(bench: Bench) -> None:
    bench.server.objects[PATH] = job(2, 2)
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/t/jobsets/train"
    bench.server.objects[path] = jobset_object(replicated("w", 4))
    bench.see(job_pod("train", 0))
    bench.see(jobset("w", 0, 0))
    assert bench.group().options.min_available == 2
    assert bench.group("JobSet.jobset.x-k8s.io t/train").options.min_available == 4


def test_a_leader_worker_set_is_read_for_its_start_up_policy(bench: Bench) -> None:
    path = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/t/leaderworkersets/serve"
    bench.server.objects[path] = lws_set(4, "LeaderReady")
    bench.see(lws(0, 4))
    assert bench.group("LeaderWorkerSet.leaderworkerset.x-k8s.io t/serve").options.first == 1


def test_thousands_of_pods_cost_one_look_each_owner(bench: Bench) -> None:
    for number in range(50):
        bench.server.objects[PATH + str(number)] = job(20, 20, name=f"train{number}")
    bench.server.gate.clear()
    bench.see(job_pod("train0", 0))
    bench.server.wait_for("/apis/batch", 1)
    for index in range(20):
        for number in range(50):
            bench.see(job_pod(f"train{number}", index))
            bench.clock.now += 0.001
    bench.see(job_pod("last", 0))
    bench.server.gate.set()
    bench.group("Job.batch t/last")
    assert len(bench.world.groups) == 51
    assert all(bench.server.count(PATH + str(number)) == 1 for number in range(50))


def test_every_kind_that_may_be_read_is_known_by_its_resource() -> None:
    assert owner_resources() == [
        ("batch", "jobs"),
        ("batch.volcano.sh", "jobs"),
        ("jobset.x-k8s.io", "jobsets"),
        ("kubeflow.org", "jaxjobs"),
        ("kubeflow.org", "mpijobs"),
        ("kubeflow.org", "paddlejobs"),
        ("kubeflow.org", "pytorchjobs"),
        ("kubeflow.org", "tfjobs"),
        ("kubeflow.org", "xgboostjobs"),
        ("leaderworkerset.x-k8s.io", "leaderworkersets"),
        ("ray.io", "rayclusters"),
    ]
