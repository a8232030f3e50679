"""The pods that a workload's controller would make, named and labelled as it would."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scheduler.errors import MusterError

Json = dict[str, Any]

MOST = 10_000
"""Pods of one file."""

_JOB_KEYS = ("batch.kubernetes.io/job-name", "job-name")
_INDEX = "batch.kubernetes.io/job-completion-index"
_SET = "jobset.sigs.k8s.io/"
_KUBEFLOW = "training.kubeflow.org/"
_KUBEFLOW_KINDS = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
_NO_PODS = (
    "PodGroup",
    "Service",
    "ConfigMap",
    "Secret",
    "Namespace",
    "PersistentVolumeClaim",
    "ServiceAccount",
    "PriorityClass",
)
"""What often stands in the same file and makes no pods."""

KINDS = ("Pod", "Job", "JobSet", *_KUBEFLOW_KINDS, "List")


class WorkloadError(MusterError):
    """A document of which no pods can be made; the text names it and the field."""


def pods_of(
    documents: Iterable[Any], namespace: str, replicas: int | None = None
) -> tuple[list[Json], list[Json]]:
    """All pods of the documents, and the objects that say how large their gangs are.

    ``namespace`` is for what states none; ``replicas`` takes the place of the number of pods, of
    workers for Kubeflow's jobs. Raises WorkloadError.
    """
    objects = [_placed(obj, namespace) for obj in _flat(documents)]
    if replicas is not None:
        objects = [_resized(obj, replicas) for obj in objects]
    pods: list[Json] = []
    for obj in objects:
        for pod in _pods(obj, replicas):
            pods.append(pod)
            if len(pods) > MOST:
                raise WorkloadError(f"{_name(obj)}: more than {MOST} pods are not judged at once")
    return pods, [obj for obj in objects if obj["kind"] != "Pod"]


# ── documents ──


def _flat(documents: Iterable[Any]) -> Iterator[Json]:
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise WorkloadError("a document is no Kubernetes object: it has no 'kind'")
        if document["kind"].endswith("List"):
            items = document.get("items")
            yield from _flat(items if isinstance(items, list) else [])
        else:
            yield document


def _placed(obj: Json, namespace: str) -> Json:
    """A copy with a name and a namespace."""
    found = copy.deepcopy(obj)
    meta = found.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise WorkloadError(f"{obj['kind']}: metadata is not an object")
    meta["name"] = meta.get("name") or f"{meta.get('generateName') or 'unnamed-'}x"
    meta["namespace"] = meta.get("namespace") or namespace
    return found


def _resized(obj: Json, replicas: int) -> Json:
    spec = obj.get("spec") or {}
    if obj["kind"] == "Job":
        same = spec.get("completions") in (None, spec.get("parallelism"))
        indexed = spec.get("completionMode") == "Indexed"
        spec["parallelism"] = replicas
        if spec.get("completions") is not None and (same or indexed):
            spec["completions"] = replicas
    elif obj["kind"] in _KUBEFLOW_KINDS:
        _replica_specs(obj).get("Worker", {})["replicas"] = replicas
    elif obj["kind"] == "JobSet":
        raise WorkloadError(f"{_name(obj)}: --replicas is not clear for a JobSet; edit the file")
    return obj


# ── pods ──


def _pods(obj: Json, replicas: int | None) -> Iterable[Json]:
    kind = obj["kind"]
    if kind == "Pod":
        return _copies(obj, replicas)
    if kind == "Job":
        return _job(obj)
    if kind == "JobSet":
        return _jobset(obj)
    if kind in _KUBEFLOW_KINDS:
        return _kubeflow(obj)
    if kind in _NO_PODS:
        return ()
    raise WorkloadError(f"{_name(obj)}: pods are made of {', '.join(KINDS)}, not of {kind}")


def _copies(pod: Json, replicas: int | None) -> Iterator[Json]:
    if replicas is None:
        yield pod
        return
    for index in range(replicas):
        one = copy.deepcopy(pod)
        one["metadata"]["name"] += f"-{index}"
        yield one


def _job(job: Json, labels: Mapping[str, str] | None = None) -> Iterator[Json]:
    """As many as run at the same time."""
    spec, name = _mapping(job, job, "spec"), job["metadata"]["name"]
    parallelism = _count(job, "spec.parallelism", spec.get("parallelism"))
    completions = _count(job, "spec.completions", spec.get("completions"), parallelism)
    indexed = spec.get("completionMode") == "Indexed"
    for index in range(min(parallelism, completions)):
        keys = dict.fromkeys(_JOB_KEYS, name) | ({_INDEX: str(index)} if indexed else {})
        annotations = {_INDEX: str(index)} if indexed else {}
        yield _made(job, spec, f"{name}-{index}", keys | dict(labels or {}), annotations)


def _jobset(jobset: Json) -> Iterator[Json]:
    spec, meta = _mapping(jobset, jobset, "spec"), jobset["metadata"]
    for part in spec.get("replicatedJobs") or ():
        role, template = str(part.get("name")), _mapping(jobset, part, "template")
        count = _count(jobset, f"spec.replicatedJobs[{role}].replicas", part.get("replicas"))
        for at in range(count):
            labels = {
                _SET + "jobset-name": meta["name"],
                _SET + "replicatedjob-name": role,
                _SET + "replicatedjob-replicas": str(count),
                _SET + "job-index": str(at),
            }
            name = {"name": f"{meta['name']}-{role}-{at}", "namespace": meta["namespace"]}
            job = {"kind": "Job", "metadata": name, "spec": template.get("spec")}
            yield from _job(job, labels)


def _kubeflow(job: Json) -> Iterator[Json]:
    kind, name = job["kind"], job["metadata"]["name"]
    for role, part in sorted(_replica_specs(job).items()):
        count = _count(job, f"spec.…ReplicaSpecs.{role}.replicas", part.get("replicas"))
        for index in range(count):
            labels = {
                _KUBEFLOW + "job-name": name,
                _KUBEFLOW + "operator-name": f"{kind.lower()}-controller",
                _KUBEFLOW + "replica-type": role.lower(),
                _KUBEFLOW + "replica-index": str(index),
            }
            yield _made(job, part, f"{name}-{role.lower()}-{index}", labels, {})


def _replica_specs(job: Json) -> dict[str, Json]:
    spec = _mapping(job, job, "spec")
    field = next((name for name in spec if name.endswith("ReplicaSpecs")), None)
    if field is None:
        raise WorkloadError(f"{_name(job)}: spec has no …ReplicaSpecs")
    return {
        str(role): part for role, part in _mapping(job, spec, field).items() if type(part) is dict
    }


def _made(
    owner: Json, spec: Json, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Json:
    """One pod of the template in ``spec``, with its controller as owner."""
    template = _mapping(owner, spec, "template")
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
        "spec": copy.deepcopy(_mapping(owner, template, "spec")),
    }


def _mapping(owner: Json, parent: Json, field: str) -> Json:
    found = parent.get(field)
    if not isinstance(found, dict):
        raise WorkloadError(f"{_name(owner)}: {field} is missing or not an object")
    return found


def _count(owner: Json, field: str, value: Any, default: int = 1) -> int:
    if value is None:
        return default
    if type(value) is not int or not 0 <= value < 2**31:
        raise WorkloadError(f"{_name(owner)}: {field} is {value!r}, not a number of pods")
    return value


def _name(obj: Json) -> str:
    meta = obj.get("metadata") or {}
    return f"{obj['kind']} {meta.get('namespace', '')}/{meta.get('name', '')}"
