"""Leases on the fake API server, as kube-schedulers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cluster.fake_apiserver import Collection, FakeApi, Json

NAME = "kube-system/muster-kube-scheduler"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ONE = f"{LEASES}/muster-kube-scheduler"


def serve(api: FakeApi) -> None:
    """Let there be Leases."""
    with api.changed:
        api.collections.setdefault(LEASES, Collection())


def put(api: FakeApi, holder: str, transitions: int = 1, ago_s: float = 0.0) -> Json:
    """The Lease as ``holder`` renews it, ``ago_s`` seconds ago by its own clock."""
    serve(api)
    renewed = datetime.now(UTC) - timedelta(seconds=ago_s)
    return api.put(
        LEASES,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": "kube-system", "name": "muster-kube-scheduler"},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "leaseTransitions": transitions,
            },
        },
    )
