"""Gangs that others declare, on an API server that serves Kubernetes' own gangs as well."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.objects import create_nodes, fleet, pod
from tests.e2e.controlplane.scheduler import Scheduler
from tests.e2e.definitions import serve
from tests.e2e.ecosystems import (
    DEFINITIONS,
    ECOSYSTEMS,
    GANG_CYCLES,
    HAS_NATIVE,
    LATE,
    MEMBERS,
    NATIVE_API,
    Declared,
    coscheduling,
    definition,
)
from tests.e2e.gangs import rack_of, scheduled_message
from tests.e2e.muster import MusterProcess, start_muster_scheduler
from tests.e2e.own_plane import own_plane

pytestmark = pytest.mark.e2e

HYPERNODE = "topology.volcano.sh/v1alpha1/HyperNode"

native_only = pytest.mark.skipif(
    not HAS_NATIVE, reason="Kubernetes has PodGroups of its own from 1.36 on"
)


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane of this file's own."""
    with own_plane(request, api_server_flags=NATIVE_API if HAS_NATIVE else ()) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    """The administrator's client."""
    client = control_plane.client()
    yield client
    client.close()


@pytest.fixture(scope="module")
def muster(control_plane: Cluster, client: Client) -> Iterator[MusterProcess]:
    """Muster, ready, on 32 nodes in four racks; another kind of PodGroup appears a moment later."""
    for crd in DEFINITIONS:
        serve(client, crd)
    create_nodes(client, fleet())
    with MusterProcess(control_plane, env={"MUSTER_SET_DISCOVER_S": "1"}) as process:
        serve(client, LATE)
        yield process


@pytest.fixture(scope="module")
def scheduler(muster: MusterProcess) -> Iterator[Scheduler]:
    """The second kube-scheduler, which asks Muster."""
    started = start_muster_scheduler(muster)
    yield started
    started.stop()


def nodes_of(client: Client, namespace: str) -> dict[str, str]:
    pods = client.list("Pod", namespace)
    return {
        item["metadata"]["name"]: item["spec"]["nodeName"]
        for item in pods
        if item["spec"].get("nodeName")
    }


def assert_starts_whole(
    client: Client, namespace: str, muster: MusterProcess, gang: Declared, *, asked: bool = True
) -> None:
    """Nothing is bound while the last pod is missing; with it all are, in one rack, in order.

    Unless the scheduler waits for the whole gang by itself, it has ``asked`` for each pod before.
    """
    *most, last = gang.pods
    client.create_all(gang.objects)
    client.create_all(most)
    waiting = {"state": "forming", "min": len(gang.pods), "members": len(most), "bound": 0}
    wait_until(
        lambda: waiting.items() <= only_gang(muster, namespace).items(),
        120,
        what=f"the gang is known as {waiting}",
    )
    if asked:
        wait_until(lambda: all(map(scheduled_message, client.list("Pod", namespace))), 30)
    assert nodes_of(client, namespace) == {}
    client.create(last)
    whole = len(gang.pods)
    wait_until(lambda: len(nodes_of(client, namespace)) == whole, 60, what="all are bound")
    assert len({rack_of(node) for node in nodes_of(client, namespace).values()}) == 1
    in_order = [item["metadata"]["name"] for item in gang.pods]
    assert ranks(client, namespace) == {name: rank for rank, name in enumerate(in_order)}


def only_gang(muster: MusterProcess, namespace: str) -> Object:
    """The one gang of a namespace, as Muster shows it."""
    shown = json.loads(muster.get("/v1/gangs"))["gangs"]
    found = [gang for gang in shown if gang["key"].startswith(f"{namespace}/")]
    assert len(found) <= 1
    return found[0] if found else {}


def ranks(client: Client, namespace: str) -> dict[str, int]:
    """The rank of each pod by its hint."""
    return {
        item["metadata"]["name"]: json.loads(
            item["metadata"]["annotations"]["muster.scheduler/hint"]
        )["rank"]
        for item in client.list("Pod", namespace)
    }


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=native_only if name == "native" else ()) for name in ECOSYSTEMS],
)
def test_a_gang_of_any_ecosystem_starts_whole(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler, name: str
) -> None:
    """Seven of eight wait; with the eighth all start, in one rack and in rank order."""
    assert_starts_whole(client, namespace, muster, ECOSYSTEMS[name](namespace))


@native_only
def test_a_native_gang_starts_whole_though_its_scheduler_plans_gangs_too(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """With its gang cycles on, kube-scheduler waits for the gang as well, and Muster is quicker."""
    off, on = scheduler.flags, [f"{flag},{GANG_CYCLES}" for flag in scheduler.flags]
    scheduler.restart(flags=on)
    try:
        assert_starts_whole(client, namespace, muster, ECOSYSTEMS["native"](namespace), asked=False)
    finally:
        scheduler.restart(flags=off)


def test_a_kind_of_pod_group_that_appears_later_is_picked_up(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """Defined when Muster ran already; its gangs wait until their PodGroup can be read."""
    assert_starts_whole(client, namespace, muster, coscheduling(namespace))


def ringed(namespace: str) -> Declared:
    """Eight members that must share a HyperNode of the tier that is called ``ring``."""
    near = {"mode": "hard", "highestTierName": "ring"}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "ringed", "namespace": namespace},
        "spec": {"minMember": MEMBERS, "networkTopology": near},
    }
    named = {"scheduling.k8s.io/group-name": "ringed"}
    members = [
        pod(f"ringed-{at}", namespace, annotations=named, gpus=8, scheduler="muster")
        for at in range(MEMBERS)
    ]
    return Declared(members, [group])


def ring(name: str, pattern: str) -> Object:
    """A HyperNode that cuts across all racks."""
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    return {
        "apiVersion": HYPERNODE.rpartition("/")[0],
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "tierName": "ring", "members": members},
    }


def levels(muster: MusterProcess) -> list[str]:
    found: list[str] = json.loads(muster.get("/v1/status"))["levels"]
    return found


def test_a_tier_of_hypernodes_that_appears_later_is_what_a_gang_has_waited_for(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    """Held while nobody knows the level; placed by it as soon as HyperNodes say what it is."""
    gang = ringed(namespace)
    client.create_all([*gang.objects, *gang.pods])
    wait_until(
        lambda: "'ring' is unknown" in str(only_gang(muster, namespace)),
        60,
        what="the gang is held for a level that nobody knows",
    )
    assert nodes_of(client, namespace) == {}
    before = levels(muster)

    serve(client, definition("HyperNode", "topology.volcano.sh", "v1alpha1", scope="Cluster"))
    client.create_all([ring("even", "n[02468]$"), ring("odd", "n[13579]$")])

    wait_until(lambda: len(nodes_of(client, namespace)) == MEMBERS, 60, what="all are bound")
    assert len({int(node[-1]) % 2 for node in nodes_of(client, namespace).values()}) == 1
    assert levels(muster) == ["volcano-tier-1"]
    client.delete_all(HYPERNODE)
    wait_until(lambda: levels(muster) == before, 30, what="the tier is gone again")


@native_only
def test_a_native_pod_group_says_that_its_gang_has_started(
    client: Client, namespace: str, muster: MusterProcess, scheduler: Scheduler
) -> None:
    gang = ECOSYSTEMS["native"](namespace)
    client.create_all(gang.objects)
    client.create_all(gang.pods)
    (group,) = gang.objects
    kind, name = f"{group['apiVersion']}/{group['kind']}", group["metadata"]["name"]

    def condition() -> Object:
        found = client.get(kind, name, namespace).get("status", {}).get("conditions", [])
        mine = [item for item in found if item["type"] == "PodGroupScheduled"]
        return mine[0] if mine else {}

    wait_until(lambda: condition().get("status") == "True", 60, what="the condition is written")
    assert condition()["reason"] == "GangStarted"
    assert len(nodes_of(client, namespace)) == MEMBERS
