"""Pods and nodes for the tests of the embedded cluster."""

from __future__ import annotations

from typing import Any

from scheduler.simulation.apiserver import ApiServer, pod_key
from scheduler.simulation.objects import Object


def pod(name: str = "a", gpus: int = 1, **spec: Any) -> Object:
    """A pod of the scheduler ``muster`` in namespace ``t``; ``spec`` is laid over its spec."""
    amounts = {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "t"},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}],
            **spec,
        },
    }


def live(api: ApiServer, name: str = "a") -> Object:
    """The pod as the API server has it."""
    found = api.store.get(pod_key("t", name))
    assert found is not None, f"pod t/{name} is gone"
    return found


def uid(api: ApiServer, name: str = "a") -> str:
    """The uid of a pod."""
    return str(live(api, name)["metadata"]["uid"])
