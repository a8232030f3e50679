"""What happens to a running gang when its nodes are drained, shrink, are lost, or are shared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import GPU, create_nodes, fleet, pod
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.controlplane.watch import PodRecorder
from tests.e2e.gangs import Placed, gang_job, gang_pods, placed, rack_of, racks, scheduled_message
from tests.e2e.muster import MusterProcess

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("scheduler", "kubelet")]

REQUIRED = {"topology_required": "rack"}


@pytest.fixture
def nodes(client: Client) -> Iterator[Sequence[Object]]:
    """Two racks of three nodes with 8 GPUs each; nodes of earlier tests are removed."""
    client.delete_all("Node", labels="muster.test/made-by=e2e")
    made = create_nodes(client, fleet(blocks=1, racks=2, nodes=3))
    yield made
    client.at_once(lambda node: client.delete("Node", node["metadata"]["name"]), made)


def on_node(name: str) -> dict[str, Any]:
    """Fields of a pod's spec that hold it to one node."""
    return {"nodeSelector": {"kubernetes.io/hostname": name}}


def node_of(client: Client, namespace: str, name: str) -> str:
    """The node of a pod, "" while it waits."""
    return str(client.get("Pod", name, namespace)["spec"].get("nodeName", ""))


def wait_bound(client: Client, namespace: str, *names: str) -> None:
    wait_until(
        lambda: all(node_of(client, namespace, name) for name in names), 60, what=f"{names} bound"
    )


def wait_waiting(client: Client, namespace: str, name: str, words: str = "") -> None:
    """Wait until the scheduler has said why a pod waits, with these words in it."""

    def told() -> bool:
        message = scheduled_message(client.get("Pod", name, namespace))
        return bool(message) and words in message

    # What is told of a gang changes once a minute at most.
    wait_until(told, 90, what=f"{name} waits because of {words!r}")
    assert node_of(client, namespace, name) == ""


def gang_state(muster: MusterProcess, key: str) -> str:
    """The state of a gang; "" if there is none."""
    shown = json.loads(muster.get("/v1/gangs"))["gangs"]
    return next((str(gang["state"]) for gang in shown if gang["key"] == key), "")


def is_open(muster: MusterProcess, node: str) -> bool:
    """Whether Muster has seen that a node is cordoned no more."""
    found = json.loads(muster.get("/v1/nodes"))["nodes"]
    return not next(item["cordoned"] for item in found if item["name"] == node)


def cordon(client: Client, name: str, on: bool = True) -> None:
    client.patch("Node", name, {"spec": {"unschedulable": on}})


def start_gang(client: Client, namespace: str, members: int) -> dict[int, Placed]:
    """A running gang of 8 GPUs a member in one rack, by index."""
    pods = gang_pods("a", namespace, range(members), 8, least=members, options=REQUIRED)
    client.create_all(pods)
    wait_bound(client, namespace, *(item["metadata"]["name"] for item in pods))
    return {member.index: member for member in placed(client, namespace, "a-")}


def start_gang_and_filler(client: Client, namespace: str) -> Placed:
    """All nodes are taken, three by a gang; a filler of equal priority waits. The gang's member 1.

    The filler has waited for longer than any replacement of a member will have.
    """
    members = start_gang(client, namespace, 3)
    names = [f"full-{number}" for number in range(3)]
    client.create_all(pod(name, namespace, gpus=8, scheduler="muster") for name in names)
    wait_bound(client, namespace, *names)
    client.create(pod("filler", namespace, gpus=8, scheduler="muster"))
    wait_waiting(client, namespace, "filler")
    return members[1]


def drain(client: Client, namespace: str, member: Placed) -> None:
    """Cordon the member's node and delete the member, as ``kubectl drain`` does."""
    cordon(client, member.node)
    client.delete("Pod", f"a-{member.index}", namespace)
    wait_until(lambda: client.find("Pod", f"a-{member.index}", namespace) is None, 30)


def replacement(namespace: str, index: int, members: int) -> Object:
    return gang_pods("a", namespace, [index], 8, least=members, options=REQUIRED)[0]


@pytest.mark.parametrize("muster", [{"MUSTER_SET_GRACE_S": "300"}], indirect=True, ids=["5m"])
@pytest.mark.parametrize("replaced", ["before the node is back", "after the node is back"])
def test_a_gang_gets_its_seat_back_after_a_drain(
    client: Client,
    namespace: str,
    muster: MusterProcess,
    replaced: str,
) -> None:
    """A filler of equal priority has waited longer, but the seat is the gang's, and its rank."""
    before = start_gang_and_filler(client, namespace)
    drain(client, namespace, before)
    if replaced == "before the node is back":
        client.create(replacement(namespace, 1, 3))
        wait_waiting(client, namespace, "a-1")
        cordon(client, before.node, on=False)
    else:
        cordon(client, before.node, on=False)
        wait_until(lambda: is_open(muster, before.node), 30, what="the node takes pods again")
        assert node_of(client, namespace, "filler") == ""
        client.create(replacement(namespace, 1, 3))
    wait_bound(client, namespace, "a-1")

    after = {member.index: member for member in placed(client, namespace, "a-")}
    assert after[1].node == before.node
    assert after[1].hint["rank"] == before.hint["rank"]
    assert node_of(client, namespace, "filler") == ""
    client.delete("Pod", "full-0", namespace)
    wait_bound(client, namespace, "filler")


@pytest.mark.parametrize("muster", [{"MUSTER_SET_GRACE_S": "3"}], indirect=True, ids=["3s"])
def test_a_seat_is_not_kept_for_ever(
    client: Client,
    namespace: str,
    muster: MusterProcess,
) -> None:
    """When the grace is over and no replacement has come, the filler gets the node."""
    before = start_gang_and_filler(client, namespace)
    drain(client, namespace, before)
    cordon(client, before.node, on=False)
    wait_bound(client, namespace, "filler")
    assert node_of(client, namespace, "filler") == before.node


def test_a_node_that_loses_gpus_disturbs_nobody_and_takes_nothing_new(
    client: Client,
    namespace: str,
    muster: MusterProcess,
) -> None:
    """Six of eight GPUs are left under a member that has all eight; the CPUs go on being used."""
    hurt = start_gang(client, namespace, 2)[0].node
    here = on_node(hurt)
    with PodRecorder(client, namespace) as recorder:
        amounts = {"capacity": {GPU: "6"}, "allocatable": {GPU: "6"}}
        client.patch("Node", hurt, {"status": amounts}, subresource="status")
        wait_until(lambda: gpus_shown(muster, hurt) == 6, 30, what="Muster knows of six GPUs")
        client.create_all(
            pod(f"more-{n}", namespace, gpus=n, scheduler="muster", **here) for n in (1, 6)
        )
        client.create(pod("cpu-only", namespace, scheduler="muster", **here))
        wait_bound(client, namespace, "cpu-only")
        for name in ("more-1", "more-6"):
            wait_waiting(client, namespace, name)
        assert gang_state(muster, f"{namespace}/a") == "running"
        assert not any(
            change.pod["metadata"].get("deletionTimestamp") for change in recorder.changes
        )
        client.at_once(lambda n: client.delete("Pod", f"a-{n}", namespace), range(2))
        client.delete("Pod", "more-1", namespace)
        wait_bound(client, namespace, "more-6")


def gpus_shown(muster: MusterProcess, name: str) -> int:
    nodes = json.loads(muster.get("/v1/nodes"))["nodes"]
    return next(int(node["gpus"]) for node in nodes if node["name"] == name)


@pytest.mark.parametrize("muster", [{"MUSTER_SET_NODE_LOST_S": "1"}], indirect=True, ids=["1s"])
def test_members_of_a_lost_node_are_replaced_in_their_rack(
    client: Client,
    namespace: str,
    muster: MusterProcess,
    kubelet: FakeKubelet,
) -> None:
    """Its node is deleted, its kubelet is silent: evicted, made anew by its Job, kept in the rack.

    The rack's third node is taken at first; the other rack is empty, but not where the gang lives.
    """
    client.create(gang_job("train", namespace, 2, gpus=8, options=REQUIRED))
    wait_until(lambda: len(placed(client, namespace, "train-")) == 2, 60, what="both are bound")
    stays, lost = placed(client, namespace, "train-")
    rack = rack_of(lost.node)
    spare = ({f"{rack}-n{number}" for number in range(3)} - {stays.node, lost.node}).pop()
    client.create(pod("other", namespace, gpus=8, scheduler="muster", **on_node(spare)))
    wait_bound(client, namespace, "other")

    kubelet.lose(lost.node)
    with PodRecorder(client, namespace) as recorder:
        client.delete("Node", lost.node)
        wait_until(lambda: members_waiting(client, namespace), 60, what="a new pod waits")
        assert evicted(recorder) == {lost.node}
        client.delete("Pod", "other", namespace)
        wait_until(lambda: not members_waiting(client, namespace), 60, what="it has a node")
    left, replaced = (m for m in placed(client, namespace, "train-") if m.node != lost.node)
    assert left == stays, "the other member is left alone"
    assert (replaced.node, replaced.hint["rank"]) == (spare, lost.hint["rank"])
    wait_until(lambda: gang_state(muster, f"{namespace}/train") == "running", 30)


def members_waiting(client: Client, namespace: str) -> list[str]:
    """Members of the Job without a node, of which the scheduler has said why."""
    return [
        item["metadata"]["name"]
        for item in client.list("Pod", namespace, labels="job-name=train")
        if not item["spec"].get("nodeName") and scheduled_message(item)
    ]


def evicted(recorder: PodRecorder) -> set[str]:
    """The nodes of the pods that were evicted, through the API that heeds disruption budgets."""
    return {
        change.node or ""
        for change in recorder.changes
        for one in change.pod["status"].get("conditions", ())
        if one["type"] == "DisruptionTarget" and one["reason"] == "EvictionByEvictionAPI"
    }


def test_pods_of_the_stock_scheduler_count(
    client: Client,
    namespace: str,
    muster: MusterProcess,
    stock_scheduler: Scheduler | None,
) -> None:
    """Both schedulers work on the same nodes: what one has taken the other does not give."""
    for rack in range(2):
        client.create(pod(f"stock-{rack}", namespace, gpus=1, **on_node(f"b0-r{rack}-n0")))
    wait_bound(client, namespace, "stock-0", "stock-1")
    client.create_all(gang_pods("a", namespace, range(3), 8, least=3, options=REQUIRED))
    wait_until(lambda: gang_state(muster, f"{namespace}/a") == "queued", 30, what="it has no room")
    for index in range(3):
        wait_waiting(client, namespace, f"a-{index}", "2 of 3 placeable")
    client.delete("Pod", "stock-1", namespace, grace=0)
    wait_bound(client, namespace, "a-0", "a-1", "a-2")
    assert racks(placed(client, namespace, "a-")) == ["b0-r1"]
    # The other way round: Muster's pods hold the rack against the stock scheduler.
    client.create(pod("stock-2", namespace, gpus=1, **on_node("b0-r1-n0")))
    wait_waiting(client, namespace, "stock-2", "Insufficient nvidia.com/gpu")
