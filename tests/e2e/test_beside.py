"""Two schedulers on one node: what the kubelet refuses is placed anew, and the gang gets whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import create_nodes, fleet
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.gangs import gang_pods, placed, racks
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e

MEMBERS = 3
STRIKES = 3
"""After so many refusals Muster thinks that it is the node, not a race."""


@pytest.fixture
def nodes(client: Client) -> Iterator[Sequence[Object]]:
    """A rack of four nodes with 8 GPUs each."""
    client.delete_all("Node", labels="muster.test/made-by=e2e")
    made = create_nodes(client, fleet(blocks=1, racks=1, nodes=4))
    yield made
    client.at_once(lambda node: client.delete("Node", node["metadata"]["name"]), made)


@pytest.fixture
def muster(control_plane: Cluster, nodes: Sequence[Object]) -> Iterator[MusterProcess]:
    """Muster, ready."""
    with MusterProcess(control_plane) as process:
        yield process


@pytest.fixture
def scheduler(muster: MusterProcess) -> Iterator[Scheduler]:
    """The second kube-scheduler, which asks Muster."""
    started = start_muster_scheduler(muster)
    yield started
    started.stop()


def _members(namespace: str) -> dict[str, Object]:
    pods = gang_pods("a", namespace, range(MEMBERS), 8, least=MEMBERS)
    return {pod["metadata"]["name"]: pod for pod in pods}


def _running(client: Client, namespace: str) -> set[str]:
    pods = client.list("Pod", namespace)
    return {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"}


def test_a_member_that_the_kubelet_refuses_is_evicted_and_its_replacement_placed(
    client: Client,
    namespace: str,
    muster: MusterProcess,
    scheduler: Scheduler,
    kubelet: FakeKubelet,
) -> None:
    # As a kubelet does whose GPUs somebody else's pod has, by a race or by hand.
    refusing = "b0-r0-n0"
    kubelet.reject(refusing, "OutOfnvidia.com/gpu")
    members = _members(namespace)
    client.create_all(members.values())

    replaced = 0
    while gone := wait_until(lambda: _step(client, namespace, set(members)), 60).gone:
        for name in gone:
            # What a Job or any other controller does.
            client.create(members[name])
            replaced += 1
        assert replaced <= STRIKES

    bound = placed(client, namespace, "a-")
    assert replaced == STRIKES
    assert refusing not in {member.node for member in bound}
    assert racks(bound) == ["b0-r0"]
    assert 'muster_effects_total{kind="Evict",outcome="ok"} 3.0' in muster.metrics()


class Step(NamedTuple):
    """What has happened to the members."""

    gone: set[str]
    """Those that are gone; none if all are running."""


def _step(client: Client, namespace: str, names: set[str]) -> Step | None:
    """None until some are gone or all are running."""
    gone = names - {pod["metadata"]["name"] for pod in client.list("Pod", namespace)}
    return Step(gone) if gone or _running(client, namespace) == names else None
