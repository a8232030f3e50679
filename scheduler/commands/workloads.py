"""The pods that a workload's controller would make, named and labelled as it would."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scheduler.commands.controllers import (
    Json,
    WorkloadError,
    job_pods,
    jobset_pods,
    kubeflow_pods,
    lws_pods,
    name_of,
    ray_pods,
    replica_specs,
    volcano_pods,
)

MOST = 10_000
"""Pods of one file."""

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
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "NetworkPolicy",
    "PersistentVolume",
    "StorageClass",
    "ResourceFlavor",
    "ClusterQueue",
    "LocalQueue",
    "Queue",
    "Topology",
)
"""What often stands in the same file and makes no pods."""

KINDS = (
    "Pod",
    "Job (of Volcano, too)",
    "JobSet",
    "LeaderWorkerSet",
    "RayCluster",
    *_KUBEFLOW_KINDS,
    "List",
)
"""Of what pods are made, for people."""


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
                raise WorkloadError(f"{name_of(obj)}: more than {MOST} pods are not judged at once")
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
    if _maker(obj) is job_pods:
        same = spec.get("completions") in (None, spec.get("parallelism"))
        indexed = spec.get("completionMode") == "Indexed"
        spec["parallelism"] = replicas
        if spec.get("completions") is not None and (same or indexed):
            spec["completions"] = replicas
    elif obj["kind"] in _KUBEFLOW_KINDS:
        replica_specs(obj).get("Worker", {})["replicas"] = replicas
    elif _maker(obj) is not None:
        kind = obj["kind"]
        raise WorkloadError(f"{name_of(obj)}: --replicas is not clear for a {kind}; edit the file")
    return obj


# ── pods ──


def unread(objects: Iterable[Json]) -> list[str]:
    """What may make pods that are not known here, by kind and name."""
    return [name_of(obj) for obj in objects if _maker(obj) is None and obj["kind"] not in _NO_PODS]


def _pods(obj: Json, replicas: int | None) -> Iterable[Json]:
    if obj["kind"] == "Pod":
        return _copies(obj, replicas)
    maker = _maker(obj)
    return maker(obj) if maker else ()


def _maker(obj: Json) -> Callable[[Json], Iterable[Json]] | None:
    """What makes the pods of an object of this kind; Volcano's Job has the name of another."""
    kind = obj["kind"]
    if kind == "Job" and str(obj.get("apiVersion")).startswith("batch.volcano.sh/"):
        return volcano_pods
    return _MAKERS.get(kind)


def _copies(pod: Json, replicas: int | None) -> Iterator[Json]:
    if replicas is None:
        yield pod
        return
    for index in range(replicas):
        one = copy.deepcopy(pod)
        one["metadata"]["name"] += f"-{index}"
        yield one


_MAKERS: dict[str, Callable[[Json], Iterable[Json]]] = {
    "Job": job_pods,
    "JobSet": jobset_pods,
    "LeaderWorkerSet": lws_pods,
    "RayCluster": ray_pods,
    **dict.fromkeys(_KUBEFLOW_KINDS, kubeflow_pods),
}
