"""JobSet, and the TrainJobs of Kubeflow Trainer, which are JobSets.

All replicated jobs of a JobSet are one gang: they run at the same time. Two exceptions: the
initializers of a TrainJob end before its trainers are made, so that each is a gang of its own; and
with an exclusive topology each Job is one, in a domain of its own, admitted with its siblings.
"""

from __future__ import annotations

from functools import lru_cache

from scheduler.dialects import environment, templates, values
from scheduler.dialects.fields import Fault, Json, mapping, sequence
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import read_values, replicas
from scheduler.dialects.templates import Part
from scheduler.model import NO_OPTIONS, Declaration, GroupKey, Options

__all__ = [
    "EXCLUSIVE",
    "KINDS",
    "NAME",
    "OWNERS",
    "is_exclusive",
    "made_group",
    "read_group",
    "read_pod",
]

NAME = "jobset"
KIND = "JobSet.jobset.x-k8s.io"
KINDS: tuple[str, ...] = ()
OWNERS = (KIND,)

_JOBS = "Job.batch"
_INITIALIZER = "ReplicatedJob.jobset.x-k8s.io"

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"

_SET = "jobset.sigs.k8s.io/jobset-name"
_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"
_JOB = "jobset.sigs.k8s.io/job-index"
_SELECTED = "alpha.jobset.sigs.k8s.io/node-selector"
"""With it, nodes are chosen by labels set before, and no follower waits for its leader."""

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_INITIALIZERS = ("dataset-initializer", "model-initializer")
_TRAINERS = ("node", "launcher")
_MOST_SIBLINGS = 64
"""More Jobs than that are not admitted together: to plan them side by side would take too long."""


def read_pod(source: PodSource) -> Found:
    """The gang of the pod: its JobSet's, its own Job's, or its initializer's."""
    stated = source.value(_SET)
    if stated is None:
        return None
    name = values.name(stated)
    if isinstance(name, Fault):
        return Fault(f"{_SET}: {name.reason}")
    role = source.value(_ROLE)
    if role in _INITIALIZERS:
        return Declaration(f"{name}-{role}", NAME, kind=_INITIALIZER)
    if is_exclusive(source.annotations):
        return _exclusive(source, name)
    return _whole(source, name)


def made_group(source: PodSource, group: str) -> bool:
    """Whether a PodGroup of this name is one that Kubeflow Trainer made for the pod's TrainJob.

    Its minimum counts the initializers too, which are gone before the first trainer exists.
    """
    role = source.value(_ROLE)
    return group == source.value(_SET) and role in (*_INITIALIZERS, *_TRAINERS)


def is_exclusive(annotations: Json) -> bool:
    """Whether followers are refused until their Job's leader is placed."""
    return annotations.get(EXCLUSIVE) is not None and annotations.get(_SELECTED) is None


def _whole(source: PodSource, name: str) -> Declaration | Fault:
    found = environment.nodes(source.spec)
    if isinstance(found, Fault):
        return found
    options = NO_OPTIONS if found is None else Options(min_available=found.least, size=found.size)
    if found is not None and source.value(_ROLE) in _TRAINERS:
        return Declaration(name, NAME, options, kind=KIND)
    return Declaration(name, NAME, options, GroupKey(KIND, source.namespace, name), KIND)


# ── exclusive topology ──


def _exclusive(source: PodSource, name: str) -> Declaration | Fault:
    found = read_values({key: source.value(key) for key in _OWN_JOB}, _OWN_JOB)
    if isinstance(found, Fault):
        return found
    prefix = f"{name}-{found[_ROLE]}"
    partners = _siblings(source.namespace, prefix, found[_REPLICAS])
    options = Options(required=found[EXCLUSIVE], first=1, partners=partners)
    gang = f"{prefix}-{found[_JOB]}"
    return Declaration(gang, NAME, options, GroupKey(_JOBS, source.namespace, gang), _JOBS)


@lru_cache(maxsize=1024)  # all pods of a JobSet have the same
def _siblings(namespace: str, prefix: str, count: int) -> tuple[tuple[str, str], ...]:
    if not 1 < count <= _MOST_SIBLINGS:
        return ()
    return tuple((namespace, f"{prefix}-{job}") for job in range(count))


_OWN_JOB = {
    EXCLUSIVE: values.level,
    _JOB: values.index,
    _REPLICAS: values.count,
    _ROLE: values.name,
}


# ── the object ──


def read_group(obj: Json) -> GroupTerms:
    """All pods that run at the same time, and how many of them are made at first."""
    if is_exclusive(mapping(mapping(obj.get("metadata")).get("annotations"))):
        return GroupTerms(gang=False)
    parts = _parts(mapping(obj.get("spec")))
    if isinstance(parts, Fault):
        return GroupTerms(fault=parts.reason)
    options = templates.options(parts)
    if options is None:
        return GroupTerms(fault="spec.replicatedJobs: have no pods")
    return GroupTerms(options)


def _parts(spec: Json) -> list[Part] | Fault:
    in_order = mapping(spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder"
    parts: list[Part] = []
    for at, job in enumerate(map(mapping, sequence(spec.get("replicatedJobs")))):
        if _is_apart(job):
            continue
        part = _part(job, f"spec.replicatedJobs[{at}].")
        if isinstance(part, Fault):
            return part
        waits = in_order and any(one.size for one in parts)
        parts.append(part._replace(later=waits or _depends(job)))
    return parts


def _is_apart(job: Json) -> bool:
    """Whether the pods of a replicated job are no members of the JobSet's gang."""
    meta = mapping(mapping(job.get("template")).get("metadata"))
    step = mapping(meta.get("labels")).get(_STEP)
    if job.get("name") in _INITIALIZERS or step in _INITIALIZERS:
        return True
    return is_exclusive(mapping(meta.get("annotations")))


def _depends(job: Json) -> bool:
    awaited = map(mapping, sequence(job.get("dependsOn")))
    return any(one.get("name") not in _INITIALIZERS for one in awaited)


def _part(job: Json, path: str) -> Part | Fault:
    found = read_values(job, {"replicas": replicas(), "template": _pods}, path)
    if isinstance(found, Fault):
        return found
    part: Part = found["template"]
    return part._replace(least=part.least * found["replicas"], size=part.size * found["replicas"])


def _pods(template: object) -> Part | Fault:
    """The pods of one Job."""
    spec = mapping(mapping(template).get("spec"))
    size = templates.job_pods(spec, "spec.")
    stated = environment.nodes(mapping(mapping(spec.get("template")).get("spec")))
    if isinstance(size, Fault) or isinstance(stated, Fault):
        return size if isinstance(size, Fault) else stated  # type: ignore[return-value]
    elastic = stated is not None and stated.size is None
    least = min(size, stated.least) if stated is not None and elastic else size
    return Part(least, size, devices=templates.asks_devices(spec.get("template")))
