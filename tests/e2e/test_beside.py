"""Muster and the stock scheduler on the same nodes: what a kubelet refuses is placed anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import RACK, indexed_job
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.gangs import declared, gang_pods, hint_of, placed, racks
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
    stock_scheduler: Scheduler | None,
) -> None:
    # As a kubelet does whose GPUs somebody else's pod has, by a race or by hand.
    refusing = "b0-r0-n0"
    kubelet.reject(refusing, "OutOfnvidia.com/gpu")
    members = _members(namespace)
    # The stock scheduler fills a rack of the same nodes meanwhile.
    elsewhere = {RACK: "b0-r1"}
    client.create(indexed_job("theirs", namespace, 8, gpus=8, nodeSelector=elsewhere))
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
    wait_until(
        lambda: len(_running(client, namespace)) == MEMBERS + 8, what="the others run all the while"
    )


GPUS = 8
EACH = 32
"""Pods of one GPU of either scheduler: together, all that a rack of eight nodes has."""


@pytest.mark.parametrize("kubelet", [GPUS], indirect=True)
@pytest.mark.usefixtures("stock_scheduler", "nodes")
def test_both_schedulers_fill_the_same_nodes_at_once_until_no_gpu_is_left(
    control_plane: Cluster, client: Client, namespace: str, kubelet: FakeKubelet
) -> None:
    """Each may take what the other has just planned with. Who is refused then does not matter: in
    the end everybody runs, as there is room for all."""
    where = {RACK: "b0-r0"}
    theirs = indexed_job("theirs", namespace, EACH, gpus=1, nodeSelector=where)
    annotations = declared("ours", EACH)
    ours = indexed_job(
        *("ours", namespace, EACH),
        gpus=1,
        annotations=annotations,
        scheduler="muster",
        nodeSelector=where,
    )
    for job in (ours, theirs):
        # Otherwise the pause before the next pod doubles with each that was refused.
        job["spec"] |= {"backoffLimitPerIndex": 6, "backoffLimit": None}
    # A node that lost several races is no bad node, and has to be filled.
    with ExitStack() as running:
        muster = running.enter_context(
            MusterProcess(control_plane, env={"MUSTER_SET_AVOID_S": "1"})
        )
        running.callback(start_muster_scheduler(muster).stop)
        client.create_all([ours, theirs])
        wait_until(
            lambda: len(_running(client, namespace)) == 2 * EACH, 120, what="all of both run"
        )
        metrics = muster.metrics()

    pods = [pod for pod in client.list("Pod", namespace) if pod["status"]["phase"] == "Running"]
    on_nodes = Counter(pod["spec"]["nodeName"] for pod in pods)
    assert on_nodes == {f"b0-r0-n{number}": GPUS for number in range(8)}
    members = [pod for pod in pods if pod["metadata"]["name"].startswith("ours-")]
    assert sorted(hint_of(pod)["rank"] for pod in members) == list(range(EACH))
    refused = sum(name.startswith("ours-") for name in kubelet.refused)
    assert f"muster_rejected_members_total {float(refused)}" in metrics


def _next(client: Client, namespace: str, names: set[str]) -> set[str]:
    """The members that are gone, as soon as some are; none once all are running."""
    wait_until(
        lambda: _gone(client, namespace, names) or _running(client, namespace) >= names,
        60,
        what="a member is gone, or all are running",
    )
    return _gone(client, namespace, names)


def _gone(client: Client, namespace: str, names: set[str]) -> set[str]:
    return names - {pod["metadata"]["name"] for pod in client.list("Pod", namespace)}
