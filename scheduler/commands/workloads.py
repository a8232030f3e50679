"""The pods that a workload's controller would make, named and labelled as it would."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from scheduler.commands import argo, trainjobs
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
from scheduler.core.asking import MOST_PODS, TOO_MANY_PODS

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
    *trainjobs.RUNTIMES,
    *argo.KINDS,
)
"""What often stands in the same file and makes no pods."""

_PRIVATE = ("Secret", "ConfigMap")
"""What is nobody's business, and is left where it is."""

KINDS = (
    "Pod",
    "Job (of Volcano, too)",
    "JobSet",
    "LeaderWorkerSet",
    "RayCluster",
    *_KUBEFLOW_KINDS,
    "TrainJob with its runtime",
    "Argo's workflows",
    "List",
)
"""Of what pods are made, for people."""


class Question(NamedTuple):
    """Pods that are asked about together."""

    about: str
    """The step of a workflow that makes them; "" for all that is made at once."""
    pods: list[Json]
    objects: list[Json]
    """The objects that say how large their gangs are."""


def questions(
    documents: Iterable[Any], namespace: str, replicas: int | None = None
) -> list[Question]:
    """What the documents make at once, then each step of each workflow by itself.

    Arguments are those of ``pods_of``. Where nothing makes a pod there is one without any.
    Raises WorkloadError.
    """
    objects = [_placed(obj, namespace) for obj in _flat(documents)]
    plain = [obj for obj in objects if obj["kind"] not in argo.KINDS]
    found = [Question("", *pods_of(plain, namespace, replicas))]
    for workflow in _workflows(objects):
        if replicas is not None:
            raise WorkloadError(_unclear(workflow))
        with _well_formed(workflow):
            steps = argo.steps_of(workflow, objects)
        found += [_of_step(workflow, step) for step in steps]
    first, *others = [question for question in found if question.pods] or found[:1]
    beside = [] if first is found[0] else found[0].objects
    return [first._replace(objects=[*beside, *first.objects]), *others]


def _of_step(workflow: Json, step: argo.Step) -> Question:
    about = f"{name_of(workflow)}, step {step.name}"
    try:
        return Question(about, *pods_of(step.documents, workflow["metadata"]["namespace"]))
    except WorkloadError as error:
        raise WorkloadError(f"{about}: {error}") from error


def _workflows(objects: Sequence[Json]) -> list[Json]:
    """Workflows; without any, templates that can be run by themselves."""
    found = [obj for obj in objects if obj["kind"] in argo.WORKFLOWS]
    templates = [obj for obj in objects if obj["kind"] in argo.TEMPLATES]
    return found or [obj for obj in templates if (obj.get("spec") or {}).get("entrypoint")]


def pods_of(
    documents: Iterable[Any], namespace: str, replicas: int | None = None
) -> tuple[list[Json], list[Json]]:
    """All pods of the documents, and the objects that say how large their gangs are.

    ``namespace`` is for what states none; ``replicas`` takes the place of the number of pods, of
    workers for Kubeflow's jobs. Raises WorkloadError.
    """
    objects = [_placed(obj, namespace) for obj in _flat(documents)]
    objects = [_made_ready(obj, objects, replicas) for obj in objects]
    pods: list[Json] = []
    for obj in objects:
        with _well_formed(obj):
            for pod in _pods(obj, replicas):
                pods.append(pod)
                if len(pods) > MOST_PODS:
                    raise WorkloadError(f"{name_of(obj)}: {TOO_MANY_PODS}")
    return pods, [obj for obj in objects if obj["kind"] not in ("Pod", *_PRIVATE)]


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


@contextmanager
def _well_formed(obj: Json) -> Iterator[None]:
    """A field that is built in another way than its kind's is a fault of the object."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"{name_of(obj)}: a field does not have the form that it has in a {obj['kind']}"
        raise WorkloadError(f"{text}: {error}") from error


def _made_ready(obj: Json, objects: Sequence[Json], replicas: int | None) -> Json:
    """The object of which pods are made, with as many replicas as are asked for."""
    with _well_formed(obj):
        if obj["kind"] == trainjobs.KIND:
            return trainjobs.jobset_of(obj, objects, replicas)
        return obj if replicas is None else _resized(obj, replicas)


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
        raise WorkloadError(_unclear(obj))
    return obj


def _unclear(obj: Json) -> str:
    kind = obj["kind"]
    return f"{name_of(obj)}: --replicas is not clear for a {kind}; edit the file"


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
