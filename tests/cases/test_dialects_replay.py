"""Every way to declare a gang, end to end: pods as their controllers make them start whole."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from builders import OURS, in_group, pod_group
from unit.dialects import controller_pods as made

from scheduler import decode
from scheduler.simulation.replay import replay

from .story import Story

Json = dict[str, Any]

GATES = ["kueue.x-k8s.io/admission"]
PLUGINS = "scheduling.x-k8s.io/pod-group"
VOLCANO = "scheduling.k8s.io/group-name"


class Gang(NamedTuple):
    """A gang as one controller makes it: its objects, its pods, and the name it has here."""

    name: str
    pods: list[Json]
    objects: Sequence[Json] = ()
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


@pytest.mark.parametrize(
    "make",
    [make for make in GANGS if make().objects and make is not leader_worker_set],
    ids=lambda make: make.__name__,
)
def test_it_waits_for_its_object_and_starts_when_that_comes_last(make: Callable[[], Gang]) -> None:
    gang, story = make(), cluster()
    for pod in gang.pods:
        story.put_pod(pod)
    assert story.placed == {}
    why = story.reason(names(gang.pods)[0])
    assert "does not exist" in why or "is being looked up" in why

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


SPEC = {"gatherStrategy": [{"layer": "rackLayer", "strategy": "MustGather"}]}
REQUESTS = {
    "kueue.x-k8s.io/podset-required-topology": "topo/rack",
    "kai.scheduler/topology-required-placement": "topo/rack",
    "gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(SPEC),
}


def half_taken() -> Story:
    """A cluster where each rack has 8 GPUs left, on one of its two nodes."""
    story = cluster()
    for rack in ("b1r1", "b1r2", "b2r1", "b2r2"):
        story.put_pod(made.pod(f"x-{rack}", gpu=8, node=f"{rack}n1", scheduler="other"))
    return story


def placed(story: Story) -> dict[str, str]:
    """Pod -> rack of all that are not there to fill the cluster."""
    return {pod: node[:4] for pod, node in story.placed.items() if not pod.startswith("t/x-")}


@pytest.mark.parametrize("key", REQUESTS)
def test_a_level_that_pods_ask_for_is_kept(key: str) -> None:
    story = half_taken()
    story.object(made.job(3, 3))
    for at in range(3):
        story.put_pod(made.job_pod("train", at, annotations={key: REQUESTS[key]}))
    assert placed(story) == {}, "it would fit, but only in two racks"

    story.delete("t/x-b2r1")

    assert list(placed(story).values()) == ["b2r1"] * 3


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


# ── pods that come in phases ──


def ready(story: Story, pod: Json) -> None:
    """The kubelet has started a pod that is bound."""
    node = story.bound[names([pod])[0]]
    run = pod | {"spec": pod["spec"] | {"nodeName": node}, "status": {"phase": "Running"}}
    story.put_pod(run)


def test_a_jobset_in_order_starts_its_first_part_and_keeps_room_for_the_rest() -> None:
    story = half_taken()
    driver, workers = made.replicated("driver", 1), made.replicated("workers", 6)
    story.object(made.jobset_object(driver, workers, policy="InOrder"))
    first = made.jobset("driver", 0, 0)

    story.put_pod(first)

    assert story.bound.keys() >= {"t/train-driver-0-0-abc12"}
    # 32 GPUs are left, the JobSet takes 28: what comes between does not get its seats.
    story.put_pod(made.pod("greedy", gpu=8))
    assert "t/greedy" not in story.placed
    ready(story, first)
    for at in range(6):
        story.put_pod(made.jobset("workers", 0, at))
    assert len(placed(story)) == 7
    assert story.stage("t/train") == "running"


def test_a_jobset_in_order_does_not_start_at_all_without_room_for_the_rest() -> None:
    story = half_taken()
    driver, workers = made.replicated("driver", 1), made.replicated("workers", 8)
    story.object(made.jobset_object(driver, workers, policy="InOrder"))

    story.put_pod(made.jobset("driver", 0, 0))

    assert placed(story) == {}
    assert "no room" in story.reason("t/train-driver-0-0-abc12")


def test_a_jobset_of_three_phases_comes_up_one_after_the_other() -> None:
    story = cluster()
    parts = [
        made.replicated("a", 1),
        made.replicated("b", 2, after={"a": "Ready"}),
        made.replicated("c", 2, after={"b": "Ready"}),
    ]
    story.object(made.jobset_object(*parts))
    done: list[Json] = []
    for role, size in (("a", 1), ("b", 2), ("c", 2)):
        pods = [made.jobset(role, 0, at) for at in range(size)]
        for pod in pods:
            story.put_pod(pod)
        done += pods
        assert placed(story).keys() == set(names(done))
        for pod in pods:
            ready(story, pod)
    assert story.stage("t/train") == "running"


def test_a_part_that_waits_for_another_to_complete_starts_when_it_is_made() -> None:
    story = cluster()
    parts = [
        made.replicated("prepare", 1, gpu=None),
        made.replicated("train", 3, after={"prepare": "Complete"}),
    ]
    story.object(made.jobset_object(*parts))
    prepare = made.jobset("prepare", 0, 0, gpu=None)
    story.put_pod(prepare)
    assert story.bound.keys() == set(names([prepare]))
    story.put_pod(prepare | {"status": {"phase": "Succeeded"}})
    pods = [made.jobset("train", 0, at) for at in range(3)]
    for pod in pods:
        story.put_pod(pod)
    assert story.bound.keys() == set(names(pods))


def test_the_initializers_of_a_trainjob_run_before_its_trainers_whatever_its_pod_group_says() -> (
    None
):
    story = cluster()
    # Kubeflow Trainer sums up all pods: three trainers and two initializers.
    story.object(pod_group("t/train", min=5, kind="coscheduling"))
    label = {PLUGINS: "train"}
    steps = [made.trainer(f"{name}-initializer", labels=label) for name in ("dataset", "model")]
    for step in steps:
        story.put_pod(step)
        assert story.stage("t/train") == ""
    assert story.bound.keys() == set(names(steps))
    for step in steps:
        story.put_pod(step | {"status": {"phase": "Succeeded"}})

    nodes = [made.trainer("node", at, nodes="3", labels=label) for at in range(3)]
    for node in nodes[:2]:
        story.put_pod(node)
    assert "2 of 3 pods exist" in story.reason(names(nodes)[0])
    story.put_pod(nodes[2])

    assert story.bound.keys() == set(names(nodes))


def test_a_leader_worker_set_starts_its_leader_first_where_its_policy_says_so() -> None:
    story = half_taken()
    story.object(made.lws_set(4, "LeaderReady"))
    leader = made.lws(0, 4)
    story.put_pod(leader)
    assert placed(story).keys() == {"t/serve-0"}
    ready(story, leader)
    for worker in range(1, 4):
        story.put_pod(made.lws(worker, 4))
    assert len(placed(story)) == 4


def test_without_that_policy_the_leader_waits_for_its_workers() -> None:
    story = cluster()
    story.object(made.lws_set(4, "LeaderCreated"))
    story.put_pod(made.lws(0, 4))
    assert "1 of 4 pods exist" in story.reason("t/serve-0")


def test_a_pod_group_for_the_leader_alone_does_not_let_the_workers_trickle_in() -> None:
    story = half_taken()
    group = {VOLCANO: "serve-0-6f4c9f6b5b"}
    story.object(made.volcano_group({"minMember": 1}, group[VOLCANO]))
    story.object(made.lws_set(9, "LeaderReady"))

    story.put_pod(made.lws(0, 9, annotations=group))

    assert placed(story) == {}, "there is no room for 9 of 4 GPUs"


def test_a_first_phase_does_not_start_alone_where_all_exist_and_do_not_fit() -> None:
    """All nine are there already: eight seats are not enough, in phases or not."""
    story = half_taken()
    story.object(made.lws_set(9, "LeaderReady"))

    for member in range(9):
        story.put_pod(made.lws(member, 9))

    assert placed(story) == {}


def test_an_exclusive_leader_comes_first_and_its_workers_follow_into_its_rack() -> None:
    story = half_taken()
    key = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "topo/rack"}
    story.delete("t/x-b2r1")
    story.object(made.lws_set(4))
    leader = made.lws(0, 4, annotations=key)

    story.put_pod(leader)

    assert placed(story) == {"t/serve-0": "b2r1"}, "the one rack that has room for all four"
    ready(story, leader)
    for worker in range(1, 4):
        selector = {"nodeSelector": {"topo/rack": "b2r1"}}
        story.put_pod(made.lws(worker, 4, annotations=key, spec=selector))
    assert list(placed(story).values()) == ["b2r1"] * 4


def test_the_launcher_of_an_mpi_job_comes_when_all_workers_run() -> None:
    story = cluster()
    story.object(made.mpi_job(3, policy="WaitForWorkersReady"))
    # The operator's own PodGroup counts the launcher, which is not there.
    story.object(pod_group("t/pi", min=4, kind="coscheduling"))
    workers = [made.mpi("worker", at, labels={PLUGINS: "pi"}) for at in range(3)]
    for worker in workers[:2]:
        story.put_pod(worker)
    assert story.placed == {}

    story.put_pod(workers[2])

    assert story.bound.keys() == set(names(workers))
    for worker in workers:
        ready(story, worker)
    launcher = made.mpi("launcher", labels={PLUGINS: "pi"})
    story.put_pod(launcher)
    assert story.bound[names([launcher])[0]] == "cpu1"
    assert story.stage("t/pi") == "running"


def test_an_mpi_job_that_fills_the_cluster_keeps_no_gpus_for_its_launcher() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.object(made.mpi_job(2, policy="WaitForWorkersReady"))
    for at in range(2):
        story.put_pod(made.mpi("worker", at))
    assert story.bound == {"t/pi-worker-0": "n1", "t/pi-worker-1": "n1"}


def test_an_autoscaled_ray_cluster_starts_with_its_smallest_size_and_grows() -> None:
    story = cluster()
    story.object(made.ray_cluster({"replicas": 2, "minReplicas": 2, "maxReplicas": 8}, scales=True))
    story.put_pod(made.ray("head"))
    story.put_pod(made.ray("worker", 0))
    assert story.placed == {}
    story.put_pod(made.ray("worker", 1))
    assert len(story.bound) == 3
    story.put_pod(made.ray("worker", 2))
    assert len(story.bound) == 4
    story.delete("t/rc-gpus-worker-2")
    assert story.stage("t/rc") == "running"


def test_a_ray_cluster_without_a_smallest_size_starts_with_its_head() -> None:
    story = cluster()
    story.object(made.ray_cluster({"replicas": 0, "minReplicas": 0}, scales=True))
    story.put_pod(made.ray("head"))
    assert story.bound == {"t/rc-head-abcde": "cpu1"}


def test_a_spark_driver_runs_before_the_executors_that_it_makes() -> None:
    story = cluster()
    groups = {"driver": 1, "executor": 3}
    driver = made.yunikorn("d", "driver", groups, gpu=None, labels={"spark-role": "driver"})
    story.put_pod(driver)
    assert story.bound == {"t/d": "cpu1"}
    ready(story, driver)
    for at in range(3):
        story.put_pod(made.yunikorn(f"e-{at}", "executor", labels={"spark-role": "executor"}))
    assert len(story.bound) == 4


def test_a_volcano_task_that_depends_on_another_comes_later() -> None:
    story = cluster()
    tasks = [
        {"name": "worker", "replicas": 3, "template": made.template(4)},
        {
            "name": "mpimaster",
            "replicas": 1,
            "template": made.template(None),
            "dependsOn": {"name": ["worker"]},
        },
    ]
    story.object(made.volcano_job({"tasks": tasks}))
    workers = [_without(made.volcano("worker", at), VOLCANO) for at in range(3)]
    for worker in workers:
        story.put_pod(worker)
    assert story.bound.keys() == set(names(workers))
    story.put_pod(_without(made.volcano("mpimaster", 0, gpu=None), VOLCANO))
    assert len(story.bound) == 4


def _without(pod: Json, key: str) -> Json:
    """A pod from before it had an annotation."""
    del pod["metadata"]["annotations"][key]
    return pod


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topo/rack"}


def exclusive_leader(job: int, jobs: int) -> Json:
    """The leader of a Job, which JobSet ties to a rack of its own."""
    own = [{"key": "jobset.sigs.k8s.io/job-key", "operator": "In", "values": [f"key-{job}"]}]
    near = {"labelSelector": {"matchExpressions": own}, "topologyKey": "topo/rack"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    spec = {"affinity": {"podAffinity": required}}
    return made.jobset("slice", job, 0, replicas=jobs, annotations=EXCLUSIVE, spec=spec)


def by_scheduler(story: Story, pod: Json) -> None:
    """The scheduler asks about a nominated pod, and binds it where it may go."""
    [name] = names([pod])
    [node] = story.filter(name)["nodes"]
    assert story.bind(name, node) == ""


def test_exclusive_jobs_place_their_leaders_first_and_their_followers_beside_them() -> None:
    story = cluster()
    for job in range(2):
        story.object(made.job(4, 4, name=f"train-slice-{job}", annotations=EXCLUSIVE))
    leaders = [exclusive_leader(job, 2) for job in range(2)]
    story.put_pod(leaders[0])
    assert "waits for gang t/train-slice-1" in story.reason(names(leaders)[0])

    story.put_pod(leaders[1])
    for leader in leaders:
        by_scheduler(story, leader)

    racks = [placed(story)[name] for name in names(leaders)]
    assert len(set(racks)) == 2, "a Job takes a whole rack"
    for job, rack in enumerate(racks):
        ready(story, leaders[job])
        for at in range(1, 4):
            selector = {"nodeSelector": {"topo/rack": rack}}
            pod = made.jobset("slice", job, at, replicas=2, annotations=EXCLUSIVE, spec=selector)
            story.put_pod(pod)
            assert placed(story)[names([pod])[0]] == rack


def test_exclusive_jobs_of_which_one_has_no_room_do_not_start_at_all() -> None:
    story = half_taken()
    story.delete("t/x-b1r1")
    for job in range(2):
        story.object(made.job(4, 4, name=f"train-slice-{job}", annotations=EXCLUSIVE))
        story.put_pod(exclusive_leader(job, 2))
    assert placed(story) == {}


# ── hostile pods ──

KEYS = [
    *(f"gang.scheduling.koordinator.sh/{key}" for key in ("name", "min-available", "groups")),
    *(f"gang.scheduling.koordinator.sh/{key}" for key in ("total-number", "waiting-time", "mode")),
    *("gang.scheduling.koordinator.sh/network-topology-spec", PLUGINS, VOLCANO),
    *("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"),
    *("pod-group.scheduling.sigs.k8s.io/min-available", "scheduling.volcano.sh/group-name"),
    *("scheduling.volcano.sh/group-min-member", "volcano.sh/job-name", "volcano.sh/task-spec"),
    *("volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"),
    *("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
    *("kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-slice-size"),
    *("kueue.x-k8s.io/podset-slice-required-topology-constraints", "pod-group-name"),
    *("kai.scheduler/segment-size", "kai.scheduler/topology-required-placement"),
    *("kai.scheduler/subgroup-name", "applicationId", "yunikorn.apache.org/app-id"),
    *("yunikorn.apache.org/task-group-name", "yunikorn.apache.org/task-groups"),
    *("yunikorn.apache.org/schedulingPolicyParameters", "spark-role"),
    *("hivedscheduler.microsoft.com/pod-scheduling-spec", "leaderworkerset.sigs.k8s.io/name"),
    *("leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/size"),
    *("leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/subgroup-size"),
    *("leaderworkerset.sigs.k8s.io/exclusive-topology", "jobset.sigs.k8s.io/jobset-name"),
    *("jobset.sigs.k8s.io/jobset-uid", "jobset.sigs.k8s.io/replicatedjob-name"),
    *("jobset.sigs.k8s.io/replicatedjob-replicas", "jobset.sigs.k8s.io/job-index"),
    *("alpha.jobset.sigs.k8s.io/exclusive-topology", "training.kubeflow.org/job-name"),
    *("training.kubeflow.org/operator-name", "training.kubeflow.org/replica-type"),
    *("training.kubeflow.org/replica-index", "ray.io/cluster", "ray.io/node-type"),
    *("ray.io/group", "batch.kubernetes.io/job-name"),
    *("batch.kubernetes.io/job-completion-index", OURS + "gang", OURS + "min-available"),
]

VALUES: list[Any] = [
    *("", "A", "0", "-1", "3", "1e9", "x" * 300, "a b", "\u0000", "ä", "true", "{", "[]", "{}"),
    *('["t/A"]', '[{"name":"w","minMember":2}]', "[" * 5_000, "a: &a [*a]", "999999999999999"),
    *(None, 3, -1, 2.5, True, [], ["A"], {}, {"A": "B"}, float("nan"), 10**40),
]


def hostile(rng: random.Random, number: int) -> Json:
    """A pod with some keys of all dialects and values that they do not expect."""
    pod = made.pod(f"z-{number}", gpu=rng.choice([None, 1, 8]))
    for _ in range(rng.randint(1, 6)):
        where = rng.choice(("labels", "annotations"))
        pod["metadata"][where][rng.choice(KEYS)] = rng.choice(VALUES)
    if rng.random() < 0.3:
        name = rng.choice(["PET_NNODES", "WORLD_SIZE", "LOCAL_WORLD_SIZE"])
        pod["spec"]["containers"][0]["env"] = [{"name": name, "value": rng.choice(VALUES)}]
    if rng.random() < 0.1:
        pod["spec"]["schedulingGroup"] = rng.choice(VALUES)
    return pod


def broken(rng: random.Random, gang: Gang) -> Json:
    """An object of some dialect with a field that it does not expect."""
    obj: Json = json.loads(json.dumps(rng.choice(gang.objects)))
    obj["metadata"]["name"] = rng.choice(["A", "train", "z"])
    at: Any = obj["spec"]
    while isinstance(at, dict) and at:
        key = rng.choice(sorted(at))
        if rng.random() < 0.5 or not isinstance(at[key], dict | list):
            at[key] = rng.choice(VALUES)
            break
        at = at[key][0] if isinstance(at[key], list) and at[key] else at[key]
    return obj


def lines_of(pods: list[Json]) -> list[str]:
    """Pods, with a broken object after every tenth, as lines of a replay."""
    rng = random.Random(7)
    gangs = [gang for make in GANGS if (gang := make()).objects]
    lines = []
    for number, pod in enumerate(pods):
        lines.append(json.dumps({"op": "pod", "object": pod}))
        if number % 10 == 0:
            lines.append(json.dumps({"op": "object", "object": broken(rng, rng.choice(gangs))}))
    return lines


def healthy() -> list[str]:
    pods = [made.pod(f"good-{at}", gpu=4, gang="healthy", min=4) for at in range(4)]
    return [json.dumps({"op": "pod", "object": pod}) for pod in pods]


def told(lines: list[str]) -> list[Json]:
    """The Bindings of the healthy gang."""
    printed = [json.loads(line) for line in replay([*cluster().lines, *lines])]
    return [line for line in printed if str(line.get("pod")).startswith("t/good-")]


def test_two_thousand_hostile_pods_change_nothing_for_a_healthy_gang() -> None:
    rng = random.Random(11)
    pods = [hostile(rng, number) for number in range(2_000)]
    faults = [decode.pod(pod).fault for pod in pods]
    assert 200 < sum(map(bool, faults)) < 1_800, "a mixed bag"
    assert all(len(fault.encode()) < 1_000 for fault in faults)
    # What is readable may well take room: behind a gate it is only looked at.
    for pod in pods:
        pod["spec"]["schedulingGates"] = [{"name": "held"}]

    alone = told(healthy())
    assert len(alone) == 4
    assert told(lines_of(pods) + healthy()) == alone


def test_two_thousand_hostile_pods_that_want_to_run_raise_nothing() -> None:
    rng = random.Random(12)
    pods = [hostile(rng, number) for number in range(2_000)]
    assert told(healthy() + lines_of(pods)) == told(healthy())
