"""The role of a pod, by the label of its controller, whichever dialect names the gang."""

from __future__ import annotations

from scheduler.dialects.fields import is_label_value, text
from scheduler.dialects.source import PodSource

__all__ = ["role_of"]

_KEYS = (
    "volcano.sh/task-spec",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "kai.scheduler/subgroup-name",
    "yunikorn.apache.org/task-group-name",
    "kueue.x-k8s.io/podset",
)
_LWS_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
_RAY_TYPE = "ray.io/node-type"
_RAY_GROUP = "ray.io/group"


def role_of(source: PodSource) -> str:
    """The role, "" if none is stated. Ranks are counted role by role, leaders first."""
    if (index := source.value(_LWS_INDEX)) is not None:
        return "leader" if index == "0" else "worker"
    if (kind := source.value(_RAY_TYPE)) is not None:
        return "head" if kind == "head" else _name(source.value(_RAY_GROUP)) or "worker"
    for key in _KEYS:
        value = source.value(key)
        if value is not None and (role := _name(value)):
            return role
    return ""


def _name(value: object) -> str:
    return text(value) if is_label_value(text(value)) else ""
