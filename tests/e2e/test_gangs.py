"""Gangs on a real control plane: real API server, job controller and kube-scheduler."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.kubelet import FakeKubelet
from tests.e2e.controlplane.objects import (
    pod,
    priority_class,
    storage_class,
    volume_claim,
    volume_of_claim,
)
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.controlplane.watch import PodRecorder
from tests.e2e.gangs import gang_job, gang_pods, placed, rack_of, racks, scheduled_message
from tests.e2e.muster import MusterProcess, start_muster_scheduler

pytestmark = pytest.mark.e2e

Nodes = Sequence[Object]


def bound_names(client: Client, namespace: str) -> list[str]:
    return sorted(
        item["metadata"]["name"]
        for item in client.list("Pod", namespace)
        if item["spec"].get("nodeName")
    )


def gang_state(muster: MusterProcess, namespace: str, name: str) -> Object:
    shown = json.loads(muster.get("/v1/gangs"))["gangs"]
    return next((item for item in shown if item["key"] == f"{namespace}/{name}"), {})


def wait_held(client: Client, namespace: str, pods: Sequence[str], words: str) -> None:
    """Wait until the condition of each pod says why it waits."""

    def told() -> bool:
        return all(words in scheduled_message(client.get("Pod", name, namespace)) for name in pods)

    wait_until(told, 30, what=f"the conditions of {pods} say {words!r}")


def test_an_indexed_job_starts_in_one_burst_in_topology_order(
    client: Client,
    namespace: str,
    muster: MusterProcess,
    scheduler: Scheduler,
    kubelet: FakeKubelet,
) -> None:
    """16 pods of 4 GPUs fill one rack of 8 nodes: never one rack more than needed."""
    with PodRecorder(client, namespace) as recorder:
        client.create(gang_job("train", namespace, 16, gpus=4))
        wait_until(lambda: len(recorder.bindings()) == 16, 60, what="16 pods are bound")

    members = placed(client, namespace, "train-")
    assert [member.index for member in members] == list(range(16))
    assert len(racks(members)) == 1
    assert [member.hint["rank"] for member in members] == list(range(16))
    nodes_in_order = [member.node for member in members]
    assert nodes_in_order == sorted(nodes_in_order), "completion index order is topology order"
    assert all(member.hint["node"] == member.node for member in members)
    assert all(member.hint["path"][-1] == rack_of(member.node) for member in members)

    first_bound = min(change.at for change in recorder.bindings())
    last_created = max(change.at for change in recorder.changes if change.kind == "ADDED")
    assert first_bound > last_created, "nothing is bound before the gang is whole"

    def running() -> bool:
        return all(
            item["status"].get("phase") == "Running" and scheduled_ok(item)
            for item in client.list("Pod", namespace)
        )

    wait_until(running, 30, what="all pods run and their conditions are right")
    assert kubelet.failures == []

    def told() -> set[str]:
        events = client.events(namespace)
        return {
            event["involvedObject"]["name"] for event in events if event["reason"] == "Scheduled"
        }

    wait_until(lambda: len(told()) == 16, 30, what="each pod has a Scheduled event")


def scheduled_ok(item: Object) -> bool:
    conditions = {found["type"]: found["status"] for found in item["status"]["conditions"]}
    return conditions.get("PodScheduled") == "True"


def test_a_gang_larger_than_the_cluster_holds_nothing_and_lets_others_pass(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """33 pods of 8 GPUs on 32 nodes: never; the condition says so, and a small gang starts."""
    client.create_all(gang_pods("huge", namespace, range(33), 8, least=33))
    wait_held(client, namespace, ["huge-0", "huge-32"], "32 of 33 placeable")
    wait_held(client, namespace, ["huge-0"], "short by 8 nvidia.com/gpu")
    assert gang_state(muster, namespace, "huge")["reserved"] == 0

    client.create_all(gang_pods("small", namespace, range(4), 8, least=4))
    wait_until(lambda: len(bound_names(client, namespace)) == 4, 30, what="the small gang starts")
    assert all(name.startswith("small-") for name in bound_names(client, namespace))
    why = json.loads(muster.get(f"/v1/gangs/{namespace}/huge/why"))
    assert why["never"] is True
    assert why["short_by"] == {"nvidia.com/gpu": 40}, "28 nodes are left"


def test_the_sixteenth_pod_starts_all(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """With 15 of 16 nothing is bound; when the last arrives, all are."""
    pods = gang_pods("late", namespace, range(16), 4, least=16)
    client.create_all(pods[:15])
    wait_held(client, namespace, ["late-0", "late-14"], "of 16 pods exist")
    assert bound_names(client, namespace) == []
    client.create(pods[15])
    wait_until(lambda: len(bound_names(client, namespace)) == 16, 30, what="all 16 are bound")


def test_a_gang_with_a_late_binding_volume_goes_by_nomination(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """A WaitForFirstConsumer claim is the scheduler's business, so it binds the pods itself."""
    name = f"late-{namespace}"
    client.create(storage_class(name))
    # One volume each, so that each pod has one node, whichever volumes are there already.
    client.create_all(
        volume_claim(f"claim-{index}", namespace, name, volume=f"{namespace}-{index}")
        for index in range(4)
    )
    with PodRecorder(client, namespace) as recorder:
        for index in range(4):
            volumes = [volume_of_claim(f"claim-{index}")]
            client.create_all(
                gang_pods("vol", namespace, [index], 8, least=4, volumes=volumes),
            )
        # Without a volume the scheduler fails on each, and leaves the nominations as they are.
        wait_until(lambda: len(nominations(client, namespace)) == 4, 30, what="all are nominated")
        homes = nominated(recorder)
        assert nominations(client, namespace) == homes
        # The volumes exist only now, so that the scheduler was not quicker than we look.
        for index in range(4):
            client.create(local_volume_for(f"{namespace}-{index}", name, homes[f"vol-{index}"]))
        wait_until(lambda: len(bound_names(client, namespace)) == 4, 90, what="all four are bound")
    members = placed(client, namespace, "vol-")
    assert {f"vol-{member.index}": member.node for member in members} == homes
    assert len(racks(members)) == 1
    assert [member.hint["rank"] for member in members] == [0, 1, 2, 3]
    assert one_node_calls(muster) >= 4
    for index in range(4):
        client.delete("PersistentVolume", f"{namespace}-{index}")
    client.delete("StorageClass", name)


def test_nominations_are_taken_back_when_the_time_to_start_is_up(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """The scheduler leaves them, and they would keep room from others."""
    name = f"late-{namespace}"
    client.create(storage_class(name))
    client.create_all(volume_claim(f"claim-{at}", namespace, name, volume="none") for at in (0, 1))
    for at in (0, 1):
        volumes = [volume_of_claim(f"claim-{at}")]
        options = {"timeout": "5s"}
        client.create_all(
            gang_pods("vol", namespace, [at], 8, least=2, volumes=volumes, options=options)
        )
    wait_until(lambda: len(nominations(client, namespace)) == 2, 30, what="both are nominated")
    wait_until(lambda: not nominations(client, namespace), 30, what="neither is nominated")
    assert bound_names(client, namespace) == []
    client.delete("StorageClass", name)


@pytest.mark.parametrize("start", ["burst", "nominate"])
def test_on_a_full_cluster_muster_says_why_and_no_gpu_is_given_twice(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler, start: str
) -> None:
    """The scheduler leaves GPUs to Muster: it neither counts them nor looks for them."""
    client.create_all(pod(f"full-{at}", namespace, gpus=8, scheduler="muster") for at in range(32))
    wait_until(lambda: len(bound_names(client, namespace)) == 32, 60, what="32 nodes are full")
    members = gang_pods("next", namespace, range(2), 8, least=2, options={"start": start})
    client.create_all([*members, pod("one", namespace, gpus=1, scheduler="muster")])
    wait_held(client, namespace, ["next-0", "next-1"], f"gang {namespace}/next")
    wait_held(client, namespace, ["one"], "short by 1 nvidia.com/gpu")
    assert len(bound_names(client, namespace)) == 32

    for at in (3, 17):
        client.delete("Pod", f"full-{at}", namespace, grace=0)
    wait_until(lambda: len(bound_names(client, namespace)) >= 31, 90, what="somebody starts")
    client.delete("Pod", "full-5", namespace, grace=0)
    wait_until(lambda: len(bound_names(client, namespace)) == 32, 90, what="all start")
    nodes = {item["spec"]["nodeName"] for item in client.list("Pod", namespace)}
    assert len(nodes) == 32, "each pod has a node of its own"


def nominations(client: Client, namespace: str) -> dict[str, str]:
    """The node that each pod is nominated to now."""
    found = {
        item["metadata"]["name"]: item["status"].get("nominatedNodeName")
        for item in client.list("Pod", namespace)
    }
    return {name: node for name, node in found.items() if node}


def nominated(recorder: PodRecorder) -> dict[str, str]:
    """The node that each pod was nominated to first."""
    found: dict[str, str] = {}
    for change in list(recorder.changes):
        if node := change.pod.get("status", {}).get("nominatedNodeName"):
            found.setdefault(change.name, node)
    return found


def local_volume_for(name: str, storage: str, node: str) -> Object:
    from tests.e2e.controlplane.objects import local_volume

    return local_volume(name, storage, node)


def one_node_calls(muster: MusterProcess) -> float:
    """Filter calls that offered one node, as the metrics count them."""
    for line in muster.metrics().splitlines():
        if line.startswith("muster_filter_one_node_calls_total "):
            return float(line.split()[1])
    raise AssertionError("no such metric")


@pytest.mark.parametrize("order", ["a-first", "b-first"])
def test_two_gangs_that_each_need_the_whole_cluster_take_turns(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler, order: str
) -> None:
    """Created interleaved, one runs whole; the other follows when it is deleted."""
    gang_a = gang_pods("a", namespace, range(32), 8, least=32)
    gang_b = gang_pods("b", namespace, range(32), 8, least=32)
    pairs = zip(gang_a, gang_b, strict=True)
    for one, other in pairs:
        client.create_all([one, other] if order == "a-first" else [other, one])
    wait_until(lambda: len(bound_names(client, namespace)) == 32, 60, what="one gang is bound")
    winners = {name[0] for name in bound_names(client, namespace)}
    assert len(winners) == 1
    winner = winners.pop()
    loser = "b" if winner == "a" else "a"
    wait_held(client, namespace, [f"{loser}-0"], "no room")
    assert "no room" in gang_state(muster, namespace, loser)["reason"]
    client.at_once(
        lambda index: client.delete("Pod", f"{winner}-{index}", namespace, grace=0), range(32)
    )
    wait_until(
        lambda: bound_names(client, namespace) == sorted(f"{loser}-{index}" for index in range(32)),
        60,
        what="the other gang follows",
    )


def test_muster_killed_in_mid_burst_completes_around_the_bound(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """SIGKILL while Bindings are on their way: same domain, same ranks for those bound."""
    with PodRecorder(client, namespace) as recorder:
        client.create_all(gang_pods("cut", namespace, range(63), 2, least=64))
        wait_until(lambda: gang_state(muster, namespace, "cut").get("members") == 63, 30)
        client.create_all(gang_pods("cut", namespace, [63], 2, least=64))
        wait_until(lambda: len(recorder.bindings()) >= 4, 30, what="the burst has begun")
        muster.kill()
        before = {member.index: member for member in placed(client, namespace, "cut-")}
        assert len(before) >= 4
        muster.start()
        muster.wait_ready()
        wait_until(lambda: len(recorder.bindings()) == 64, 60, what="the gang completes")
    after = placed(client, namespace, "cut-")
    assert {member.hint["rank"] for member in after} == set(range(64))
    assert len(racks(after)) == 2, "16 nodes are two racks"
    assert all(after[index].node == member.node for index, member in before.items())
    assert all(after[index].hint["rank"] == member.hint["rank"] for index, member in before.items())
    assert len({rack_of(member.node).partition("-")[0] for member in after}) == 1, "one block"


def test_gangs_start_after_the_scheduler_was_restarted(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """What waits when kube-scheduler restarts starts when there is room."""
    client.create_all(gang_pods("first", namespace, range(32), 8, least=32))
    wait_until(lambda: len(bound_names(client, namespace)) == 32, 30)
    client.create_all(gang_pods("next", namespace, range(8), 8, least=8))
    wait_held(client, namespace, ["next-0"], "no room")
    scheduler.restart()
    client.at_once(
        lambda index: client.delete("Pod", f"first-{index}", namespace, grace=0), range(32)
    )
    wait_until(lambda: len(bound_names(client, namespace)) == 8, 60, what="the next gang starts")


@pytest.fixture
def above_all(client: Client, namespace: str) -> Iterator[str]:
    """A priority class above all others, and pods of none on all nodes, which leave no room."""
    name = f"high-{namespace}"
    client.create(priority_class(name, 100_000))
    yield name
    client.delete("PriorityClass", name)


def fill(client: Client, namespace: str) -> None:
    """Run a pod without priority on each node, so that there is no room left."""
    client.create_all(
        pod(f"low-{index}", namespace, gpus=8, scheduler="muster") for index in range(32)
    )
    wait_until(lambda: len(bound_names(client, namespace)) == 32, 60, what="all nodes are full")


def all_live(client: Client, namespace: str) -> bool:
    """Whether all the pods of `fill` run on, and nobody else does."""
    low = [one for one in client.list("Pod", namespace) if "low-" in one["metadata"]["name"]]
    assert all("deletionTimestamp" not in one["metadata"] for one in low)
    return bound_names(client, namespace) == sorted(one["metadata"]["name"] for one in low)


def test_nobody_is_looked_for_who_could_be_evicted(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler, above_all: str
) -> None:
    """The scheduler makes no dry run for held pods, whichever profile they have."""
    fill(client, namespace)
    high = {"priorityClassName": above_all}
    waiting = [
        *gang_pods("half", namespace, range(2), 8, least=4, **high),
        *gang_pods("whole", namespace, range(2), 8, least=2, **high),
        pod("single", namespace, gpus=8, scheduler="muster", **high),
        pod("plain", namespace, gpus=8, scheduler="muster-plain", **high),
    ]
    client.create_all(waiting)
    # The condition is written at the end of a cycle, after the plugin's turn.
    wait_held(client, namespace, [one["metadata"]["name"] for one in waiting], "nodes")

    assert total(scheduler.metrics(), "scheduler_preemption_attempts_total") == 0
    assert preempt_calls(muster) == 0
    assert all_live(client, namespace)


def test_an_incomplete_gang_of_high_priority_evicts_nobody(
    client: Client, namespace: str, muster: MusterProcess, above_all: str
) -> None:
    """Nor with a scheduler that looks for victims: preempt answers no one."""
    scheduler = start_muster_scheduler(muster, preempts=True)
    try:
        fill(client, namespace)
        high = gang_pods("high", namespace, range(2), 8, least=4, priorityClassName=above_all)
        client.create_all(high)
        wait_until(
            lambda: preempt_calls(muster) >= 2, 30, what="the scheduler asks whom it may evict"
        )
        assert all_live(client, namespace)
        assert len(bound_names(client, namespace)) == 32
    finally:
        scheduler.stop()


def preempt_calls(muster: MusterProcess) -> float:
    """Preempt calls that were answered, as the metrics count them."""
    return total(muster.metrics(), "muster_request_seconds_count", 'verb="preempt"')


def total(metrics: str, name: str, label: str = "") -> float:
    """The sum of a metric's series that have the label."""
    return sum(
        float(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith(name) and label in line
    )


def test_a_plain_pod_passes_while_gangs_wait(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """A pod without GPUs and without a gang is scheduled by the scheduler, bound by us."""
    client.create_all(gang_pods("wait", namespace, range(3), 8, least=4))
    wait_held(client, namespace, ["wait-0"], "of 4 pods exist")
    client.create(pod("plain", namespace, scheduler="muster"))
    client.create(pod("plain-2", namespace, scheduler="muster-plain"))
    wait_until(
        lambda: bound_names(client, namespace) == ["plain", "plain-2"], 30, what="plain pods run"
    )
