"""The JobSet that Kubeflow Trainer makes of a TrainJob and its runtime."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from scheduler.commands.controllers import Json, WorkloadError, count_of, mapping, name_of

KIND = "TrainJob"
RUNTIMES = ("TrainingRuntime", "ClusterTrainingRuntime")

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_NODE, _LAUNCHER = "node", "launcher"


def jobset_of(job: Json, objects: Iterable[Json], replicas: int | None = None) -> Json:
    """The JobSet; the runtime is looked for in ``objects``, and ``replicas`` are its nodes.

    Raises WorkloadError, where the runtime is not there.
    """
    runtime = _runtime(job, objects)
    spec = _patched(job, copy.deepcopy(mapping(runtime, runtime, "spec")))
    template = mapping(runtime, spec, "template")
    inner = mapping(runtime, template, "spec")
    nodes = _nodes(job, spec) if replicas is None else replicas
    for part in inner.get("replicatedJobs") or ():
        _filled(job, spec, part, nodes)
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            **meta,
            "name": job["metadata"]["name"],
            "namespace": job["metadata"]["namespace"],
        },
        "spec": inner,
    }


def _runtime(job: Json, objects: Iterable[Json]) -> Json:
    stated = mapping(job, mapping(job, job, "spec"), "runtimeRef")
    kind, name = stated.get("kind") or RUNTIMES[1], stated.get("name")
    for obj in objects:
        here = kind == RUNTIMES[1] or obj["metadata"]["namespace"] == job["metadata"]["namespace"]
        if (obj["kind"], obj["metadata"]["name"]) == (kind, name) and here:
            return obj
    raise WorkloadError(
        f"{name_of(job)}: its runtime {kind} {name} is not in the file: put it there, as "
        f"`kubectl get {str(kind).lower()} {name} --output yaml` prints it"
    )


def _nodes(job: Json, spec: Json) -> int | None:
    trainer, policy = mapping(job, job, "spec").get("trainer") or {}, spec.get("mlPolicy") or {}
    for owner, path, found in (
        (job, "spec.trainer.numNodes", trainer.get("numNodes")),
        (job, "mlPolicy.numNodes of the runtime", policy.get("numNodes")),
    ):
        if found is not None:
            return count_of(owner, path, found)
    return None


def _filled(job: Json, spec: Json, part: Json, nodes: int | None) -> None:
    """One of the JobSet's jobs with what the TrainJob says of it."""
    template = mapping(job, part, "template")
    inner = mapping(job, template, "spec")
    labels = (template.get("metadata") or {}).get("labels") or {}
    mpi = (spec.get("mlPolicy") or {}).get("mpi")
    launches = mpi is not None and bool(mpi.get("runLauncherAsNode"))
    if mpi is not None:
        mine = part.get("name") == _NODE
        count = None if nodes is None else max(nodes - 1, 1) if launches else nodes
    else:
        mine, count = labels.get(_STEP) == "trainer", nodes
    if mine and count is not None:
        inner |= {"completionMode": "Indexed", "parallelism": count, "completions": count}
    asked = (mapping(job, job, "spec").get("trainer") or {}).get("resourcesPerNode")
    torch = (spec.get("mlPolicy") or {}).get("torch") is not None
    for container in _containers(inner):
        takes = container.get("name") == _NODE or (container.get("name") == _LAUNCHER and launches)
        if takes and asked:
            container["resources"] = copy.deepcopy(asked)
        if takes and torch and count is not None:
            env = [item for item in container.get("env") or () if item.get("name") != "PET_NNODES"]
            container["env"] = [*env, {"name": "PET_NNODES", "value": str(count)}]


def _containers(inner: Json) -> Iterator[Json]:
    pod = (inner.get("template") or {}).get("spec") or {}
    yield from (item for item in pod.get("containers") or () if isinstance(item, dict))


def _patched(job: Json, spec: Json) -> Json:
    """The runtime's spec with the TrainJob's patches, in the form of either version of its API."""
    stated = mapping(job, job, "spec")
    for patch in stated.get("runtimePatches") or ():
        spec = laid_over(spec, patch.get("trainingRuntimeSpec") or {})
    parts = (((spec.get("template") or {}).get("spec")) or {}).get("replicatedJobs") or ()
    for override in stated.get("podTemplateOverrides") or ():
        targets = {item.get("name") for item in override.get("targetJobs") or ()}
        for part in parts:
            if part.get("name") in targets:
                inner = mapping(job, mapping(job, part, "template"), "spec")
                more = {key: override[key] for key in ("metadata", "spec") if key in override}
                inner["template"] = laid_over(inner.get("template") or {}, more)
    return spec


def laid_over(under: Any, over: Any) -> Any:
    """``over`` wins; objects are merged, lists too, where their entries have names."""
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: laid_over(under.get(key), value) for key, value in over.items()}}
    if isinstance(under, list) and isinstance(over, list):
        return _joined(under, over)
    return copy.deepcopy(over)


def _joined(under: list[Any], over: list[Any]) -> list[Any]:
    names = [item.get("name") if isinstance(item, dict) else None for item in over]
    kept = [
        laid_over(item, over[names.index(item["name"])])
        if isinstance(item, dict) and item.get("name") in names and item.get("name") is not None
        else item
        for item in under
    ]
    known = {item.get("name") for item in under if isinstance(item, dict)} - {None}
    return kept + [
        copy.deepcopy(item) for item, name in zip(over, names, strict=True) if name not in known
    ]
