"""Jobs of other projects' own controllers: they start as gangs, go on after a failure, and finish.

Everything is real but the containers: the Job controller, JobSet and Kubeflow's training operator
make the pods, the two schedulers place them, and kwok stands in for the kubelets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.e2e.controlplane import build, gomodule, kwok
from tests.e2e.controlplane.client import ApiError, Client, Object, Objects, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.controllers import start_jobset, start_training_operator
from tests.e2e.controlplane.versions import CONTROLLERS
from tests.e2e.controlplane.watch import PodRecorder
from tests.e2e.definitions import JOBSET, define
from tests.e2e.definitions import TRAINING_OPERATOR as KUBEFLOW
from tests.e2e.deployed import DEPLOY, apply, kind_of, moved, objects
from tests.e2e.gangs import hint_of, rack_of
from tests.e2e.muster import MusterProcess, start_muster_scheduler
from tests.e2e.own_plane import own_plane

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]
"""Three programs are built when this runs for the first time on a machine."""

FAILED = 1


@dataclass(frozen=True)
class Example:
    """A job as its users write it, and how its controller calls the end."""

    name: str
    finished: str
    members: int = 4
    least: int = 4
    """How many must be there before any is bound."""
    replaced: int = 1
    """How many pods are made anew after one has failed."""
    module: str = ""
    """Where it is from, if it is not one of deploy/examples."""

    def objects(self, namespace: str) -> Objects:
        """What to apply."""
        return [moved(item, namespace) for item in self._read()]

    def _read(self) -> Objects:
        if not self.module:
            return objects(DEPLOY / "examples" / f"{self.name}.yaml")
        found = objects(gomodule.source(self.module) / "examples" / f"{self.name}.yaml")
        for replicas in found[-1]["spec"]["pytorchReplicaSpecs"].values():
            replicas["template"]["spec"]["schedulerName"] = "muster"
        del found[-1]["metadata"]["namespace"]
        return found


EXAMPLES = [
    Example("indexed-job", "Complete"),
    # A JobSet starts again as a whole.
    Example("jobset", "Completed", replaced=4),
    Example("pytorchjob", "Succeeded"),
    Example("pytorchjob-elastic", "Succeeded", least=2),
    Example("pytorch/simple", "Succeeded", members=2, least=2, module=KUBEFLOW),
]


@pytest.fixture(scope="module", autouse=True)
def _built(pytestconfig: pytest.Config) -> None:
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        build.ensure(CONTROLLERS)


@pytest.fixture(scope="module")
def control_plane(_built: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane with the controllers, Muster and its scheduler."""
    with own_plane(request) as plane, ExitStack() as stack:
        client = plane.client()
        stack.callback(client.close)
        define(client, [JOBSET, KUBEFLOW])
        kwok.start_kwok(plane)
        start_jobset(plane, client)
        start_training_operator(plane, client)
        muster = stack.enter_context(MusterProcess(plane))
        stack.callback(start_muster_scheduler(muster).stop)
        yield plane


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client."""
    client = control_plane.client()
    yield client
    client.close()


def _pods(client: Client, namespace: str, phase: str) -> Mapping[str, Object]:
    """The pods in this phase that nobody is deleting, by uid."""
    return {
        pod["metadata"]["uid"]: pod
        for pod in client.list("Pod", namespace)
        if pod["status"].get("phase") == phase and "deletionTimestamp" not in pod["metadata"]
    }


def _all_run(client: Client, namespace: str, members: int) -> Mapping[str, Object]:
    def running() -> Mapping[str, Object]:
        found = _pods(client, namespace, "Running")
        return found if len(found) == members else {}

    return wait_until(running, 60, what=f"{members} pods run in {namespace}")


def _is_one_gang(pods: Mapping[str, Object], least: int) -> None:
    hints = [hint_of(pod) for pod in pods.values()]
    assert sorted(hint["rank"] for hint in hints) == list(range(len(pods)))
    # Who joins later is told a larger size.
    assert {hint["size"] for hint in hints} <= set(range(least, len(pods) + 1))
    assert len({rack_of(pod["spec"]["nodeName"]) for pod in pods.values()}) == 1


def _conditions(client: Client, job: Object) -> set[str]:
    """The conditions of a job that are true."""
    metadata = job["metadata"]
    found = client.get(kind_of(job), metadata["name"], metadata["namespace"])
    conditions = found.get("status", {}).get("conditions", [])
    return {item["type"] for item in conditions if item["status"] == "True"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_job_starts_as_a_gang_goes_on_after_a_failure_and_finishes(
    client: Client, namespace: str, nodes: Objects, example: Example
) -> None:
    *others, job = example.objects(namespace)
    with PodRecorder(client, namespace) as recorder:
        for item in (*others, job):
            apply(client, item)
        first = _all_run(client, namespace, example.members)
        created = sorted(change.at for change in recorder.changes if change.kind == "ADDED")
        bound = [change.at for change in recorder.bindings()]
    assert min(bound) > created[example.least - 1], "nothing is bound before the gang is whole"
    _is_one_gang(first, example.least)

    kwok.end(client, next(iter(first.values())), FAILED)
    wait_until(
        lambda: len(_pods(client, namespace, "Running").keys() - first.keys()) == example.replaced,
        60,
        what="what failed is made anew",
    )
    second = _all_run(client, namespace, example.members)
    _is_one_gang(second, example.least)

    # Rank 0 last: some controllers remove the others when it is done.
    for pod in sorted(second.values(), key=lambda pod: -int(hint_of(pod)["rank"])):
        kwok.end(client, pod)
    wait_until(
        lambda: example.finished in _conditions(client, job), 60, what=f"it is {example.finished}"
    )


@pytest.mark.parametrize(
    ("example", "right", "wrong", "words"),
    [
        ("jobset", '"replicas": 1', '"replicas": 2000000000', "replicas and parallelism"),
        ("pytorchjob", '"name": "pytorch"', '"name": "x"', "container with name pytorch"),
    ],
    ids=["jobset", "pytorchjob"],
)
def test_the_webhooks_of_these_controllers_are_asked(
    client: Client, namespace: str, example: str, right: str, wrong: str, words: str
) -> None:
    (job,) = objects(DEPLOY / "examples" / f"{example}.yaml")
    text = json.dumps(moved(job, namespace)).replace(right, wrong)

    with pytest.raises(ApiError, match=words):
        apply(client, json.loads(text), dryRun="All")
