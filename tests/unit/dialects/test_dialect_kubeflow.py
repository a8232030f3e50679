"""Kubeflow's jobs of version 1, and the mpi-operator."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import env, kubeflow, kubeflow_job, mpi, mpi_job, template
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

PREFIX = "training.kubeflow.org/"
PLUGINS = "scheduling.x-k8s.io/pod-group"
VOLCANO = "scheduling.k8s.io/group-name"


@pytest.mark.parametrize(
    ("variables", "least", "size"),
    [
        (env(PET_NNODES=4, WORLD_SIZE=16, RANK=1, PET_NPROC_PER_NODE=4), 4, 4),
        (env(PET_NNODES="2:4"), 2, None),
        (env(PET_NNODES=1), 1, 1),
        (env(WORLD_SIZE=4, RANK=1), 4, 4),
    ],
    ids=str,
)
def test_the_environment_states_the_size_in_pods(
    variables: Any, least: int, size: int | None
) -> None:
    found = declared(kubeflow("worker", 1, variables=variables))
    options = Options(min_available=least, size=size, role="worker")
    assert found == stated_gang("mnist", "kubeflow", options)


def test_master_and_worker_are_roles_with_indexes_of_their_own() -> None:
    master, worker = read(kubeflow("master", 0)), read(kubeflow("worker", 0))
    assert (master.index, worker.index) == (0, 0)
    assert master.declaration is not None
    assert worker.declaration is not None
    assert master.declaration.options.role == "master"
    assert worker.declaration.options.role == "worker"


OPERATORS = [
    ("pytorchjob-controller", "PyTorchJob"),
    ("tfjob-controller", "TFJob"),
    ("xgboostjob-controller", "XGBoostJob"),
    ("paddlejob-controller", "PaddleJob"),
    ("jaxjob-controller", "JAXJob"),
    ("mpijob-controller", "MPIJob"),
    ("mpi-operator", "MPIJob"),
]


@pytest.mark.parametrize(("operator", "kind"), OPERATORS)
def test_without_an_environment_the_job_is_read(operator: str, kind: str) -> None:
    found = declared(kubeflow("worker", 0, operator=operator))
    assert found.group == GroupKey(f"{kind}.kubeflow.org", "t", "mnist")


def test_an_operator_that_is_not_known_leaves_the_minimum_open() -> None:
    assert declared(kubeflow("worker", 0, operator="new", kind="NewJob")).group is None


def without_operator(pod: Any) -> Any:
    """The pod as an operator makes it that does not say its name, or with that label lost."""
    pod["metadata"]["labels"].pop(PREFIX + "operator-name")
    return pod


@pytest.mark.parametrize(("operator", "kind"), OPERATORS)
def test_without_the_operator_s_name_the_kind_is_that_of_the_controller(
    operator: str, kind: str
) -> None:
    named = declared(kubeflow("worker", 0, operator=operator, kind=kind))
    assert declared(without_operator(kubeflow("worker", 0, operator=operator, kind=kind))) == named


def test_without_the_operator_s_name_all_pods_of_an_mpi_job_are_one_gang() -> None:
    launcher, worker = declared(mpi("launcher")), declared(mpi("worker", 2))
    assert declared(without_operator(mpi("launcher"))) == launcher
    assert declared(without_operator(mpi("worker", 2))) == worker
    assert (launcher.kind, launcher.group) == (worker.kind, worker.group)


def test_a_job_of_kubeflow_without_operator_and_controller_is_no_job_of_kubernetes() -> None:
    found = declared(without_operator(kubeflow("worker", 0, owner=None)))
    assert (found.kind, found.group) == ("Job.kubeflow.org", None)


def replica(number: int, gpu: int | None = 4) -> dict[str, Any]:
    return {"replicas": number, "template": template(gpu)}


TORCH = {"Master": replica(1), "Worker": replica(3)}
POLICY = {"schedulingPolicy": {"minAvailable": 3}}


@pytest.mark.parametrize(
    ("kind", "spec", "options"),
    [
        ("PyTorchJob", {"pytorchReplicaSpecs": TORCH}, Options(min_available=4, size=4)),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Master": {}}}, Options(min_available=1, size=1)),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": TORCH, "runPolicy": POLICY},
            Options(min_available=3),
        ),
        (
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {"Worker": replica(4)},
                "elasticPolicy": {"minReplicas": 2, "maxReplicas": 8},
            },
            Options(min_available=2),
        ),
        (
            "TFJob",
            {"tfReplicaSpecs": {"Chief": replica(1), "PS": replica(2), "Worker": replica(4)}},
            Options(min_available=7, size=7),
        ),
        ("XGBoostJob", {"xgbReplicaSpecs": TORCH}, Options(min_available=4, size=4)),
        ("PaddleJob", {"paddleReplicaSpecs": TORCH}, Options(min_available=4, size=4)),
        ("JAXJob", {"jaxReplicaSpecs": {"Worker": replica(4)}}, Options(min_available=4, size=4)),
    ],
    ids=str,
)
def test_a_job_sums_up_its_replicas(kind: str, spec: dict[str, Any], options: Options) -> None:
    assert terms(kubeflow_job(kind, spec)) == options


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({}, "spec: "),
        ({"pytorchReplicaSpecs": {"Worker": replica(-1)}}, "spec.pytorchReplicaSpecs.Worker.repl"),
        ({"pytorchReplicaSpecs": TORCH, "elasticPolicy": {"minReplicas": "x"}}, "spec.elasticPol"),
        (
            {"pytorchReplicaSpecs": TORCH, "runPolicy": {"schedulingPolicy": {"minAvailable": 0}}},
            "spec.runPolicy.schedulingPolicy.minAvailable: ",
        ),
    ],
    ids=str,
)
def test_a_job_that_cannot_be_used_says_where(spec: dict[str, Any], path: str) -> None:
    assert group(kubeflow_job("PyTorchJob", spec)).fault.startswith(path)


# ── MPI ──


@pytest.mark.parametrize(
    ("obj", "options"),
    [
        (mpi_job(4), Options(min_available=5, size=5)),
        # The launcher comes when all workers are ready: it joins, and is not waited for.
        (mpi_job(4, policy="WaitForWorkersReady"), Options(min_available=4, size=5)),
        # With GPUs of its own, room is kept for it.
        (
            mpi_job(4, policy="WaitForWorkersReady", launcher_gpu=4),
            Options(min_available=5, size=5, first=4),
        ),
    ],
)
def test_a_launcher_that_comes_later_is_not_waited_for(obj: Any, options: Options) -> None:
    assert terms(obj) == options


def test_a_stated_minimum_does_not_bring_the_late_launcher_back() -> None:
    obj = mpi_job(4, policy="WaitForWorkersReady")
    obj["spec"]["runPolicy"] = {"schedulingPolicy": {"minAvailable": 5}}
    assert terms(obj) == Options(min_available=4)


def test_launcher_and_workers_are_one_gang() -> None:
    launcher, worker = declared(mpi("launcher")), declared(mpi("worker", 2))
    key = GroupKey("MPIJob.kubeflow.org", "t", "pi")
    assert launcher == stated_gang("pi", "kubeflow", Options(role="launcher"), key)
    assert worker == stated_gang("pi", "kubeflow", Options(role="worker"), key)


def test_the_pod_group_of_the_mpi_operator_counts_a_launcher_that_is_not_there() -> None:
    pod = mpi("worker", 0)
    for made in (labelled(pod, {PLUGINS: "pi"}), annotated(pod, {VOLCANO: "pi"})):
        assert declared(made).dialect == "kubeflow"
    assert declared(labelled(pod, {PLUGINS: "mine"})).dialect == "coscheduling"


def test_the_pod_group_of_a_pytorchjob_counts() -> None:
    found = declared(
        labelled(kubeflow("worker", 0, variables=env(PET_NNODES=4)), {PLUGINS: "mnist"})
    )
    assert (found.dialect, found.options) == ("coscheduling", Options(role="worker"))


@pytest.mark.parametrize("value", ["", "a b"])
def test_a_name_that_cannot_be_read_is_named(value: str) -> None:
    bad = labelled(kubeflow("worker", 0), {PREFIX + "job-name": value})
    assert fault(bad).startswith(PREFIX + "job-name")
