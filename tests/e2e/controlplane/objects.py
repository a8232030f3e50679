"""Builds API objects for tests, as plain JSON."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .client import Client, Object, wait_until

GPU = "nvidia.com/gpu"
BLOCK = "topo.example/block"
RACK = "topo.example/rack"
RUN_SECONDS = "muster.test/run-seconds"
"""Pod annotation: the fake kubelet ends the pod after so many seconds; without it never."""
EXIT_CODE = "muster.test/exit-code"
"""Pod annotation: how it ends then; 0 if missing."""

_MADE_BY_TESTS = {"muster.test/made-by": "e2e"}

_VOLUME = "muster.test/volume"
"""Label of a volume: its name, for claims on that one alone."""


def node(
    name: str,
    *,
    gpus: int = 8,
    cpu: str = "128",
    memory: str = "1Ti",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    unschedulable: bool = False,
    ready: bool = True,
    resources: Mapping[str, str] | None = None,
) -> Object:
    """A node without a kubelet; `create_nodes` makes the API server take it as Ready.

    Parameters
    ----------
    resources
        Further allocatable quantities, for example `{"example.com/nic": "8"}`.
    """
    room = {"cpu": cpu, "memory": memory, "pods": str(pods), **(resources or {})}
    if gpus:
        room[GPU] = str(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **_MADE_BY_TESTS, **(labels or {})},
        },
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": [_ready_condition(ready)],
        },
    }


def fleet(blocks: int = 2, racks: int = 2, nodes: int = 8, **settings: Any) -> list[Object]:
    """Nodes in `blocks` blocks of `racks` racks of `nodes` nodes: 32 by default.

    They are named `b0-r0-n0` and so on; the racks' label values are unique (`b0-r0`).
    """
    return [
        node(
            f"b{block}-r{rack}-n{index}",
            labels={BLOCK: f"b{block}", RACK: f"b{block}-r{rack}"},
            **settings,
        )
        for block, rack, index in itertools.product(range(blocks), range(racks), range(nodes))
    ]


def create_nodes(client: Client, nodes: Iterable[Object]) -> Sequence[Object]:
    """Create nodes over several connections, Ready and with no taints but their own."""
    return client.at_once(lambda body: _create_node(client, body), nodes)


def set_ready(client: Client, name: str, ready: bool) -> Object:
    """Set a node's Ready condition, as its kubelet (or the loss of it) would."""
    status = {"status": {"conditions": [_ready_condition(ready)]}}
    return client.patch("Node", name, status, subresource="status", how="strategic")


def _create_node(client: Client, body: Object) -> Object:
    # Nodes may be created with their status: so do kubelets that register themselves.
    client.create(body)
    name = body["metadata"]["name"]
    # Admission marks every new node as not ready; the node lifecycle controller, which would take
    # that away again, does not run.
    return client.patch("Node", name, {"spec": {"taints": body["spec"]["taints"]}})


def _ready_condition(ready: bool) -> Object:
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "set by a test",
    }


def namespace(name: str, labels: Mapping[str, str] | None = None) -> Object:
    """A namespace."""
    metadata = {"name": name, "labels": {**_MADE_BY_TESTS, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def create_namespace(client: Client, name: str, labels: Mapping[str, str] | None = None) -> Object:
    """Create a namespace and wait until pods can be created in it."""
    made = client.create(namespace(name, labels))
    # Admission refuses pods until the default service account exists.
    wait_until(
        lambda: client.find("ServiceAccount", "default", name),
        what=f"the default service account of {name}",
    )
    return made


def pod_spec(
    *,
    gpus: int = 0,
    cpu: str = "1",
    memory: str = "1Gi",
    scheduler: str = "default-scheduler",
    **fields: Any,
) -> Object:
    """The spec of a pod with one container; `fields` are further fields of the spec."""
    requests = {"cpu": cpu, "memory": memory}
    # Extended resources must be limited to what they request.
    limits = {GPU: str(gpus)} if gpus else {}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": requests | limits, "limits": limits},
    }
    return {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "containers": [container],
        **fields,
    }


def pod(
    name: str,
    namespace: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    run_seconds: float | None = None,
    **spec: Any,
) -> Object:
    """A pod; `spec` goes to `pod_spec`. With `run_seconds` the fake kubelet ends it."""
    metadata = _pod_metadata(labels, annotations, run_seconds)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": pod_spec(**spec),
    }


def indexed_job(
    name: str,
    namespace: str,
    completions: int,
    *,
    parallelism: int | None = None,
    backoff_limit: int = 6,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    run_seconds: float | None = None,
    **spec: Any,
) -> Object:
    """An Indexed Job; labels and annotations go to its pods, `spec` goes to `pod_spec`."""
    template = {
        "metadata": _pod_metadata(labels, annotations, run_seconds),
        "spec": pod_spec(**spec),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": completions if parallelism is None else parallelism,
            "backoffLimit": backoff_limit,
            "template": template,
        },
    }


def priority_class(name: str, value: int, *, preempts: bool = True) -> Object:
    """A priority class."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": dict(_MADE_BY_TESTS)},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
    }


def storage_class(name: str) -> Object:
    """A class whose volumes are bound only when a pod that uses them is placed."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": dict(_MADE_BY_TESTS)},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def volume_claim(
    name: str, namespace: str, storage_class: str, size: str = "1Gi", volume: str = ""
) -> Object:
    """A claim on a volume of that class; with ``volume``, on the one of that name alone."""
    selector = {"selector": {"matchLabels": {_VOLUME: volume}}} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
            **selector,
        },
    }


def local_volume(name: str, storage_class: str, node: str, size: str = "1Gi") -> Object:
    """A volume that can be used on one node only."""
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {**_MADE_BY_TESTS, _VOLUME: name}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/volumes/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def volume_of_claim(claim: str) -> Object:
    """An entry for a pod's `volumes`."""
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _pod_metadata(
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    run_seconds: float | None,
) -> Object:
    noted = dict(annotations or {})
    if run_seconds is not None:
        noted[RUN_SECONDS] = f"{run_seconds:g}"
    return {"labels": dict(labels or {}), "annotations": noted}
