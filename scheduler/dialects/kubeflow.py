"""Kubeflow's jobs of version 1 (PyTorchJob, MPIJob, TFJob, …) and the mpi-operator's MPIJob.

All pods of a job are one gang. The PodGroup that the operators make for a job says the same, except
for MPI: there it counts a launcher that may not be made before the workers run.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.dialects import environment, templates, values
from scheduler.dialects.fields import EMPTY, Fault, Json, mapping, text
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import read_table, read_values, replicas
from scheduler.dialects.templates import Part, asks_devices
from scheduler.model import NO_OPTIONS, Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "made_group", "read_group", "read_pod"]

NAME = "kubeflow"
KINDS: tuple[str, ...] = ()

_BY_OPERATOR = {
    "pytorchjob-controller": "PyTorchJob.kubeflow.org",
    "tfjob-controller": "TFJob.kubeflow.org",
    "mpijob-controller": "MPIJob.kubeflow.org",
    "mpi-operator": "MPIJob.kubeflow.org",
    "xgboostjob-controller": "XGBoostJob.kubeflow.org",
    "paddlejob-controller": "PaddleJob.kubeflow.org",
    "jaxjob-controller": "JAXJob.kubeflow.org",
}
_MPI = _BY_OPERATOR["mpi-operator"]
OWNERS = tuple(dict.fromkeys(_BY_OPERATOR.values()))
_ANY = "Job.kubeflow.org"
"""The kind of a job whose operator is not known."""

_JOB = "training.kubeflow.org/job-name"
_OPERATOR = "training.kubeflow.org/operator-name"
_ROLES = ("training.kubeflow.org/job-role", "training.kubeflow.org/replica-type")
_POLICY = "spec.runPolicy.schedulingPolicy."


def read_pod(source: PodSource) -> Found:
    """The job, with its size from the environment, else from the job itself."""
    stated = source.value(_JOB)
    if stated is None:
        return None
    name = values.name(stated)
    if isinstance(name, Fault):
        return Fault(f"{_JOB}: {name.reason}")
    found = environment.nodes(source.spec)
    if isinstance(found, Fault):
        return found
    kind = _kind(source)
    if found is not None:
        options = Options(min_available=found.least, size=found.size)
        return Declaration(name, NAME, options, kind=kind or _ANY)
    group = GroupKey(kind, source.namespace, name) if kind else None
    return Declaration(name, NAME, NO_OPTIONS, group, kind or _ANY)


def _kind(source: PodSource) -> str | None:
    """The kind of the job: by the operator's label, else by the pod's controller.

    All pods of a job must come to the same, or they would be two gangs. The launcher of an MPIJob
    is made by a Job of its own.
    """
    named = _BY_OPERATOR.get(text(source.value(_OPERATOR)))
    if named is not None or source.controller in OWNERS:
        return named or source.controller
    launches = any(source.value(key) == "launcher" for key in _ROLES)
    return _MPI if launches and source.controller == "Job.batch" else None


def made_group(source: PodSource, group: str) -> bool:
    """Whether a PodGroup of this name is the one that the mpi-operator made for the pod's job."""
    operator = source.value(_OPERATOR)
    made = operator == "mpi-operator" or (operator is None and _kind(source) == _MPI)
    return made and group == source.value(_JOB)


def read_group(obj: Json) -> GroupTerms:
    """The stated minimum, else all replicas; of an elastic PyTorchJob its smallest number."""
    spec = mapping(obj.get("spec"))
    policy = mapping(mapping(spec.get("runPolicy")).get("schedulingPolicy"))
    stated = read_table(policy, {"minAvailable": ("min_available", values.count)}, _POLICY)
    parts = _parts(spec)
    if isinstance(parts, Fault) or isinstance(stated, Fault):
        fault = parts if isinstance(parts, Fault) else stated
        return GroupTerms(fault=fault.reason)  # type: ignore[union-attr]
    found = templates.options(parts)
    if found is None:
        return GroupTerms(fault="spec: has no replicas")
    return GroupTerms(_at_least(found, stated.min_available, _is_late(spec)))


def _is_late(spec: Json) -> bool:
    """Whether an MPIJob's launcher is made only when its workers are ready."""
    return spec.get("launcherCreationPolicy") == "WaitForWorkersReady"


def _at_least(found: Options, stated: int | None, late: bool) -> Options:
    if stated is None:
        return found
    # The minimum of an MPIJob counts the launcher, which is not waited for where it comes later.
    least = min(stated, found.min_available or stated) if late else stated
    return replace(found, min_available=least, size=None)


def _parts(spec: Json) -> list[Part] | Fault:
    parts: list[Part] = []
    for field in sorted(str(field) for field in spec if str(field).endswith("ReplicaSpecs")):
        for kind, stated in sorted(mapping(spec[field]).items()):
            part = _part(spec, kind, mapping(stated), f"spec.{field}.{kind}.")
            if isinstance(part, Fault):
                return part
            parts.append(part)
    return parts


def _part(spec: Json, kind: str, stated: Json, path: str) -> Part | Fault:
    found = read_values(stated, {"replicas": replicas()}, path)
    if isinstance(found, Fault):
        return found
    size = found["replicas"]
    elastic = mapping(spec.get("elasticPolicy")) if kind == "Worker" else EMPTY
    least = read_values(elastic, {"minReplicas": replicas(size)}, "spec.elasticPolicy.")
    if isinstance(least, Fault):
        return least
    later = kind == "Launcher" and _is_late(spec)
    return Part(min(least["minReplicas"], size), size, later, asks_devices(stated.get("template")))
