"""Two schedulers on one node: what the kubelet refuses is placed anew, and the gang gets whole."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.gangs import gang_pods, placed, racks
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e

MEMBERS = 3
STRIKES = 3
"""After so many refusals Muster thinks that it is the node, not a race."""


def _members(namespace: str) -> dict[str, Object]:
    pods = gang_pods("a", namespace, range(MEMBERS), 8, least=MEMBERS)
    return {pod["metadata"]["name"]: pod for pod in pods}


def _running(client: Client, namespace: str) -> set[str]:
    pods = client.list("Pod", namespace)
    return {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"}


def test_a_member_that_the_kubelet_refuses_is_evicted_and_its_replacement_placed(
    control_plane: Cluster,
    client: Client,
    namespace: str,
    nodes: Sequence[Object],
    kubelet: FakeKubelet,
) -> None:
    # As a kubelet does whose GPUs somebody else's pod has, by a race or by hand.
    refusing = "b0-r0-n0"
    kubelet.reject(refusing, "OutOfnvidia.com/gpu")
    members = _members(namespace)
    with ExitStack() as running:
        muster = running.enter_context(MusterProcess(control_plane))
        running.callback(start_muster_scheduler(muster).stop)
        client.create_all(members.values())
        replaced = 0
        while gone := _next(client, namespace, set(members)):
            # What a Job or any other controller does.
            client.create_all(members[name] for name in sorted(gone))
            replaced += len(gone)
            assert replaced <= STRIKES
        metrics = muster.metrics()

    bound = placed(client, namespace, "a-")
    assert replaced == STRIKES
    assert refusing not in {member.node for member in bound}
    assert racks(bound) == ["b0-r0"]
    assert 'muster_effects_total{kind="Evict",outcome="ok"} 3.0' in metrics
    assert "muster_rejected_members_total 3.0" in metrics
    told = [item for item in client.events(namespace) if item["reason"] == "MemberRejected"]
    assert {item["involvedObject"]["name"] for item in told} <= set(members)
    assert all(refusing in item["message"] for item in told)
    assert told


def _next(client: Client, namespace: str, names: set[str]) -> set[str]:
    """The members that are gone, as soon as some are; none once all are running."""
    wait_until(
        lambda: _gone(client, namespace, names) or _running(client, namespace) == names,
        60,
        what="a member is gone, or all are running",
    )
    return _gone(client, namespace, names)


def _gone(client: Client, namespace: str, names: set[str]) -> set[str]:
    return names - {pod["metadata"]["name"] for pod in client.list("Pod", namespace)}
