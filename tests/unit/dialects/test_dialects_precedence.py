"""Which declaration counts where a pod carries several, and what is laid over it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import dialects
from scheduler.model import GroupKey, Options
from tests.builders import OURS
from tests.unit.dialects.controller_pods import env, job_pod, kubeflow, pod
from tests.unit.dialects.reading import annotated, declared, labelled, read

Json = dict[str, Any]

PREFIXES = {
    "koordinator": "gang.scheduling.koordinator.sh/",
    "kueue": "kueue.x-k8s.io/",
    "lws": "leaderworkerset.sigs.k8s.io/",
    "kubeflow": "training.kubeflow.org/",
    "jobset": "jobset.sigs.k8s.io/",
}

LAYERS: list[tuple[str, Json, Json]] = [
    ("muster", {}, {OURS + "gang": "muster"}),
    ("native", {}, {}),
    ("koordinator", {}, {PREFIXES["koordinator"] + "name": "koordinator"}),
    ("coscheduling", {"pod-group.scheduling.sigs.k8s.io/name": "coscheduling"}, {}),
    ("volcano", {}, {"scheduling.k8s.io/group-name": "volcano"}),
    (
        "kueue",
        {PREFIXES["kueue"] + "pod-group-name": "kueue"},
        {PREFIXES["kueue"] + "pod-group-total-count": "2"},
    ),
    ("kai", {}, {"pod-group-name": "kai"}),
    ("yunikorn", {"applicationId": "yunikorn"}, {"yunikorn.apache.org/task-group-name": "w"}),
    (
        "hived",
        {},
        {"hivedscheduler.microsoft.com/pod-scheduling-spec": "affinityGroup: {name: hived}"},
    ),
    (
        "leaderworkerset",
        {PREFIXES["lws"] + "name": "lws", PREFIXES["lws"] + "group-index": "0"},
        {PREFIXES["lws"] + "size": "7"},
    ),
    ("kubeflow", {PREFIXES["kubeflow"] + "job-name": "kubeflow"}, {}),
    ("jobset", {PREFIXES["jobset"] + "jobset-name": "jobset"}, {}),
    ("kuberay", {"ray.io/cluster": "ray", "ray.io/node-type": "head"}, {}),
    ("job", {"batch.kubernetes.io/job-name": "job"}, {}),
]


def layered(first: int) -> Json:
    """A pod with the declarations from ``first`` on."""
    made = pod("x", gpu=1, variables=env(PET_NNODES=3))
    for name, labels, stated in LAYERS[first:]:
        made = annotated(labelled(made, labels), stated)
        if name == "native":
            made["spec"]["schedulingGroup"] = {"podGroupName": "native"}
    return made


@pytest.mark.parametrize("first", range(len(LAYERS)), ids=[name for name, _, _ in LAYERS])
def test_the_first_in_the_order_of_precedence_counts(first: int) -> None:
    # Koordinator's annotations go with the labels that it shares, and leave the name to them.
    name = LAYERS[first][0]
    found = declared(layered(first))
    if name == "koordinator":
        assert (found.dialect, found.name) == ("koordinator", "coscheduling")
    else:
        assert found.dialect == name


def test_the_registry_is_in_that_order() -> None:
    assert [one.NAME for one in dialects.DIALECTS] == [name for name, _, _ in LAYERS[1:]]


def test_a_size_on_the_set_wins_over_the_environment_and_that_over_the_owner() -> None:
    least = {
        name: declared(layered(at)).options.min_available for at, (name, _, _) in enumerate(LAYERS)
    }
    assert least["kueue"] == 2
    assert least["leaderworkerset"] == 7
    assert least["kubeflow"] == least["jobset"] == least["job"] == 3
    # A Ray node's environment is not that of a launcher: the cluster says how many it has.
    assert least["kuberay"] is None


def test_torchruns_variable_wins_over_the_world_size() -> None:
    both = env(WORLD_SIZE=16, PET_NNODES="2:4")
    assert declared(job_pod("train", 0, variables=both)).options == Options(min_available=2)


def test_a_variable_of_a_sidecar_is_as_good_as_one_of_the_first_container() -> None:
    made = job_pod("train", 0)
    sidecar = {"name": "side", "env": env(PET_NNODES=4)}
    made["spec"]["containers"].append(sidecar)
    assert declared(made).options.min_available == 4


@pytest.mark.parametrize(
    "variable",
    [
        {"name": "PET_NNODES", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}},
        {"name": "PET_NNODES", "value": "$(NODES)"},
        {"name": "", "value": "3"},
        {"value": "3"},
        None,
        "PET_NNODES=3",
    ],
    ids=str,
)
def test_what_is_known_only_in_the_container_is_no_size(variable: Any) -> None:
    made = job_pod("train", 0, variables=[variable])
    found = declared(made)
    assert found.options == Options()
    assert found.group == GroupKey("Job.batch", "t", "train")


def test_the_environment_of_a_pod_without_a_controller_declares_nothing() -> None:
    found = read(pod("x", gpu=1, variables=env(PET_NNODES="many", WORLD_SIZE="x")))
    assert (found.declaration, found.fault) == (None, "")


ROLES = [
    ({"volcano.sh/task-spec": "ps"}, "ps"),
    ({"training.kubeflow.org/replica-type": "master"}, "master"),
    ({"training.kubeflow.org/job-role": "launcher"}, "launcher"),
    ({"jobset.sigs.k8s.io/replicatedjob-name": "driver"}, "driver"),
    ({"kai.scheduler/subgroup-name": "decode"}, "decode"),
    ({"kueue.x-k8s.io/podset": "worker"}, "worker"),
    ({"leaderworkerset.sigs.k8s.io/worker-index": "0"}, "leader"),
    ({"leaderworkerset.sigs.k8s.io/worker-index": "3"}, "worker"),
    ({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, "head"),
    ({"ray.io/node-type": "worker", "ray.io/group": "gpus"}, "gpus"),
    ({"ray.io/node-type": "worker"}, "worker"),
    ({"volcano.sh/task-spec": "", "kueue.x-k8s.io/podset": "main"}, "main"),
]


@pytest.mark.parametrize(("labels", "role"), ROLES, ids=str)
def test_the_role_is_read_whoever_names_the_gang(labels: Json, role: str) -> None:
    made = labelled(pod("x", gang="A"), labels)
    assert declared(made).options.role == role
    own = annotated(made, {OURS + "role": "mine"})
    assert declared(own).options.role == "mine"


def test_our_keys_are_laid_over_a_topology_that_others_ask_for() -> None:
    asked = {"kueue.x-k8s.io/podset-required-topology": "topo/rack"}
    made = annotated(kubeflow("worker", 0, variables=env(PET_NNODES=2)), asked)
    assert declared(made).options.required == "topo/rack"
    own = annotated(made, {OURS + "topology-required": "topo/block"})
    assert declared(own).options.required == "topo/block"


def test_a_bad_request_leaves_the_gang_known() -> None:
    made = annotated(pod("x", gang="A"), {"kai.scheduler/segment-size": "x"})
    found = read(annotated(made, {OURS + "start": "never"}))
    assert found.fault.startswith("kai.scheduler/segment-size: ")
    assert OURS + "start" in found.fault
    assert found.declaration is not None
    assert found.declaration.name == "A"


def test_the_owners_are_those_of_the_dialects() -> None:
    assert dialects.is_owner(GroupKey("Job.batch", "t", "x"))
    assert not dialects.is_owner(GroupKey("PodGroup.scheduling.k8s.io", "t", "x"))
    assert not dialects.OWNERS & set(dialects.KINDS)
