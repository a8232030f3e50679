"""The pods of each kind of controller, named and labelled as it would."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.errors import MusterError

Json = dict[str, Any]

_JOB_KEYS = ("batch.kubernetes.io/job-name", "job-name")
_INDEX = "batch.kubernetes.io/job-completion-index"
_SET = "jobset.sigs.k8s.io/"
_KUBEFLOW = "training.kubeflow.org/"
_VOLCANO = "volcano.sh/"
_LWS = "leaderworkerset.sigs.k8s.io/"


class WorkloadError(MusterError):
    """A document of which no pods can be made; the text names it and the field."""


def job_pods(job: Json, labels: Mapping[str, str] | None = None) -> Iterator[Json]:
    """As many as run at the same time."""
    spec, name = mapping(job, job, "spec"), job["metadata"]["name"]
    parallelism = count_of(job, "spec.parallelism", spec.get("parallelism"))
    completions = count_of(job, "spec.completions", spec.get("completions"), parallelism)
    indexed = spec.get("completionMode") == "Indexed"
    for index in range(min(parallelism, completions)):
        keys = dict.fromkeys(_JOB_KEYS, name) | ({_INDEX: str(index)} if indexed else {})
        annotations = {_INDEX: str(index)} if indexed else {}
        yield made(job, spec, f"{name}-{index}", keys | dict(labels or {}), annotations)


def jobset_pods(jobset: Json) -> Iterator[Json]:
    spec, meta = mapping(jobset, jobset, "spec"), jobset["metadata"]
    for part in spec.get("replicatedJobs") or ():
        role, template = str(part.get("name")), mapping(jobset, part, "template")
        number = count_of(jobset, f"spec.replicatedJobs[{role}].replicas", part.get("replicas"))
        for at in range(number):
            labels = {
                _SET + "jobset-name": meta["name"],
                _SET + "replicatedjob-name": role,
                _SET + "replicatedjob-replicas": str(number),
                _SET + "job-index": str(at),
            }
            name = {"name": f"{meta['name']}-{role}-{at}", "namespace": meta["namespace"]}
            job = {"kind": "Job", "metadata": name, "spec": template.get("spec")}
            yield from job_pods(job, labels)


def kubeflow_pods(job: Json) -> Iterator[Json]:
    kind, name = job["kind"], job["metadata"]["name"]
    for role, part in sorted(replica_specs(job).items()):
        number = count_of(job, f"spec.…ReplicaSpecs.{role}.replicas", part.get("replicas"))
        for index in range(number):
            labels = {
                _KUBEFLOW + "job-name": name,
                _KUBEFLOW + "operator-name": f"{kind.lower()}-controller",
                _KUBEFLOW + "replica-type": role.lower(),
                _KUBEFLOW + "replica-index": str(index),
            }
            yield made(job, part, f"{name}-{role.lower()}-{index}", labels, {})


def replica_specs(job: Json) -> dict[str, Json]:
    spec = mapping(job, job, "spec")
    field = next((name for name in spec if name.endswith("ReplicaSpecs")), None)
    if field is None:
        raise WorkloadError(f"{name_of(job)}: spec has no …ReplicaSpecs")
    return {
        str(role): part for role, part in mapping(job, spec, field).items() if type(part) is dict
    }


def volcano_pods(job: Json) -> Iterator[Json]:
    """Every task's replicas of a Job of Volcano; its minimum is read from the Job itself."""
    name = job["metadata"]["name"]
    for at, task in enumerate(mapping(job, job, "spec").get("tasks") or ()):
        role = str(task.get("name") or f"default{at}")
        number = count_of(job, f"spec.tasks[{role}].replicas", task.get("replicas"))
        for index in range(number):
            keys = {
                _VOLCANO + "job-name": name,
                _VOLCANO + "task-spec": role,
                _VOLCANO + "task-index": str(index),
            }
            yield made(job, task, f"{name}-{role}-{index}", keys, {})


def lws_pods(lws: Json) -> Iterator[Json]:
    """Each group's leader and workers; without a template of its own a leader is like a worker."""
    spec, name = mapping(lws, lws, "spec"), lws["metadata"]["name"]
    parts = mapping(lws, spec, "leaderWorkerTemplate")
    size = count_of(lws, "spec.leaderWorkerTemplate.size", parts.get("size"))
    number = count_of(lws, "spec.replicas", spec.get("replicas"))
    worker = mapping(lws, parts, "workerTemplate")
    leader = parts.get("leaderTemplate") or worker
    stated = lws["metadata"].get("annotations") or {}
    known = {key: value for key, value in stated.items() if key.startswith(_LWS)}
    for group in range(number):
        for index in range(size):
            keys = {
                _LWS + "name": name,
                _LWS + "group-index": str(group),
                _LWS + "worker-index": str(index),
            }
            full = f"{name}-{group}-{index}" if index else f"{name}-{group}"
            part = {"template": worker if index else leader}
            yield made(lws, part, full, keys, known | {_LWS + "size": str(size)})


def ray_pods(cluster: Json) -> Iterator[Json]:
    """The head, and the workers that each group starts with."""
    spec, name = mapping(cluster, cluster, "spec"), cluster["metadata"]["name"]
    keys = {"ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    yield made(cluster, mapping(cluster, spec, "headGroupSpec"), f"{name}-head", keys, {})
    for part in spec.get("workerGroupSpecs") or ():
        group = str(part.get("groupName"))
        path = f"spec.workerGroupSpecs[{group}]."
        number = count_of(cluster, path + "replicas", part.get("replicas"))
        number *= count_of(cluster, path + "numOfHosts", part.get("numOfHosts"))
        for index in range(number):
            keys = {"ray.io/cluster": name, "ray.io/node-type": "worker", "ray.io/group": group}
            yield made(cluster, part, f"{name}-{group}-worker-{index}", keys, {})


def made(
    owner: Json, spec: Json, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Json:
    """One pod of the template in ``spec``, with its controller as owner."""
    template = mapping(owner, spec, "template")
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
            "ownerReferences": [
                {
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": f"fit/{owner['metadata']['name']}",
                    "controller": True,
                }
            ],
        },
        "spec": copy.deepcopy(mapping(owner, template, "spec")),
    }


def mapping(owner: Json, parent: Json, field: str) -> Json:
    found = parent.get(field)
    if not isinstance(found, dict):
        raise WorkloadError(f"{name_of(owner)}: {field} is missing or not an object")
    return found


def count_of(owner: Json, field: str, value: Any, default: int = 1) -> int:
    if value is None:
        return default
    if type(value) is not int or not 0 <= value < 2**31:
        raise WorkloadError(f"{name_of(owner)}: {field} is {value!r}, not a number of pods")
    return value


def name_of(obj: Json) -> str:
    meta = obj.get("metadata") or {}
    return f"{obj['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
