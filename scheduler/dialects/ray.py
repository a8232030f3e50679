"""KubeRay: a RayCluster is one gang, of a head and its worker groups.

Head and workers are made together, the workers wait for the head inside. With the autoscaler a
worker group may grow and shrink, and only its smallest number must be there.
"""

from __future__ import annotations

from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import read_values, replicas
from scheduler.model import NO_OPTIONS, Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "kuberay"
KIND = "RayCluster.ray.io"
KINDS: tuple[str, ...] = ()
OWNERS = (KIND,)

_CLUSTER = "ray.io/cluster"
_NODE_TYPE = "ray.io/node-type"


def read_pod(source: PodSource) -> Found:
    """The cluster that the pod is a node of."""
    stated = source.value(_CLUSTER)
    if stated is None or source.value(_NODE_TYPE) not in ("head", "worker"):
        return None
    name = values.name(stated)
    if isinstance(name, Fault):
        return Fault(f"{_CLUSTER}: {name.reason}")
    return Declaration(name, NAME, NO_OPTIONS, GroupKey(KIND, source.namespace, name), KIND)


def read_group(obj: Json) -> GroupTerms:
    """The head and what each worker group must have at least."""
    spec = mapping(obj.get("spec"))
    scales = spec.get("enableInTreeAutoscaling") is True
    total = 1
    for at, group in enumerate(map(mapping, sequence(spec.get("workerGroupSpecs")))):
        number = _workers(group, f"spec.workerGroupSpecs[{at}].", scales)
        if isinstance(number, Fault):
            return GroupTerms(fault=number.reason)
        total += number
    return GroupTerms(Options(min_available=total, size=None if scales else total))


def _workers(group: Json, path: str, scales: bool) -> int | Fault:
    found = read_values(group, _GROUP, path)
    if isinstance(found, Fault):
        return found
    least, most, hosts = found["minReplicas"], found["maxReplicas"], found["numOfHosts"]
    wanted = least if scales or found["replicas"] < 0 else found["replicas"]
    pods: int = max(least, min(wanted, most)) * hosts
    return 0 if group.get("suspend") is True else pods


_GROUP = {
    "replicas": replicas(-1),
    "minReplicas": replicas(0),
    "maxReplicas": replicas(values.LARGEST_COUNT),
    "numOfHosts": replicas(),
}
