"""Kubernetes' own gangs: ``spec.schedulingGroup`` and the PodGroup of ``scheduling.k8s.io``."""

from __future__ import annotations

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, is_label_value, is_object_name, mapping, sequence
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.model import Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "native"
KIND = "PodGroup.scheduling.k8s.io"
KINDS = (KIND,)
"""``Kind.group`` of the objects that :func:`read_group` reads, of any version."""
OWNERS: tuple[str, ...] = ()

_FIELD = "spec.schedulingGroup.podGroupName"


def read_pod(source: PodSource) -> Found:
    """The PodGroup that the pod names: a gang's name, or an object's of up to 253 characters."""
    group = source.spec.get("schedulingGroup")
    if group is None:
        return _of_1_35(source)
    name = mapping(group).get("podGroupName")
    if not isinstance(name, str) or not (is_label_value(name) or is_object_name(name)):
        return Fault(f"{_FIELD}: {quoted(name)} is not the name of an object")
    return Declaration(name, NAME, group=GroupKey(KIND, source.namespace, name), kind=KIND)


def _of_1_35(source: PodSource) -> Fault | None:
    """A reference that Kubernetes has dropped since: better held than started in part."""
    if source.spec.get("workloadRef") is None:
        return None
    return Fault(
        "spec.workloadRef: the Workload of Kubernetes 1.35 is not read; name the gang with"
        " muster.scheduler/gang and muster.scheduler/min-available"
    )


def read_group(obj: Json) -> GroupTerms:
    """Policy and topology constraint of v1alpha2, v1alpha3 and v1beta1 alike."""
    spec = mapping(obj.get("spec"))
    policy = mapping(spec.get("schedulingPolicy"))
    required = _topology(mapping(spec.get("schedulingConstraints")))
    if isinstance(required, Fault):
        return GroupTerms(fault=required.reason)
    gang = policy.get("gang")
    if gang is not None:
        return _gang(gang, required)
    if policy.get("basic") is not None:
        return GroupTerms(Options(required=required), gang=False)
    return GroupTerms(fault="spec.schedulingPolicy: has neither gang nor basic")


def _gang(policy: object, required: str) -> GroupTerms:
    least = values.count(mapping(policy).get("minCount"))
    if isinstance(least, Fault):
        return GroupTerms(fault=f"spec.schedulingPolicy.gang.minCount: {least.reason}")
    return GroupTerms(Options(min_available=least, required=required))


def _topology(constraints: Json) -> str | Fault:
    topology = sequence(constraints.get("topology"))
    if not topology:
        return ""
    key = values.level(mapping(topology[0]).get("key"))
    if isinstance(key, Fault):
        return Fault(f"spec.schedulingConstraints.topology[0].key: {key.reason}")
    return key
