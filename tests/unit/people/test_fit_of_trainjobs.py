"""What `muster fit` makes of Kubeflow Trainer's TrainJobs."""

from __future__ import annotations

from typing import Any

import pytest
from asking import EXAMPLES, documents, fit
from people_site import Site, muster

from scheduler.commands.controllers import WorkloadError
from scheduler.commands.workloads import pods_of

TORCH = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-distributed
  labels: {trainer.kubeflow.org/framework: torch}
spec:
  mlPolicy:
    numNodes: 1
    torch: {numProcPerNode: auto}
  template:
    spec:
      replicatedJobs:
        - name: dataset-initializer
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}
            spec:
              template:
                spec:
                  containers:
                    - name: dataset-initializer
                      image: example.com/dataset-initializer
        - name: node
          dependsOn:
            - name: dataset-initializer
              status: Complete
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            spec:
              template:
                spec:
                  containers:
                    - name: node
                      image: example.com/torch
"""

FINE_TUNE = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: fine-tune}
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    numNodes: 3
    command: [torchrun, train.py]
    resourcesPerNode:
      limits: {nvidia.com/gpu: 8}
"""

MPI = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: deepspeed-distributed}
spec:
  mlPolicy:
    numNodes: 1
    mpi: {numProcPerNode: 1, mpiImplementation: OpenMPI, runLauncherAsNode: true}
  template:
    spec:
      network: {publishNotReadyAddresses: true}
      successPolicy: {operator: All, targetReplicatedJobs: [launcher]}
      replicatedJobs:
        - name: launcher
          template:
            metadata:
              labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}
            spec:
              template:
                spec:
                  containers: [{name: node, image: example.com/deepspeed}]
        - name: node
          template:
            spec:
              template:
                spec:
                  containers: [{name: node, image: example.com/deepspeed}]
"""


def with_scheduler(runtime: str) -> str:
    return runtime.replace(
        "                  containers:",
        "                  schedulerName: muster\n                  containers:",
    )


def test_the_projects_own_trainjob_fits_as_one_gang(idle: Site) -> None:
    path = EXAMPLES / "trainjob.yaml"
    ran = muster("fit", "-f", str(path), "--server", idle.url, "--json")

    assert (ran.status, ran.err) == (0, "")
    assert (ran.json["fits"], ran.json["pods"]) == (True, 4)
    assert list(ran.json["domains"]) == ["default/digits-trainjob"]
    assert sorted(ran.json["nodes"]) == [f"default/digits-trainjob-node-0-{at}" for at in range(4)]


def test_a_trainjob_says_how_many_nodes_and_what_each_of_them_takes(idle: Site) -> None:
    whole = documents(with_scheduler(TORCH), FINE_TUNE)

    found = fit(idle, *whole, arguments=("--json",))

    assert found.status == 0
    initializer = "default/fine-tune-dataset-initializer"
    assert sorted(found.json["domains"]) == ["default/fine-tune", initializer]
    members = [name for name in found.json["nodes"] if not name.startswith(initializer)]
    assert members == [f"default/fine-tune-node-0-{at}" for at in range(3)]
    assert len({found.json["nodes"][name] for name in members}) == 3, "each takes a whole node"
    assert fit(idle, *whole, arguments=("--replicas", "9")).status == 1


def test_nodes_of_the_runtime_count_where_the_trainjob_says_none() -> None:
    job, runtime = documents(FINE_TUNE)[0], documents(TORCH)[0]
    runtime["spec"]["mlPolicy"]["numNodes"] = 5
    del job["spec"]["trainer"]["numNodes"]
    pods, objects = pods_of([job, runtime], "t")

    names = [pod["metadata"]["name"] for pod in pods]
    assert names == [
        "fine-tune-dataset-initializer-0-0",
        *(f"fine-tune-node-0-{n}" for n in range(5)),
    ]
    (jobset,) = (obj for obj in objects if obj["kind"] == "JobSet")
    assert jobset["metadata"] == {"name": "fine-tune", "namespace": "t"}
    env = pods[-1]["spec"]["containers"][0]["env"]
    assert env == [{"name": "PET_NNODES", "value": "5"}]


@pytest.mark.parametrize(("launcher", "nodes"), [(True, 3), (False, 4)])
def test_a_launcher_that_is_a_node_takes_the_place_of_one(launcher: bool, nodes: int) -> None:
    job, runtime = documents(FINE_TUNE)[0], documents(MPI)[0]
    runtime["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] = launcher
    job["spec"]["runtimeRef"]["name"] = "deepspeed-distributed"
    job["spec"]["trainer"]["numNodes"] = 4

    pods, _ = pods_of([job, runtime], "t")

    names = [pod["metadata"]["name"] for pod in pods]
    assert names == ["fine-tune-launcher-0-0", *(f"fine-tune-node-0-{at}" for at in range(nodes))]


@pytest.mark.parametrize(
    "patch",
    [
        {
            "podTemplateOverrides": [
                {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}}}
            ]
        },
        {
            "runtimePatches": [
                {
                    "manager": "example.com/queue",
                    "trainingRuntimeSpec": {
                        "template": {
                            "spec": {
                                "replicatedJobs": [
                                    {
                                        "name": "node",
                                        "template": {
                                            "spec": {
                                                "template": {
                                                    "spec": {"nodeSelector": {"pool": "a"}}
                                                }
                                            }
                                        },
                                    }
                                ]
                            }
                        }
                    },
                }
            ]
        },
    ],
    ids=["overrides", "patches"],
)
def test_what_a_trainjob_changes_of_its_runtime_counts(patch: dict[str, Any]) -> None:
    job = documents(FINE_TUNE)[0]
    job["spec"] |= patch
    pods, _ = pods_of([*documents(TORCH), job], "t")

    first, *nodes = pods
    assert "nodeSelector" not in first["spec"]
    assert [pod["spec"]["nodeSelector"] for pod in nodes] == [{"pool": "a"}] * 3
    assert {pod["spec"]["containers"][0]["image"] for pod in nodes} == {"example.com/torch"}


def test_a_runtime_that_is_not_in_the_file_is_asked_for(idle: Site) -> None:
    ran = fit(idle, *documents(FINE_TUNE))

    assert (ran.status, ran.out) == (2, "")
    assert (
        "TrainJob default/fine-tune: its runtime ClusterTrainingRuntime torch-distributed"
        in ran.err
    )
    assert "kubectl get clustertrainingruntime torch-distributed --output yaml" in ran.err


def test_a_runtime_of_another_namespace_is_not_the_one() -> None:
    job, runtime = documents(FINE_TUNE)[0], documents(TORCH)[0]
    runtime |= {"kind": "TrainingRuntime"}
    runtime["metadata"]["namespace"] = "other"
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    with pytest.raises(WorkloadError, match="its runtime TrainingRuntime torch-distributed is not"):
        pods_of([job, runtime], "t")
