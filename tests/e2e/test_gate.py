"""Gangs that wait behind Muster's own scheduling gate, as an admission policy sets it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.controlplane.client import Client, Object, wait_until
from tests.e2e.controlplane.objects import pod
from tests.e2e.deployed import make, need_policies, policies, renamed
from tests.e2e.gangs import gang_pods, placed
from tests.e2e.muster import MusterProcess

pytestmark = pytest.mark.e2e

OWN = {"name": "muster.scheduler/gang"}
LABEL = {"metadata": {"labels": {"muster.scheduler/gated": "true"}}}


@pytest.fixture
def policy(client: Client, namespace: str) -> Iterator[None]:
    """The component's policy, at work in the test's namespace."""
    need_policies(client)
    with ExitStack() as made:
        for item in policies("gate"):
            make(client, made, renamed(item, namespace))
        client.patch("Namespace", namespace, LABEL)
        wait_until(lambda: gates_given(client, namespace), what="the policy sets its gate")
        yield


def gates_given(client: Client, namespace: str) -> list[Object]:
    """The gates that a pod would get."""
    probe = pod("probe", namespace, scheduler="muster")
    found = client.request(
        "POST", client.path("Pod", namespace=namespace), query={"dryRun": "All"}, body=probe
    )
    gates: list[Object] = found["spec"].get("schedulingGates", [])
    return gates


def gates(client: Client, namespace: str) -> list[list[Object]]:
    pods = client.list("Pod", namespace)
    return [item["spec"].get("schedulingGates", []) for item in pods]


def filter_calls(muster: MusterProcess) -> float:
    return sum(
        float(line.rpartition(" ")[2])
        for line in muster.metrics().splitlines()
        if line.startswith("muster_request_seconds_count{") and 'verb="filter"' in line
    )


@pytest.mark.usefixtures("policy", "scheduler")
def test_members_wait_at_no_cost_and_start_as_one(
    client: Client, namespace: str, muster: MusterProcess
) -> None:
    client.create_all(gang_pods("train", namespace, range(7), 4, least=8))
    wait_until(
        lambda: json.loads(muster.get(f"/v1/gangs/{namespace}/train/why"))["missing_pods"] == 1,
        what="Muster knows of seven members",
    )
    assert gates(client, namespace) == [[OWN]] * 7
    assert filter_calls(muster) == 0, "the scheduler has nothing to ask about gated pods"

    client.create_all(gang_pods("train", namespace, [7], 4, least=8))

    wait_until(
        lambda: len(placed(client, namespace, "train-")) == 8, 30, what="all eight are bound"
    )
    assert gates(client, namespace) == [[]] * 8
    assert [member.hint["rank"] for member in placed(client, namespace, "train-")] == list(range(8))


@pytest.mark.usefixtures("policy", "scheduler")
def test_a_nominated_gang_starts_without_a_pause(
    client: Client, namespace: str, muster: MusterProcess
) -> None:
    """A pod that was gated has no back-off that it would have to wait for."""
    options = {"start": "nominate"}
    client.create_all(gang_pods("train", namespace, range(4), 8, least=4, options=options))
    wait_until(lambda: len(placed(client, namespace, "train-")) == 4, 30, what="all four are bound")
    assert filter_calls(muster) >= 4, "each went through the scheduler"


@pytest.mark.usefixtures("policy", "scheduler", "muster")
def test_a_plain_pod_is_let_go_at_once(client: Client, namespace: str) -> None:
    client.create(pod("plain", namespace, scheduler="muster"))
    wait_until(
        lambda: client.get("Pod", "plain", namespace)["spec"].get("nodeName"),
        30,
        what="the plain pod is bound",
    )


@pytest.mark.usefixtures("policy", "scheduler")
def test_the_gate_of_somebody_else_is_not_touched(
    client: Client, namespace: str, muster: MusterProcess
) -> None:
    other = {"name": "example.com/quota"}
    for item in gang_pods("train", namespace, range(2), 4, least=2, schedulingGates=[other]):
        client.create(item)
    wait_until(
        lambda: "2 gated" in json.loads(muster.get(f"/v1/gangs/{namespace}/train/why"))["reason"],
        what="Muster waits for the other gate",
    )
    found = gates(client, namespace)
    assert [sorted(gate["name"] for gate in one) for one in found] == [
        sorted((other["name"], OWN["name"]))
    ] * 2

    for at in range(2):
        change = {"spec": {"schedulingGates": [{"name": other["name"], "$patch": "delete"}]}}
        client.request(
            "PATCH",
            client.path("Pod", f"train-{at}", namespace),
            body=change,
            content_type="application/strategic-merge-patch+json",
        )

    wait_until(lambda: len(placed(client, namespace, "train-")) == 2, 30, what="both are bound")


@pytest.mark.usefixtures("policy")
def test_pods_of_others_get_none(client: Client, namespace: str) -> None:
    for item in (
        pod("other", namespace, scheduler="default-scheduler"),
        pod("plain", namespace, scheduler="muster-plain"),
        pod("placed", namespace, scheduler="muster", nodeName="b0-r0-n0"),
    ):
        client.create(item)
    assert gates(client, namespace) == [[]] * 3
