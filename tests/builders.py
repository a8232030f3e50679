"""Builders of API objects as the API server would hand them out, for all unit tests.

    node("n1", gpu=8, rack="r1", block="b1")
    pod("t/A-0", gpu=4, gang="A", min=3)
    pod_group("t/A", min=3)

Every call returns new dicts: change them freely. Levels are labelled ``topo/block`` and
``topo/rack``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

GPU = "nvidia.com/gpu"
OURS = "muster.scheduler/"
CREATED = "2026-01-05T08:00:00Z"

Json = dict[str, Any]


def node(
    name: str,
    *,
    gpu: int | str | None = None,
    block: str | None = None,
    rack: str | None = None,
    cpu: str = "128",
    memory: str = "1Ti",
    pods: str = "110",
    ready: bool | None = True,
    unschedulable: bool = False,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Json | str] = (),
    allocatable: Mapping[str, Any] | None = None,
) -> Json:
    """A node; ``taints`` as objects or as text such as ``key=value:NoSchedule``."""
    levels = {"topo/block": block, "topo/rack": rack}
    amounts: Json = {"cpu": cpu, "memory": memory, "ephemeral-storage": "2Ti", "pods": pods}
    if gpu is not None:
        amounts[GPU] = str(gpu)
    amounts.update(allocatable or {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": CREATED,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                **{key: value for key, value in levels.items() if value is not None},
                **(labels or {}),
            },
            "annotations": dict(annotations or {}),
        },
        "spec": {
            **({"unschedulable": True} if unschedulable else {}),
            "taints": [_taint(item) if isinstance(item, str) else item for item in taints],
        },
        "status": {
            "capacity": dict(amounts),
            "allocatable": amounts,
            "conditions": [] if ready is None else [_condition("Ready", ready)],
        },
    }


def pod(
    key: str,
    *,
    gpu: int | str | None = None,
    cpu: str | None = "1",
    memory: str | None = "1Gi",
    gang: str | None = None,
    min: int | str | None = None,
    size: int | str | None = None,
    role: str | None = None,
    index: int | str | None = None,
    options: Mapping[str, str] | None = None,
    scheduler: str = "muster",
    node: str | None = None,
    phase: str = "Pending",
    uid: str | None = None,
    priority: int = 0,
    created: str = CREATED,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, Any] | None = None,
    gates: Iterable[str] = (),
    owner: tuple[str, str, str] | None = None,
    deleting: bool = False,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Json:
    """A pod with one container; ``key`` is ``namespace/name``.

    ``options`` are our own keys without their prefix; ``owner`` is (kind, name, uid) of the
    controller; ``spec`` and ``status`` replace whole fields.
    """
    namespace, _, name = key.rpartition("/")
    ours = {"gang": gang, "min-available": min, "size": size, "role": role, "index": index}
    ours.update(options or {})
    stated = {OURS + key: str(value) for key, value in ours.items() if value is not None}
    metadata: Json = {
        "name": name,
        "namespace": namespace or "default",
        "uid": uid or f"{namespace or 'default'}/{name}",
        "resourceVersion": "1",
        "creationTimestamp": created,
        "labels": dict(labels or {}),
        "annotations": {**stated, **(annotations or {})},
    }
    if owner is not None:
        metadata["ownerReferences"] = [_controller(*owner)]
    if deleting:
        metadata["deletionTimestamp"] = created
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "schedulerName": scheduler,
            "priority": priority,
            "restartPolicy": "Never",
            "tolerations": [_default_toleration("not-ready"), _default_toleration("unreachable")],
            "containers": [_container(cpu, memory, gpu, requests or {})],
            **({"nodeName": node} if node else {}),
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
            **(spec or {}),
        },
        "status": {"phase": phase, **(status or {})},
    }


def apart(app: str, key: str = "kubernetes.io/hostname") -> Json:
    """The spec of a pod that keeps off all pods of an app, in the domains of a label."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": rule}}


def pod_group(
    key: str,
    *,
    min: int | None = None,
    kind: str = "native",
    topology: str | None = None,
    timeout: int | None = None,
    annotations: Mapping[str, str] | None = None,
    uid: str | None = None,
) -> Json:
    """A PodGroup; ``kind`` is "native", "basic" (a native one that is no gang), "coscheduling" or
    "sigs" (the older coscheduling one)."""
    namespace, _, name = key.rpartition("/")
    versions = {
        "coscheduling": "scheduling.x-k8s.io/v1alpha1",
        "sigs": "scheduling.sigs.k8s.io/v1alpha1",
    }
    native = kind not in versions
    return {
        "apiVersion": versions.get(kind, "scheduling.k8s.io/v1beta1"),
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": namespace or "default",
            "uid": uid or f"uid-group-{name}",
            "resourceVersion": "1",
            "annotations": dict(annotations or {}),
        },
        "spec": _native_spec(min, kind, topology) if native else _sigs_spec(min, timeout),
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Json:
    """A taint of a node."""
    return {"key": key, "value": value, "effect": effect}


def in_group(name: str, *, kind: str = "native") -> Json:
    """What makes a pod a member of a PodGroup: ``pod(…, **in_group("A"))``."""
    if kind == "native":
        return {"spec": {"schedulingGroup": {"podGroupName": name}}}
    label = {
        "coscheduling": "scheduling.x-k8s.io/pod-group",
        "sigs": "pod-group.scheduling.sigs.k8s.io",
    }[kind]
    return {"labels": {label: name}}


def _native_spec(least: int | None, kind: str, topology: str | None) -> Json:
    policy: Json = {"basic": {}} if kind == "basic" else {"gang": {"minCount": least}}
    if topology is None:
        return {"schedulingPolicy": policy}
    return {"schedulingPolicy": policy, "schedulingConstraints": {"topology": [{"key": topology}]}}


def _sigs_spec(least: int | None, timeout: int | None) -> Json:
    fields = {"minMember": least, "scheduleTimeoutSeconds": timeout}
    return {key: value for key, value in fields.items() if value is not None}


def _container(cpu: str | None, memory: str | None, gpu: object, more: Mapping[str, Any]) -> Json:
    stated = {"cpu": cpu, "memory": memory, GPU: None if gpu is None else str(gpu)}
    requests = {key: value for key, value in stated.items() if value is not None} | dict(more)
    limits = {key: value for key, value in requests.items() if "/" in key}
    return {
        "name": "main",
        "image": "example.org/train:1",
        "resources": {"requests": requests, "limits": limits},
    }


def _taint(text: str) -> Json:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return taint(key, value, effect)


def _condition(kind: str, status: bool) -> Json:
    return {"type": kind, "status": "True" if status else "False"}


_VERSIONS = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    **{f"{name}Job": "kubeflow.org/v1" for name in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX")},
    "MPIJob": "kubeflow.org/v2beta1",
}


def _controller(kind: str, name: str, uid: str) -> Json:
    version = _VERSIONS.get(kind, "v1")
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _default_toleration(what: str) -> Json:
    """What the API server adds to every pod."""
    return {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
