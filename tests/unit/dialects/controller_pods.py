"""Pods and objects as the controllers of each ecosystem make them, for tests of the dialects.

Every function returns new dicts in namespace ``t``; ``**more`` goes to ``builders.pod``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests import builders

Json = dict[str, Any]

GPU = builders.GPU


def env(**variables: str | int) -> list[Json]:
    """Environment variables with plain values."""
    return [{"name": name, "value": str(value)} for name, value in variables.items()]


def template(gpu: int | None = None, *, variables: Iterable[Json] = (), **meta: Json) -> Json:
    """A pod template."""
    resources = {"requests": {"cpu": "1"}} if gpu is None else {"limits": {GPU: str(gpu)}}
    container = {"name": "main", "env": list(variables), "resources": resources}
    return {"metadata": meta, "spec": {"containers": [container]}}


def pod(name: str, *, variables: Iterable[Json] = (), **more: Any) -> Json:
    """A pod ``t/name`` with environment variables in its container."""
    made = builders.pod(f"t/{name}", **more)
    if variables:
        made["spec"]["containers"][0]["env"] = list(variables)
    return made


def _object(kind: str, version: str, name: str, spec: Json, **meta: Any) -> Json:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "t", "uid": f"uid-{name}", **meta},
        "spec": spec,
    }


def _merged(more: dict[str, Any], **added: Mapping[str, str]) -> dict[str, Any]:
    """``more`` with labels and annotations added to its own."""
    return more | {key: {**values, **more.get(key, {})} for key, values in added.items()}


# ── Koordinator, Volcano, Kueue, KAI, YuniKorn, HiveD ──


def koordinator(name: str, gang: str = "A", **keys: str) -> Json:
    """A pod with annotations of Koordinator; ``min_available="3"`` and so on."""
    prefix = "gang.scheduling.koordinator.sh/"
    stated = {prefix + key.replace("_", "-"): value for key, value in keys.items()}
    return pod(name, gpu=4, annotations={prefix + "name": gang, **stated})


def volcano(task: str, index: int, *, job: str = "train", **more: Any) -> Json:
    """A pod of a Volcano Job, whose PodGroup is called ``train-<uid of the job>``."""
    meta = {
        "volcano.sh/job-name": job,
        "volcano.sh/task-spec": task,
        "volcano.sh/task-index": str(index),
        "volcano.sh/queue-name": "default",
    }
    group = {"scheduling.k8s.io/group-name": f"{job}-5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11"}
    more = _merged(more, labels={**meta, "volcano.sh/job-namespace": "t"})
    more = _merged(more, annotations=meta | group)
    owner = ("Job", job, f"uid-{job}")
    return pod(f"{job}-{task}-{index}", **({"gpu": 4, "owner": owner} | more))


def volcano_group(spec: Json, name: str = "train-5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11") -> Json:
    """A PodGroup of Volcano."""
    return _object("PodGroup", "scheduling.volcano.sh/v1beta1", name, {"queue": "default", **spec})


def volcano_job(spec: Json, name: str = "train") -> Json:
    """A Job of Volcano."""
    return _object("Job", "batch.volcano.sh/v1alpha1", name, spec)


def kueue(index: int, total: int, *, group: str = "A", **more: Any) -> Json:
    """A pod of a Kueue pod group; gated until it is admitted, if ``gates`` says so."""
    labels = {
        "kueue.x-k8s.io/pod-group-name": group,
        "kueue.x-k8s.io/queue-name": "user-queue",
        "kueue.x-k8s.io/managed": "true",
        "kueue.x-k8s.io/pod-group-pod-index": str(index),
    }
    counted = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
    more = _merged(_merged(more, labels=labels), annotations=counted)
    return pod(f"{group}-{index}", **({"gpu": 4} | more))


def kai(name: str, *, subgroup: str | None = None, group: str = "pg-train-1", **more: Any) -> Json:
    """A pod that KAI's grouper has marked."""
    labels = {"kai.scheduler/queue": "team"}
    if subgroup:
        labels["kai.scheduler/subgroup-name"] = subgroup
    more = _merged(_merged(more, labels=labels), annotations={"pod-group-name": group})
    return pod(name, **({"gpu": 4} | more))


def kai_group(spec: Json, name: str = "pg-train-1") -> Json:
    """A PodGroup of KAI."""
    return _object("PodGroup", "scheduling.run.ai/v2alpha2", name, {"queue": "team", **spec})


def yunikorn(
    name: str, task: str | None, groups: Mapping[str, int] | None = None, **more: Any
) -> Json:
    """A pod of a YuniKorn application; ``groups`` are minMember by task group."""
    prefix = "yunikorn.apache.org/"
    stated = {prefix + "task-group-name": task} if task else {}
    if groups is not None:
        made = [
            {"name": key, "minMember": value, "minResource": {"cpu": "1"}, "tolerations": []}
            for key, value in groups.items()
        ]
        stated[prefix + "task-groups"] = json.dumps(made)
    labels = {"applicationId": "app-0001", "queue": "root.sandbox"}
    more = _merged(_merged(more, labels=labels), annotations=stated)
    return pod(name, **({"gpu": 4} | more))


def hived(name: str, group: str | None, members: Iterable[tuple[int, int]]) -> Json:
    """A pod of HiveD; ``members`` are (podNumber, leafCellNumber)."""
    lines = ["virtualCluster: VC1", "priority: 10", "leafCellType: V100", "leafCellNumber: 4"]
    if group is not None:
        lines += ["affinityGroup:", f"  name: {group}", "  members:"]
        lines += [f"  - podNumber: {pods}\n    leafCellNumber: {cells}" for pods, cells in members]
    spec = {"hivedscheduler.microsoft.com/pod-scheduling-spec": "\n".join(lines)}
    return pod(name, gpu=4, annotations=spec)


# ── LeaderWorkerSet, JobSet, Kubeflow, KubeRay, Job ──


def lws(worker: int, size: int, *, name: str = "serve", group: int = 0, **more: Any) -> Json:
    """A pod of a LeaderWorkerSet; worker 0 is the leader."""
    prefix = "leaderworkerset.sigs.k8s.io/"
    labels = {
        prefix + "name": name,
        prefix + "group-index": str(group),
        prefix + "worker-index": str(worker),
        prefix + "group-key": "b6cb3d3d9b4f8a7d",
        prefix + "template-revision-hash": "6f4c9f6b5b",
    }
    leader = f"{name}-{group}"
    known = {prefix + "size": str(size)} | ({prefix + "leader-name": leader} if worker else {})
    more = _merged(_merged(more, labels=labels), annotations=known)
    sts = leader if worker else name
    owner = ("StatefulSet", sts, f"uid-sts-{sts}")
    full = f"{leader}-{worker}" if worker else leader
    return pod(full, **({"gpu": 4, "owner": owner} | more))


def lws_set(size: int, policy: str = "LeaderCreated", name: str = "serve") -> Json:
    """A LeaderWorkerSet."""
    spec = {"replicas": 1, "startupPolicy": policy, "leaderWorkerTemplate": {"size": size}}
    return _object("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", name, spec)


def job_pod(job: str, index: int | None, **more: Any) -> Json:
    """A pod of a Kubernetes Job."""
    labels = {
        "batch.kubernetes.io/job-name": job,
        "job-name": job,
        "batch.kubernetes.io/controller-uid": f"uid-{job}",
        "controller-uid": f"uid-{job}",
    }
    suffix = "x" if index is None else f"{index}"
    if index is not None:
        at = {"batch.kubernetes.io/job-completion-index": str(index)}
        more = _merged(_merged(more, labels=at), annotations=at)
    more = _merged(more, labels=labels)
    return pod(f"{job}-{suffix}-abc12", **({"gpu": 4, "owner": ("Job", job, f"uid-{job}")} | more))


def job(
    parallelism: int,
    completions: int | None,
    mode: str = "Indexed",
    name: str = "train",
    **meta: Json,
) -> Json:
    """A Kubernetes Job."""
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode}
    return _object("Job", "batch/v1", name, spec, **meta)


def jobset(
    role: str, job: int, index: int, *, replicas: int = 1, name: str = "train", **more: Any
) -> Json:
    """A pod of a JobSet's replicated job."""
    prefix = "jobset.sigs.k8s.io/"
    meta = {
        prefix + "jobset-name": name,
        prefix + "jobset-uid": f"uid-{name}",
        prefix + "replicatedjob-name": role,
        prefix + "replicatedjob-replicas": str(replicas),
        prefix + "job-index": str(job),
        prefix + "job-key": "3c2f8a",
        prefix + "restart-attempt": "0",
    }
    more = _merged(_merged(more, labels=meta), annotations=meta)
    return job_pod(f"{name}-{role}-{job}", index, **more)


def jobset_object(
    *jobs: Json, policy: str | None = None, name: str = "train", **meta: Json
) -> Json:
    """A JobSet; jobs from :func:`replicated`."""
    spec: Json = {"replicatedJobs": list(jobs)}
    if policy is not None:
        spec["startupPolicy"] = {"startupPolicyOrder": policy}
    return _object("JobSet", "jobset.x-k8s.io/v1alpha2", name, spec, **meta)


def replicated(
    name: str,
    pods: int,
    *,
    replicas: int = 1,
    gpu: int | None = 4,
    after: Mapping[str, str] | None = None,
    variables: Iterable[Json] = (),
    **meta: Json,
) -> Json:
    """A replicated job of ``pods`` each; ``after`` is name -> Ready or Complete."""
    spec = {
        "parallelism": pods,
        "completions": pods,
        "template": template(gpu, variables=variables),
    }
    made: Json = {"name": name, "replicas": replicas, "template": {"metadata": meta, "spec": spec}}
    if after:
        made["dependsOn"] = [{"name": key, "status": value} for key, value in after.items()]
    return made


def kubeflow(
    role: str,
    index: int,
    *,
    name: str = "mnist",
    operator: str = "pytorchjob-controller",
    kind: str = "PyTorchJob",
    **more: Any,
) -> Json:
    """A pod of a Kubeflow job of version 1."""
    prefix = "training.kubeflow.org/"
    labels = {
        prefix + "job-name": name,
        prefix + "operator-name": operator,
        prefix + "replica-type": role,
        prefix + "replica-index": str(index),
    }
    if role == "master":
        labels[prefix + "job-role"] = "master"
    owner = (kind, name, f"uid-{name}")
    more = _merged(more, labels=labels)
    return pod(f"{name}-{role}-{index}", **({"gpu": 4, "owner": owner} | more))


def kubeflow_job(kind: str, spec: Json, name: str = "mnist", version: str = "v1") -> Json:
    """A Kubeflow job."""
    return _object(kind, f"kubeflow.org/{version}", name, spec)


def mpi(role: str, index: int = 0, *, name: str = "pi", **more: Any) -> Json:
    """A pod of the mpi-operator: a worker, or the launcher, which its own Job makes."""
    prefix = "training.kubeflow.org/"
    labels = {
        prefix + "job-name": name,
        prefix + "operator-name": "mpi-operator",
        prefix + "job-role": role,
    }
    if role == "launcher":
        return job_pod(
            f"{name}-launcher", None, **_merged({"gpu": None, "cpu": "1"} | more, labels=labels)
        )
    more = _merged(more, labels={**labels, prefix + "replica-index": str(index)})
    owner = ("MPIJob", name, f"uid-{name}")
    return pod(f"{name}-worker-{index}", **({"gpu": 4, "owner": owner} | more))


def mpi_job(workers: int, *, policy: str = "AtStartup", launcher_gpu: int | None = None) -> Json:
    """An MPIJob."""
    spec = {
        "launcherCreationPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template(launcher_gpu)},
            "Worker": {"replicas": workers, "template": template(4)},
        },
    }
    return kubeflow_job("MPIJob", spec, "pi", "v2beta1")


def trainer(role: str, index: int = 0, *, nodes: str | None = None, **more: Any) -> Json:
    """A pod of a TrainJob of Kubeflow Trainer 2, in the JobSet of its name."""
    more = {"gpu": 4 if role == "node" else None} | more
    if nodes is not None:
        more["variables"] = [
            *env(PET_NNODES=nodes, PET_NPROC_PER_NODE="4", PET_MASTER_PORT=29500),
            {
                "name": "PET_NODE_RANK",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}},
            },
        ]
    return jobset(role, 0, index, **more)


def ray(kind: str, number: int = 0, *, group: str = "gpus", name: str = "rc", **more: Any) -> Json:
    """A pod of a RayCluster."""
    labels = {
        "ray.io/cluster": name,
        "ray.io/node-type": kind,
        "ray.io/group": "headgroup" if kind == "head" else group,
        "ray.io/is-ray-node": "yes",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    more = _merged({"gpu": None if kind == "head" else 4} | more, labels=labels)
    full = f"{name}-head-abcde" if kind == "head" else f"{name}-{group}-worker-{number}"
    return pod(full, **({"owner": ("RayCluster", name, f"uid-{name}")} | more))


def ray_cluster(*groups: Json, scales: bool = False, name: str = "rc") -> Json:
    """A RayCluster."""
    spec = {"enableInTreeAutoscaling": scales, "workerGroupSpecs": list(groups)}
    return _object("RayCluster", "ray.io/v1", name, spec)
