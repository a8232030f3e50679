"""Kubernetes' own Job: a gang only where it is one by Kubernetes' own rule.

An Indexed Job with a parallelism above one whose completions equal it runs all its pods at once.
Any other Job is a queue of work whose pods start one by one.
"""

from __future__ import annotations

from scheduler.dialects import environment, jobset, templates, values
from scheduler.dialects.fields import Fault, Json, mapping
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.volcano import MIN_MEMBER
from scheduler.model import NO_OPTIONS, Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "job"
KIND = "Job.batch"
KINDS: tuple[str, ...] = ()
OWNERS = (KIND,)

_JOB = "batch.kubernetes.io/job-name"


def read_pod(source: PodSource) -> Found:
    """The Job, with its size from the environment, else from the Job itself."""
    stated = source.value(_JOB)
    if stated is None:
        return None
    name = values.name(stated)
    if isinstance(name, Fault):
        return Fault(f"{_JOB}: {name.reason}")
    found = environment.nodes(source.spec)
    if isinstance(found, Fault):
        return found
    if found is None:
        return Declaration(name, NAME, NO_OPTIONS, GroupKey(KIND, source.namespace, name), KIND)
    if found.size == 1:
        return None
    options = Options(min_available=found.least, size=found.size)
    return Declaration(name, NAME, options, kind=KIND)


def read_group(obj: Json) -> GroupTerms:
    """Its parallelism, if it is a gang."""
    spec, meta = mapping(obj.get("spec")), mapping(obj.get("metadata"))
    annotations = mapping(meta.get("annotations"))
    if (stated := annotations.get(MIN_MEMBER)) is not None:
        least = values.count(stated)
        if isinstance(least, Fault):
            return GroupTerms(fault=f"{MIN_MEMBER}: {least.reason}")
        return GroupTerms(Options(min_available=least))
    pods = templates.job_pods(spec, "spec.")
    if isinstance(pods, Fault):
        return GroupTerms(fault=pods.reason)
    if jobset.is_exclusive(annotations):
        return GroupTerms(Options(min_available=pods or None, size=pods or None))
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and pods > 1 and spec.get("parallelism") == spec.get("completions"):
        return GroupTerms(Options(min_available=pods, size=pods))
    return GroupTerms(gang=False)
