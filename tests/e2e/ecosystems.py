"""Gangs as the controllers of other projects make them: eight members of eight GPUs each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.controlplane.client import Object
from tests.e2e.controlplane.objects import pod
from tests.e2e.controlplane.versions import kubernetes_minor

MEMBERS = 8

GANG_CYCLES = "GenericWorkload=true"
NATIVE_VERSION = {36: "v1alpha2"}.get(kubernetes_minor(), "v1beta1")
"""Of Kubernetes' own PodGroup, which came with 1.36."""
HAS_NATIVE = kubernetes_minor() >= 36
NATIVE_API = (
    f"--feature-gates={GANG_CYCLES}",
    f"--runtime-config=scheduling.k8s.io/{NATIVE_VERSION}=true",
)
"""Flags of an API server that serves it: it is off by default, also in Kubernetes 1.37."""


@dataclass(frozen=True)
class Declared:
    """What a controller has created for one job."""

    pods: Sequence[Object]
    """In the order of ranks: leading roles first."""
    objects: Sequence[Object] = ()
    """What the pods refer to."""


def definition(
    kind: str, group: str, version: str, *, plural: str = "", scope: str = "Namespaced"
) -> Object:
    """A custom resource that keeps whatever is in its spec, and has its status apart."""
    plural = plural or f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    served = {"name": version, "served": True, "storage": True, "subresources": {"status": {}}}
    name = f"{plural}.{group}"
    # Groups below k8s.io belong to the project, which has to have approved their definitions.
    approved = {"api-approved.kubernetes.io": "unapproved, for tests only"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": approved if group.endswith("k8s.io") else {}},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def native(namespace: str) -> Declared:
    """Kubernetes' own PodGroup."""
    policy = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}}
    group = _object(f"scheduling.k8s.io/{NATIVE_VERSION}", "PodGroup", "native", namespace, policy)
    member: Object = {"schedulingGroup": {"podGroupName": "native"}}
    return Declared([_pod(f"native-{at}", namespace, **member) for at in _each()], [group])


def coscheduling(namespace: str) -> Declared:
    """The PodGroup of the scheduler-plugins project."""
    spec = {"minMember": MEMBERS, "scheduleTimeoutSeconds": 60}
    group = _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "late", namespace, spec)
    labels = {"scheduling.x-k8s.io/pod-group": "late"}
    return Declared([_pod(f"late-{at}", namespace, labels=labels) for at in _each()], [group])


def koordinator(namespace: str) -> Declared:
    """Annotations alone."""
    prefix = "gang.scheduling.koordinator.sh/"
    annotations = {
        prefix + "name": "koord",
        prefix + "min-available": str(MEMBERS),
        prefix + "total-number": str(MEMBERS),
        prefix + "mode": "Strict",
        prefix + "waiting-time": "60s",
    }
    return Declared([_pod(f"koord-{at}", namespace, annotations=annotations) for at in _each()])


def pytorch(namespace: str) -> Declared:
    """A PyTorchJob of one master and seven workers; the size is in the environment."""
    roles = [("master", 0), *(("worker", at) for at in range(MEMBERS - 1))]
    return Declared(
        [
            _pod(
                f"mnist-{role}-{index}",
                namespace,
                labels=_kubeflow("mnist", "pytorchjob-controller", role, index)
                | ({"training.kubeflow.org/job-role": "master"} if role == "master" else {}),
                env={"WORLD_SIZE": MEMBERS, "RANK": rank, "PET_NNODES": MEMBERS},
            )
            for rank, (role, index) in enumerate(roles)
        ]
    )


def mpi(namespace: str) -> Declared:
    """An MPIJob, which alone knows how many workers there are; and its launcher."""
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    replicas = {
        "Launcher": {"replicas": 1, "template": template},
        "Worker": {"replicas": MEMBERS, "template": template},
    }
    spec = {"launcherCreationPolicy": "AtStartup", "mpiReplicaSpecs": replicas}
    job = _object("kubeflow.org/v2beta1", "MPIJob", "pi", namespace, spec)
    workers = [_pod(f"pi-worker-{at}", namespace, labels=_mpi("worker", at)) for at in _each()]
    launcher = _pod("pi-launcher", namespace, labels=_mpi("launcher", None), gpus=0)
    return Declared([launcher, *workers], [job])


def volcano(namespace: str) -> Declared:
    """A Job of Volcano, for which its controller has made a PodGroup."""
    name = "train-5f1c1a52-75f3-4f5e-a9f6-2d0a3f1f2c11"
    spec = {"minMember": MEMBERS, "queue": "default", "minTaskMember": {"worker": MEMBERS}}
    group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, namespace, spec)
    return Declared([_volcano_pod(name, at, namespace) for at in _each()], [group])


ECOSYSTEMS: Mapping[str, Callable[[str], Declared]] = {
    "native": native,
    "koordinator": koordinator,
    "pytorch": pytorch,
    "mpi": mpi,
    "volcano": volcano,
}
DEFINITIONS = (
    definition("PodGroup", "scheduling.volcano.sh", "v1beta1"),
    definition("MPIJob", "kubeflow.org", "v2beta1"),
)
"""What has to be there before these gangs can be declared."""
LATE = definition("PodGroup", "scheduling.x-k8s.io", "v1alpha1")


_KUBEFLOW = ("pytorchjob", "tfjob", "mpijob", "xgboostjob", "paddlejob", "jaxjob")


def owned(namespace: str) -> Sequence[Object]:
    """A pod of each kind of owner that only the owner itself can tell the size of."""
    jobset, lws = "jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/"
    labels: dict[str, dict[str, str]] = {
        "job": {"batch.kubernetes.io/job-name": "job"},
        "jobset": {
            jobset + "jobset-name": "jobset",
            jobset + "replicatedjob-name": "workers",
            jobset + "job-index": "0",
        },
        "lws": {lws + "name": "lws", lws + "group-index": "0", lws + "worker-index": "0"},
        "ray": {"ray.io/cluster": "ray", "ray.io/node-type": "head"},
        "volcano": {"volcano.sh/job-name": "volcano"},
    }
    labels |= {kind: _kubeflow(kind, f"{kind}-controller", "worker", 0) for kind in _KUBEFLOW}
    size = {lws + "size": "2"}
    return [
        _pod(f"owned-{name}", namespace, labels=said, annotations=size if name == "lws" else {})
        for name, said in labels.items()
    ]


def _each() -> range:
    return range(MEMBERS)


def _pod(
    name: str, namespace: str, *, gpus: int = 8, env: Mapping[str, Any] | None = None, **more: Any
) -> Object:
    made = pod(name, namespace, gpus=gpus, scheduler="muster", **more)
    made["spec"]["containers"][0]["env"] = [
        {"name": key, "value": str(value)} for key, value in (env or {}).items()
    ]
    return made


def _object(version: str, kind: str, name: str, namespace: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _kubeflow(job: str, operator: str, role: str, index: int) -> dict[str, str]:
    stated = {"job-name": job, "operator-name": operator, "replica-type": role}
    labels = {f"training.kubeflow.org/{key}": value for key, value in stated.items()}
    return labels | {"training.kubeflow.org/replica-index": str(index)}


def _mpi(role: str, index: int | None) -> dict[str, str]:
    prefix = "training.kubeflow.org/"
    labels = {
        prefix + "job-name": "pi",
        prefix + "operator-name": "mpi-operator",
        prefix + "job-role": role,
    }
    return labels if index is None else {**labels, prefix + "replica-index": str(index)}


def _volcano_pod(group: str, index: int, namespace: str) -> Object:
    keys = {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": namespace,
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": str(index),
        "volcano.sh/queue-name": "default",
    }
    annotations = {**keys, "scheduling.k8s.io/group-name": group}
    return _pod(f"train-worker-{index}", namespace, labels=keys, annotations=annotations)
