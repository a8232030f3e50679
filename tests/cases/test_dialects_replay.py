"""Every way to declare a gang, end to end: pods as their controllers make them start whole."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from builders import OURS, in_group, pod_group
from unit.dialects import controller_pods as made

from scheduler import decode

from .story import Story

Json = dict[str, Any]

GATES = ["kueue.x-k8s.io/admission"]
PLUGINS = "scheduling.x-k8s.io/pod-group"
VOLCANO = "scheduling.k8s.io/group-name"


class Gang(NamedTuple):
    """A gang as one controller makes it: its objects, its pods, and the name it has here."""

    name: str
    pods: list[Json]
    objects: list[Json] = []
    ranks: list[str] | None = None
    """Pods in rank order, where the controller has one."""


def cluster() -> Story:
    story = Story()
    for block in (1, 2):
        for rack in (1, 2):
            for node in (1, 2):
                name = f"b{block}r{rack}n{node}"
                story.node(name, gpu=8, block=f"b{block}", rack=f"b{block}r{rack}")
    story.node("cpu1")
    return story


def names(pods: list[Json]) -> list[str]:
    return [f"t/{pod['metadata']['name']}" for pod in pods]


def group_pods(kind: str) -> list[Json]:
    return [made.pod(f"A-{at}", gpu=4, **in_group("A", kind=kind)) for at in range(3)]


def ours() -> Gang:
    return Gang("t/A", [made.pod(f"A-{at}", gpu=4, gang="A", min=3) for at in range(3)])


def native() -> Gang:
    return Gang("t/A", group_pods("native"), [pod_group("t/A", min=3)])


def coscheduling() -> Gang:
    return Gang("t/A", group_pods("coscheduling"), [pod_group("t/A", min=3, kind="coscheduling")])


def coscheduling_older() -> Gang:
    return Gang("t/A", group_pods("sigs"), [pod_group("t/A", min=3, kind="sigs")])


def coscheduling_oldest(prefix: str = "pod-group.scheduling.sigs.k8s.io/") -> Gang:
    labels = {prefix + "name": "A", prefix + "min-available": "3"}
    return Gang("t/A", [made.pod(f"A-{at}", gpu=4, labels=labels) for at in range(3)])


def coscheduling_enhancement() -> Gang:
    return coscheduling_oldest("pod-group.scheduling.x-k8s.io/")


def koordinator() -> Gang:
    keys = {"min_available": "3", "total_number": "3", "mode": "NonStrict", "waiting_time": "60s"}
    return Gang("t/A", [made.koordinator(f"A-{at}", **keys) for at in range(3)])


def volcano() -> Gang:
    spec = {"minMember": 4, "minTaskMember": {"master": 1, "worker": 3}}
    pods = [made.volcano("worker", at) for at in range(3)] + [made.volcano("master", 0)]
    order = ["t/train-master-0", *(f"t/train-worker-{at}" for at in range(3))]
    name = "t/train-5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11"
    return Gang(name, pods, [made.volcano_group(spec)], order)


def kueue() -> Gang:
    return Gang("t/A", [made.kueue(at, 3) for at in range(3)])


def kai() -> Gang:
    spec = {
        "minMember": 4,
        "subGroups": [{"name": "head", "minMember": 1}, {"name": "gpus", "minMember": 3}],
    }
    pods = [made.kai("head", subgroup="head", gpu=None)]
    pods += [made.kai(f"gpus-{at}", subgroup="gpus") for at in range(3)]
    return Gang("t/pg-train-1", pods, [made.kai_group(spec)])


def yunikorn() -> Gang:
    groups = {"master": 1, "worker": 2}
    pods = [made.yunikorn("m", "master", groups)]
    pods += [made.yunikorn(f"w-{at}", "worker") for at in range(2)]
    return Gang("t/app-0001", pods)


def hived() -> Gang:
    return Gang("t/team.job1", [made.hived(f"h-{at}", "team/job1", [(3, 4)]) for at in range(3)])


def leader_worker_set() -> Gang:
    pods = [made.lws(at, 4) for at in range(4)]
    return Gang("t/serve-0", pods, [made.lws_set(4)], names(pods))


def jobset() -> Gang:
    pods = [made.jobset("driver", 0, 0, gpu=None)]
    pods += [made.jobset("workers", job, at, replicas=2) for job in range(2) for at in range(2)]
    parts = made.replicated("driver", 1, gpu=None), made.replicated("workers", 2, replicas=2)
    return Gang("t/train", pods, [made.jobset_object(*parts)], names(pods))


def kubeflow() -> Gang:
    env = made.env(PET_NNODES=4, WORLD_SIZE=16, PET_NPROC_PER_NODE=4)
    pods = [made.kubeflow("master", 0, variables=env)]
    pods += [made.kubeflow("worker", at, variables=env) for at in range(3)]
    return Gang("t/mnist", pods, ranks=names(pods))


def kubeflow_job() -> Gang:
    specs = {"Chief": {"replicas": 1}, "PS": {"replicas": 1}, "Worker": {"replicas": 2}}
    keys: Json = {"operator": "tfjob-controller", "kind": "TFJob"}
    pods = [made.kubeflow("chief", 0, **keys), made.kubeflow("ps", 0, **(keys | {"gpu": None}))]
    pods += [made.kubeflow("worker", at, **keys) for at in range(2)]
    return Gang("t/mnist", pods, [made.kubeflow_job("TFJob", {"tfReplicaSpecs": specs})])


def mpi() -> Gang:
    pods = [made.mpi("launcher"), *(made.mpi("worker", at) for at in range(3))]
    return Gang("t/pi", pods, [made.mpi_job(3)], names(pods))


def trainer() -> Gang:
    pods = [made.trainer("node", at, nodes="4") for at in range(4)]
    return Gang("t/train", pods, ranks=names(pods))


def ray() -> Gang:
    pods = [made.ray("head"), *(made.ray("worker", at) for at in range(3))]
    return Gang("t/rc", pods, [made.ray_cluster({"groupName": "gpus", "replicas": 3})])


def indexed_job() -> Gang:
    pods = [made.job_pod("train", at) for at in range(4)]
    return Gang("t/train", pods, [made.job(4, 4)], names(pods))


GANGS: list[Callable[[], Gang]] = [
    ours,
    native,
    coscheduling,
    coscheduling_older,
    coscheduling_oldest,
    coscheduling_enhancement,
    koordinator,
    volcano,
    kueue,
    kai,
    yunikorn,
    hived,
    leader_worker_set,
    jobset,
    kubeflow,
    kubeflow_job,
    mpi,
    trainer,
    ray,
    indexed_job,
]

every_gang = pytest.mark.parametrize("make", GANGS, ids=lambda make: make.__name__)


@every_gang
def test_it_starts_whole_when_its_last_pod_is_there(make: Callable[[], Gang]) -> None:
    gang, story = make(), cluster()
    for obj in gang.objects:
        story.object(obj)

    *rest, last = gang.pods
    for pod in rest:
        story.put_pod(pod)
        assert story.placed == {}
    assert story.places(*names(rest)) == [[]] * len(rest)
    story.put_pod(last)

    assert story.bound.keys() == set(names(gang.pods))
    assert story.stage(gang.name) == "running"
    if gang.ranks:
        told = story.ranks(gang.name)
        assert sorted(told, key=lambda pod: told[pod]) == gang.ranks


@every_gang
def test_nothing_starts_while_any_one_member_is_missing(make: Callable[[], Gang]) -> None:
    for missing in range(len(make().pods)):
        gang, story = make(), cluster()
        for obj in gang.objects:
            story.object(obj)
        for at, pod in enumerate(gang.pods):
            if at != missing:
                story.put_pod(pod)
        if make is yunikorn and missing == 0:
            continue  # only that pod says that there are groups at all
        assert story.placed == {}, f"started without {names(gang.pods)[missing]}"


@every_gang
def test_it_waits_for_its_object_and_starts_when_that_comes_last(make: Callable[[], Gang]) -> None:
    gang, story = make(), cluster()
    if not gang.objects:
        pytest.skip("says everything on its pods")
    for pod in gang.pods:
        story.put_pod(pod)
    if gang.name != "t/serve-0":  # its size is on the pods
        assert story.placed == {}
        assert "does not exist" in story.reason(names(gang.pods)[0])

    for obj in gang.objects:
        story.object(obj)

    assert story.bound.keys() == set(names(gang.pods))


def test_a_pod_of_no_controller_is_still_alone() -> None:
    story = cluster()
    story.put_pod(made.pod("x", gpu=4, labels={"app": "x"}))
    assert story.bound.keys() == {"t/x"}


def test_two_groups_of_a_leader_worker_set_are_two_gangs() -> None:
    story = cluster()
    for worker in range(3):
        story.put_pod(made.lws(worker, 3, group=0))
    for worker in range(2):
        story.put_pod(made.lws(worker, 3, group=1))
    assert story.stage("t/serve-0") == "running"
    assert story.stage("t/serve-1") == "forming"


@pytest.mark.parametrize(
    "spec",
    [made.job(4, 8), made.job(4, None, "NonIndexed"), made.job(1, 1)],
    ids=["queue of work", "without completions", "one"],
)
def test_a_job_that_is_no_gang_starts_pod_by_pod(spec: Json) -> None:
    story = cluster()
    story.object(spec)
    story.put_pod(made.job_pod("train", 0))
    assert len(story.bound) == 1
    story.put_pod(made.job_pod("train", 1))
    assert len(story.bound) == 2


def test_gangs_of_one_koordinator_group_start_together() -> None:
    story = cluster()
    keys = {"min_available": "2", "groups": '["t/A","t/B"]'}
    for at in range(2):
        story.put_pod(made.koordinator(f"A-{at}", "A", **keys))
    assert "waits for gang t/B" in story.reason("t/A-0")
    story.put_pod(made.koordinator("B-0", "B", **keys))
    assert story.placed == {}
    story.put_pod(made.koordinator("B-1", "B", **keys))
    assert len(story.bound) == 4


def test_kueue_admits_first_and_muster_places_then() -> None:
    story = cluster()
    for at in range(3):
        story.put_pod(made.kueue(at, 3, gates=GATES))
    assert story.placed == {}
    assert "3 gated" in story.reason("t/A-0")
    for at in range(2):
        story.put_pod(made.kueue(at, 3))
    assert story.placed == {}
    story.put_pod(made.kueue(2, 3))
    assert len(story.bound) == 3


REQUESTS: list[tuple[str, Json]] = [
    ("kueue", {"kueue.x-k8s.io/podset-required-topology": "topo/rack"}),
    ("kai", {"kai.scheduler/topology-required-placement": "topo/rack"}),
    (
        "koordinator",
        {
            "gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(
                {"gatherStrategy": [{"layer": "rackLayer", "strategy": "MustGather"}]}
            )
        },
    ),
    ("lws", {"leaderworkerset.sigs.k8s.io/exclusive-topology": "topo/rack"}),
]


@pytest.mark.parametrize(("dialect", "keys"), REQUESTS, ids=lambda value: str(value)[:12])
def test_topology_that_pods_ask_for_is_kept(dialect: str, keys: Json) -> None:
    story = cluster()
    for name in ("b1r1n1", "b1r2n1", "b2r1n1", "b2r2n1"):
        story.put_pod(made.pod(f"x-{name}", gpu=8, node=name, scheduler="other"))
    make: Callable[..., Json] = made.lws if dialect == "lws" else _indexed
    for at in range(3):
        story.put_pod(make(at, 3, annotations=keys))
    if dialect != "lws":
        story.object(made.job(3, 3))

    # A rack has 8 GPUs left, the gang wants 12: in two racks it would fit.
    assert story.placed == {} or dialect == "lws"
    story.delete("t/x-b2r1n1")
    racks = {node[:4] for pod, node in story.placed.items() if "/x-" not in pod}
    assert racks == {"b2r1"}


def _indexed(at: int, size: int, **more: Any) -> Json:
    return made.job_pod("train", at, **more)


def test_a_tier_by_number_is_refused_with_its_name_until_the_site_says_what_it_is() -> None:
    gang = volcano()
    spec = {"minMember": 4, "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    story = cluster()
    story.object(made.volcano_group(spec))
    for pod in gang.pods:
        story.put_pod(pod)
    assert "level 'volcano-tier-1' is unknown" in story.reason(names(gang.pods)[0])

    obj = made.volcano_group(spec)
    obj["metadata"]["annotations"] = {OURS + "topology-required": "rack"}
    story.object(obj)

    assert len({node[:4] for node in story.bound.values()}) == 1
