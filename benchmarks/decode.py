"""What it costs to read the events of a gang's start: `python -m benchmarks.decode`.

500 pods of 4.5 KB each, as an API server sends them: created, not yet scheduled, bound, running.
Each event is read twice in the same run: from the value that was read of the pod last, as the watch
does, and as if the pod were new. Process time of one thread, the best of ten rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.report import report
from scheduler import decode
from scheduler.model import Pod

PODS = 500
ROUNDS = 10

Json = dict[str, Any]
Step = Callable[[Json], Json]


def created(index: int) -> Json:
    """A pod of an Indexed Job with 8 GPUs, as the Job's controller makes it."""
    labels = {
        "batch.kubernetes.io/controller-uid": "5a3f",
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": "5a3f",
        "job-name": "train",
    }
    annotations = {
        "batch.kubernetes.io/job-completion-index": str(index),
        "muster.scheduler/gang": "train",
        "muster.scheduler/min-available": str(PODS),
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "5a3f"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{index}-abcde",
            "namespace": "team",
            "uid": f"0b7c1d2e-{index}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-05T08:00:00Z",
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            "managedFields": [_managed("kube-controller-manager")],
        },
        "spec": _spec(),
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _spec() -> Json:
    amounts = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    mounts = [{"name": name, "mountPath": f"/mnt/{name}"} for name in ("data", "shm", "token")]
    container = {
        "name": "main",
        "image": "example.org/train:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["muster-train", "launch", "--", "train.py"],
        "env": [{"name": f"VARIABLE_{at}", "value": f"value-{at}"} for at in range(14)],
        "resources": {"limits": amounts, "requests": amounts},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    return {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "nodeSelector": {"pool": "gpu"},
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Never",
        "schedulerName": "muster",
        "securityContext": {},
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": tolerations,
        "volumes": [
            {"name": "data", "hostPath": {"path": "/mnt", "type": ""}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    }


def _managed(manager: str) -> Json:
    env = {
        f'k:{{"name":"VARIABLE_{at}"}}': {".": {}, "f:name": {}, "f:value": {}} for at in range(14)
    }
    fields = {"f:metadata": {"f:annotations": {".": {}}}, "f:spec": {"f:containers": env}}
    return {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}


def unschedulable(pod: Json) -> Json:
    """The scheduler has said why the pod waits."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said = condition | {
        "message": "0/64 nodes are available: 1 gang team/train: 3 of 500 pods exist."
    }
    return pod | {"status": pod["status"] | {"conditions": [said]}}


def bound(pod: Json) -> Json:
    """A Binding has set the node, with the hint."""
    hint = {"muster.scheduler/hint": json.dumps({"v": 1, "gang": "team/train", "node": "n1"})}
    meta = pod["metadata"]
    return pod | {
        "metadata": meta | {"annotations": meta["annotations"] | hint},
        "spec": pod["spec"] | {"nodeName": "n1"},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


def running(pod: Json) -> Json:
    """The kubelet has started the containers."""
    amounts = pod["spec"]["containers"][0]["resources"]
    status = {
        "name": "main",
        "ready": True,
        "state": {"running": {"startedAt": "2026-01-05T08:00:09Z"}},
        "allocatedResources": amounts["requests"],
        "resources": amounts,
    }
    return pod | {"status": {"phase": "Running", "containerStatuses": [status]}}


STEPS: Mapping[str, Step] = {
    "created": lambda pod: pod,
    "unschedulable": unschedulable,
    "bound": bound,
    "running": running,
}


def measure() -> list[dict[str, Any]]:
    """One row an event, and one for all four."""
    pods = [created(index) for index in range(PODS)]
    before: list[Pod | None] = [None] * PODS
    rows = []
    for name, step in STEPS.items():
        pods = [step(pod) for pod in pods]
        raws = [json.dumps(pod, separators=(",", ":")).encode() for pod in pods]
        known = list(before)
        again = _us(lambda raws=raws, known=known: list(map(decode.pod_bytes, raws, known)))  # type: ignore[misc]
        anew = _us(lambda raws=raws: list(map(decode.pod_bytes, raws)))  # type: ignore[misc]
        before = list(map(decode.pod_bytes, raws, known))
        rows.append({"event": name, "bytes": len(raws[0]), "read_us": again, "anew_us": anew})
    total = {key: round(sum(row[key] for row in rows), 1) for key in ("read_us", "anew_us")}
    return [*rows, {"event": "all", **total}]


def _us(read: Callable[[], object]) -> float:
    """Microseconds a pod."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        read()
        best = min(best, time.process_time() - start)
    return round(best / PODS * 1e6, 1)


def main() -> int:
    report("decode", measure(), ["msgspec"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
