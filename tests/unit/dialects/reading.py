"""What the tests of all dialects ask: a pod's declaration, an object's terms."""

from __future__ import annotations

from typing import Any

from scheduler import decode
from scheduler.model import NO_OPTIONS, Declaration, Group, GroupKey, Options, Pod

Json = dict[str, Any]

KINDS = {
    "muster": "",
    "native": "PodGroup.scheduling.k8s.io",
    "coscheduling": "PodGroup.scheduling.x-k8s.io",
    "koordinator": "PodGroup.scheduling.x-k8s.io",
    "kueue": "Workload.kueue.x-k8s.io",
    "kai": "PodGroup.scheduling.run.ai",
    "yunikorn": "Application.yunikorn.apache.org",
    "hived": "AffinityGroup.hivedscheduler.microsoft.com",
    "leaderworkerset": "LeaderWorkerSet.leaderworkerset.x-k8s.io",
    "kubeflow": "PyTorchJob.kubeflow.org",
    "jobset": "JobSet.jobset.x-k8s.io",
    "kuberay": "RayCluster.ray.io",
    "job": "Job.batch",
}
"""Dialect -> the kind whose names it uses; Volcano's is that of the object."""


def stated_gang(
    name: str,
    dialect: str,
    options: Options = NO_OPTIONS,
    group: GroupKey | None = None,
    kind: str = "",
) -> Declaration:
    """A declaration of the dialect's own kind; with ``group``, where it is one that is read."""
    by_group = group is not None and dialect in ("volcano", "kubeflow")
    known = group.kind if group is not None and by_group else KINDS[dialect]
    return Declaration(name, dialect, options, group, kind or known)


def read(pod: Json) -> Pod:
    """The pod, whatever it declares."""
    return decode.pod(pod)


def declared(pod: Json) -> Declaration:
    """The declaration of a pod without faults."""
    found = decode.pod(pod)
    assert found.fault == ""
    assert found.declaration is not None
    return found.declaration


def fault(pod: Json) -> str:
    """Why a pod is faulty; it must be."""
    found = decode.pod(pod)
    assert found.fault, found.declaration
    return found.fault


def group(obj: Json) -> Group:
    """A group object as a value."""
    found = decode.group(obj)
    assert found is not None
    return found


def terms(obj: Json) -> Options:
    """What a group object without faults says."""
    found = group(obj)
    assert found.fault == ""
    assert found.gang
    return found.options


def labelled(pod: Json, keys: Json) -> Json:
    """The pod with labels added; ``None`` takes one away."""
    return _changed(pod, "labels", keys)


def annotated(pod: Json, keys: Json) -> Json:
    """The pod with annotations added, by their whole keys."""
    return _changed(pod, "annotations", keys)


def _changed(pod: Json, field: str, keys: Json) -> Json:
    before = pod["metadata"][field]
    after = {key: value for key, value in {**before, **keys}.items() if value is not None}
    return pod | {"metadata": pod["metadata"] | {field: after}}
