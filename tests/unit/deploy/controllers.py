"""What controllers make of the examples: pods, and the objects that Muster reads beside them.

Names, labels, annotations and variables as each controller writes them, as far as anybody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

Object = dict[str, Any]

NAMESPACE = "default"
_GROUP_UID = "5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11"


class Made(NamedTuple):
    """The pods in the order of their ranks, and what else is there."""

    pods: list[Object]
    objects: list[Object]


def made(objects: Iterable[Object]) -> Made:
    """What the controllers make of the objects of one example."""
    found = [deepcopy(item) for item in objects]
    pods: list[Object] = []
    others: list[Object] = []
    for item in found:
        item["metadata"].setdefault("namespace", NAMESPACE)
        item["metadata"]["uid"] = f"uid-{item['metadata']['name']}"
        group = item["apiVersion"].partition("/")[0]
        maker = _MAKERS.get((group, item["kind"]))
        if maker is None:
            continue
        result = maker(item, found)
        pods += result.pods
        others += result.objects
    return Made(pods, others)


def _pod(
    name: str,
    template: Object,
    owner: Object,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    env: Mapping[str, Any] | None = None,
) -> Object:
    spec = deepcopy(template["spec"])
    for container in spec["containers"] if env else ():
        stated = [{"name": key, "value": str(value)} for key, value in (env or {}).items()]
        container["env"] = [*container.get("env", ()), *stated]
    meta = template.get("metadata", {})
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {**meta.get("labels", {}), **labels},
            "annotations": {**meta.get("annotations", {}), **(annotations or {})},
            "ownerReferences": [reference],
        },
        "spec": spec,
    }


def _job(job: Object, _all: list[Object], more: Mapping[str, str] | None = None) -> Made:
    """Kubernetes' own controller; ``more`` are labels and annotations of a JobSet."""
    name, spec = job["metadata"]["name"], job["spec"]
    pods = []
    for index in range(spec["completions"]):
        at = {"batch.kubernetes.io/job-completion-index": str(index)}
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name, **at, **(more or {})}
        notes = {**at, **(more or {})}
        pod = _pod(f"{name}-{index}-abcde", spec["template"], job, labels, notes)
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        pods.append(pod)
    return Made(pods, [job])


def _jobset(jobset: Object, _all: list[Object]) -> Made:
    name = jobset["metadata"]["name"]
    pods: list[Object] = []
    jobs: list[Object] = []
    for replicated in jobset["spec"]["replicatedJobs"]:
        count = replicated.get("replicas", 1)
        for index in range(count):
            prefix = "jobset.sigs.k8s.io/"
            keys = {
                prefix + "jobset-name": name,
                prefix + "jobset-uid": jobset["metadata"]["uid"],
                prefix + "replicatedjob-name": replicated["name"],
                prefix + "replicatedjob-replicas": str(count),
                prefix + "job-index": str(index),
                prefix + "restart-attempt": "0",
            }
            job_name = f"{name}-{replicated['name']}-{index}"
            job = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": job_name,
                    "namespace": NAMESPACE,
                    "uid": f"uid-{job_name}",
                    "labels": keys,
                },
                "spec": replicated["template"]["spec"],
            }
            pods += _job(job, [], keys).pods
            jobs.append(job)
    return Made(pods, [jobset, *jobs])


def _pytorch(job: Object, _all: list[Object]) -> Made:
    """Kubeflow's training operator; see its envvar.go."""
    name, spec = job["metadata"]["name"], job["spec"]
    each = int(spec["nprocPerNode"])
    replicas = spec["pytorchReplicaSpecs"]
    total = sum(stated["replicas"] for stated in replicas.values())
    elastic = spec.get("elasticPolicy")
    nodes = f"{elastic['minReplicas']}:{elastic['maxReplicas']}" if elastic else str(total)
    pods: list[Object] = []
    for kind in ("Master", "Worker"):
        stated = replicas.get(kind, {"replicas": 0})
        for index in range(stated["replicas"]):
            role, prefix = kind.lower(), "training.kubeflow.org/"
            labels = {
                prefix + "job-name": name,
                prefix + "operator-name": "pytorchjob-controller",
                prefix + "replica-type": role,
                prefix + "replica-index": str(index),
                **({prefix + "job-role": "master"} if role == "master" else {}),
            }
            env: dict[str, Any] = {"PET_NNODES": nodes, "PET_NPROC_PER_NODE": each}
            if not elastic:
                env |= {
                    "MASTER_ADDR": f"{name}-master-0",
                    "MASTER_PORT": 23456,
                    "WORLD_SIZE": total * each,
                    "RANK": len(pods),
                }
            template = stated["template"]
            pods.append(_pod(f"{name}-{role}-{index}", template, job, labels, env=env))
    return Made(pods, [job])


def _trainjob(job: Object, everything: list[Object]) -> Made:
    """Kubeflow Trainer: a JobSet of the runtime's template, with the number of nodes filled in."""
    (runtime,) = [item for item in everything if item["kind"] == job["spec"]["runtimeRef"]["kind"]]
    assert runtime["metadata"]["name"] == job["spec"]["runtimeRef"]["name"]
    nodes = job["spec"]["trainer"]["numNodes"]
    spec = deepcopy(runtime["spec"]["template"]["spec"])
    for replicated in spec["replicatedJobs"]:
        inner = replicated["template"]["spec"]
        inner |= {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed"}
        (container,) = inner["template"]["spec"]["containers"]
        said = {"PET_NNODES": str(nodes), "PET_MASTER_ADDR": f"{_name(job)}-node-0-0.{_name(job)}"}
        container["env"] = [{"name": key, "value": value} for key, value in said.items()]
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": _name(job),
            "namespace": NAMESPACE,
            "uid": f"uid-jobset-{_name(job)}",
        },
        "spec": spec,
    }
    return _jobset(jobset, [])


def _volcano(job: Object, _all: list[Object]) -> Made:
    name, spec = _name(job), job["spec"]
    group_name = f"{name}-{_GROUP_UID}"
    tasks = {task["name"]: task.get("minAvailable", task["replicas"]) for task in spec["tasks"]}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group_name, "namespace": NAMESPACE, "uid": f"uid-{group_name}"},
        "spec": {
            "minMember": spec["minAvailable"],
            "minTaskMember": tasks,
            "queue": spec["queue"],
        },
    }
    pods = []
    for task in spec["tasks"]:
        for index in range(task["replicas"]):
            keys = {
                "volcano.sh/job-name": name,
                "volcano.sh/job-namespace": NAMESPACE,
                "volcano.sh/task-spec": task["name"],
                "volcano.sh/task-index": str(index),
                "volcano.sh/queue-name": spec["queue"],
            }
            notes = {**keys, "scheduling.k8s.io/group-name": group_name}
            pod = _pod(f"{name}-{task['name']}-{index}", task["template"], job, keys, notes)
            pod["spec"]["schedulerName"] = spec["schedulerName"]
            pods.append(pod)
    return Made(pods, [group, job])


def _leader_worker_set(lws: Object, _all: list[Object]) -> Made:
    name, spec = _name(lws), lws["spec"]
    inner = spec["leaderWorkerTemplate"]
    prefix = "leaderworkerset.sigs.k8s.io/"
    pods = []
    for group in range(spec["replicas"]):
        for worker in range(inner["size"]):
            leader = f"{name}-{group}"
            labels = {
                prefix + "name": name,
                prefix + "group-index": str(group),
                prefix + "worker-index": str(worker),
                prefix + "group-key": f"key-{group}",
            }
            notes = {prefix + "size": str(inner["size"])}
            env = {
                "LWS_LEADER_ADDRESS": f"{leader}.{name}.{NAMESPACE}",
                "LWS_GROUP_SIZE": inner["size"],
                "LWS_WORKER_INDEX": worker,
            }
            full = f"{leader}-{worker}" if worker else leader
            template = inner.get("leaderTemplate" if not worker else "", inner["workerTemplate"])
            pods.append(_pod(full, template, lws, labels, notes, env))
    return Made(pods, [lws])


def _ray(cluster: Object, _all: list[Object]) -> Made:
    name, spec = _name(cluster), cluster["spec"]

    def pod(full: str, kind: str, group: str, template: Object) -> Object:
        labels = {
            "ray.io/cluster": name,
            "ray.io/node-type": kind,
            "ray.io/group": group,
            "ray.io/is-ray-node": "yes",
        }
        return _pod(full, template, cluster, labels)

    pods = [pod(f"{name}-head-abcde", "head", "headgroup", spec["headGroupSpec"]["template"])]
    for group in spec["workerGroupSpecs"]:
        pods += [
            pod(
                f"{name}-{group['groupName']}-worker-{at}",
                "worker",
                group["groupName"],
                group["template"],
            )
            for at in range(group["replicas"])
        ]
    return Made(pods, [cluster])


def _workflow(workflow: Object, everything: list[Object]) -> Made:
    """Argo: what its steps create. Its own pods need no GPU and have another scheduler."""
    steps = [item["resource"] for item in workflow["spec"]["templates"] if "resource" in item]
    created = [yaml.safe_load(step["manifest"]) for step in steps]
    (job,) = created
    job["metadata"] |= {"namespace": NAMESPACE, "uid": f"uid-{_name(job)}"}
    return _job(job, everything)


def _plain(pod: Object, _all: list[Object]) -> Made:
    return Made([pod], [])


def _name(item: Object) -> str:
    name: str = item["metadata"]["name"]
    return name


_MAKERS: Mapping[tuple[str, str], Callable[[Object, list[Object]], Made]] = {
    ("v1", "Pod"): _plain,
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _jobset,
    ("kubeflow.org", "PyTorchJob"): _pytorch,
    ("trainer.kubeflow.org", "TrainJob"): _trainjob,
    ("batch.volcano.sh", "Job"): _volcano,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("ray.io", "RayCluster"): _ray,
    ("argoproj.io", "Workflow"): _workflow,
}
