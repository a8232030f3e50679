"""JobSets, and the TrainJobs that are JobSets."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import (
    env,
    job,
    jobset,
    jobset_object,
    replicated,
    trainer,
)
from tests.unit.dialects.reading import (
    annotated,
    declared,
    fault,
    group,
    labelled,
    read,
    stated_gang,
    terms,
)

KEY = GroupKey("JobSet.jobset.x-k8s.io", "t", "train")
PREFIX = "jobset.sigs.k8s.io/"
JOBS = "Job.batch"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PLUGINS = "scheduling.x-k8s.io/pod-group"
VOLCANO = "scheduling.k8s.io/group-name"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def test_all_pods_of_a_jobset_are_one_gang_and_each_replicated_job_a_role() -> None:
    found = read(jobset("workers", 1, 2, replicas=2))
    assert found.declaration == stated_gang("train", "jobset", Options(role="workers"), KEY)
    assert (found.index, found.fault) == (2, "")
    assert found.owner is not None
    assert found.owner.kind == "JobSet"


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        (env(PET_NNODES=8), Options(min_available=8, size=8, role="workers")),
        (env(PET_NNODES="2:8"), Options(min_available=2, role="workers")),
        (env(WORLD_SIZE=8), Options(min_available=8, size=8, role="workers")),
        (env(WORLD_SIZE=8, LOCAL_WORLD_SIZE=4), Options(min_available=2, size=2, role="workers")),
        (env(WORLD_SIZE=8, LOCAL_RANK=0), Options(role="workers")),
        (
            env(PET_NNODES="$(NODES)", WORLD_SIZE=4),
            Options(min_available=4, size=4, role="workers"),
        ),
    ],
    ids=str,
)
def test_the_environment_states_the_size(variables: Any, options: Options) -> None:
    found = declared(jobset("workers", 0, 0, variables=variables))
    assert (found.options, found.group) == (options, KEY)


@pytest.mark.parametrize("value", ["0", "x", "4:2", "2:x", ":", "-1", "1e3"])
def test_an_environment_that_cannot_be_read_is_named(value: str) -> None:
    pod = jobset("workers", 0, 0, variables=env(PET_NNODES=value))
    assert fault(pod).startswith("env PET_NNODES: ")
    pod = jobset("workers", 0, 0, variables=env(WORLD_SIZE=value))
    assert fault(pod).startswith("env WORLD_SIZE: ")


OBJECTS: list[tuple[Any, Options]] = [
    (jobset_object(replicated("w", 4)), Options(min_available=4, size=4)),
    (jobset_object(replicated("w", 4, replicas=2)), Options(min_available=8, size=8)),
    (
        jobset_object(replicated("driver", 1, gpu=None), replicated("w", 4)),
        Options(min_available=5, size=5),
    ),
    (
        jobset_object(replicated("driver", 1), replicated("w", 4), policy="InOrder"),
        Options(min_available=5, size=5, first=1),
    ),
    (
        jobset_object(replicated("driver", 1), replicated("w", 4), policy="AnyOrder"),
        Options(min_available=5, size=5),
    ),
    (
        jobset_object(replicated("none", 1, replicas=0), replicated("w", 4), policy="InOrder"),
        Options(min_available=4, size=4),
    ),
    # Room kept for a launcher without GPUs would be the room of a worker.
    (
        jobset_object(replicated("w", 4), replicated("launcher", 1, gpu=None), policy="InOrder"),
        Options(min_available=4, size=5),
    ),
    (
        jobset_object(replicated("server", 1), replicated("w", 4, after={"server": "Ready"})),
        Options(min_available=5, size=5, first=1),
    ),
    # Trainer's initializers end before the trainers exist, and are gangs of their own.
    (
        jobset_object(
            replicated("dataset-initializer", 1, gpu=None),
            replicated("model-initializer", 1, gpu=None),
            replicated("node", 4, after={"dataset-initializer": "Complete"}),
        ),
        Options(min_available=4, size=4),
    ),
    (
        jobset_object(
            replicated("model-initializer", 1, gpu=None),
            replicated("launcher", 1, gpu=None),
            replicated("node", 4, after={"model-initializer": "Complete"}),
        ),
        Options(min_available=5, size=5),
    ),
    (
        jobset_object(
            replicated("fetch", 1, labels={STEP: "dataset-initializer"}), replicated("node", 4)
        ),
        Options(min_available=4, size=4),
    ),
    (
        jobset_object(replicated("w", 4, variables=env(PET_NNODES="2:4"))),
        Options(min_available=2),
    ),
    (
        jobset_object(
            replicated("driver", 1), replicated("w", 4, replicas=2, annotations={EXCLUSIVE: "r"})
        ),
        Options(min_available=1, size=1),
    ),
]


@pytest.mark.parametrize(("obj", "options"), OBJECTS, ids=range(len(OBJECTS)))
def test_a_jobset_sums_up_what_runs_at_the_same_time(obj: Any, options: Options) -> None:
    assert terms(obj) == options


def test_a_jobs_pods_are_no_more_than_its_completions() -> None:
    obj = jobset_object(replicated("w", 4))
    obj["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] = 3
    assert terms(obj).min_available == 3


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", -1),
        ("replicas", "2"),
        ("replicas", 10**9),
        ("template", {"spec": {"parallelism": "x"}}),
    ],
)
def test_a_jobset_that_cannot_be_used_says_where(path: str, value: Any) -> None:
    obj = jobset_object(replicated("w", 4))
    obj["spec"]["replicatedJobs"][0][path] = value
    assert group(obj).fault.startswith(f"spec.replicatedJobs[0].{path}: ")


@pytest.mark.parametrize("spec", [None, {}, {"replicatedJobs": []}, {"replicatedJobs": "x"}])
def test_a_jobset_without_pods_is_a_fault(spec: Any) -> None:
    assert group(jobset_object() | {"spec": spec}).fault.startswith("spec.replicatedJobs: ")


# ── exclusive topology ──


def test_with_an_exclusive_topology_each_job_is_a_gang_admitted_with_its_siblings() -> None:
    pod = annotated(jobset("slice", 1, 0, replicas=2), {EXCLUSIVE: "topo/rack"})
    options = Options(
        role="slice",
        required="topo/rack",
        first=1,
        partners=(("t", "train-slice-0"), ("t", "train-slice-1")),
    )
    assert declared(pod) == stated_gang(
        "train-slice-1", "jobset", options, GroupKey(JOBS, "t", "train-slice-1"), JOBS
    )


@pytest.mark.parametrize("replicas", [1, 65])
def test_one_job_alone_or_very_many_have_no_partners(replicas: int) -> None:
    pod = annotated(jobset("slice", 0, 0, replicas=replicas), {EXCLUSIVE: "topo/rack"})
    assert declared(pod).options.partners == ()


def test_the_jobs_own_object_has_the_minimum() -> None:
    made = job(4, 8, name="train-slice-0", annotations={EXCLUSIVE: "topo/rack"})
    assert terms(made) == Options(min_available=4, size=4)


def test_the_jobset_itself_is_no_gang_then() -> None:
    obj = jobset_object(replicated("slice", 4), annotations={EXCLUSIVE: "topo/rack"})
    assert group(obj).gang is False


def test_with_nodes_selected_beforehand_nobody_waits_for_a_leader() -> None:
    keys = {EXCLUSIVE: "topo/rack", "alpha.jobset.sigs.k8s.io/node-selector": "true"}
    assert declared(annotated(jobset("slice", 0, 0), keys)).group == KEY


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (EXCLUSIVE, "a b"),
        (PREFIX + "job-index", "x"),
        (PREFIX + "replicatedjob-replicas", "0"),
        (PREFIX + "replicatedjob-name", "a b"),
        (PREFIX + "jobset-name", "a b"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str) -> None:
    pod = annotated(jobset("slice", 0, 0), {EXCLUSIVE: "topo/rack"})
    assert fault(annotated(pod, {key: value})).startswith(key)


# ── Kubeflow Trainer ──


def test_the_trainers_of_a_trainjob_need_no_look_at_the_jobset() -> None:
    found = read(trainer("node", 1, nodes="4"))
    assert found.declaration == stated_gang(
        "train", "jobset", Options(min_available=4, size=4, role="node")
    )
    assert found.index == 1


@pytest.mark.parametrize("role", ["dataset-initializer", "model-initializer"])
def test_an_initializer_is_a_gang_of_its_own(role: str) -> None:
    assert declared(trainer(role)) == stated_gang(
        f"train-{role}", "jobset", Options(role=role), kind="ReplicatedJob.jobset.x-k8s.io"
    )


@pytest.mark.parametrize("role", ["node", "dataset-initializer"])
def test_a_pod_group_that_the_trainer_made_counts_too_many(role: str) -> None:
    pod = trainer(role, nodes="4" if role == "node" else None)
    for made in (labelled(pod, {PLUGINS: "train"}), annotated(pod, {VOLCANO: "train"})):
        assert declared(made).dialect == "jobset"


def test_a_pod_group_that_somebody_else_made_counts() -> None:
    assert declared(labelled(trainer("node", nodes="4"), {PLUGINS: "mine"})).name == "mine"
    own = labelled(jobset("workers", 0, 0), {PLUGINS: "train"})
    assert declared(own).dialect == "coscheduling"


def test_the_launcher_and_the_nodes_of_an_mpi_trainjob_are_one_gang() -> None:
    launcher, node = declared(trainer("launcher")), declared(trainer("node"))
    assert (launcher.name, launcher.group) == (node.name, node.group) == ("train", KEY)
    obj = jobset_object(replicated("launcher", 1, gpu=None), replicated("node", 4))
    assert terms(obj) == Options(min_available=5, size=5)


def test_hostile_objects_never_raise() -> None:
    for spec in ([], 3, {"replicatedJobs": [None, 3, {"template": [[]]}]}):
        assert decode.group(jobset_object() | {"spec": spec}) is not None
