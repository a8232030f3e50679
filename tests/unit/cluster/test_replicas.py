"""Two replicas on one API server: only the one that leads binds, and the other one goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster import leases
from cluster.fake_apiserver import NODES, PODS, FakeApi, Json, node, pod, until
from scheduler.cluster import Connection
from scheduler.service import Service
from scheduler.settings import from_mapping

BINDING = r"/api/v1/namespaces/t/pods/\S+/binding"


def member(name: str, gang: str, least: int = 2) -> Json:
    made = pod(name, schedulerName="muster")
    made["spec"]["containers"] = [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]
    made["metadata"]["annotations"] = {
        "muster.scheduler/gang": gang,
        "muster.scheduler/min-available": str(least),
    }
    return made


def gang(api: FakeApi, name: str, pods: int = 2) -> None:
    for at in range(pods):
        api.put(PODS, member(f"{name}-{at}", name, pods))


def bound(api: FakeApi) -> set[str]:
    objects = api.collections[PODS].objects
    return {name for (_, name), found in objects.items() if found["spec"].get("nodeName")}


def stage(service: Service, name: str) -> str:
    found = [item["state"] for item in service.gangs() if item["key"] == f"t/{name}"]
    return str(found[0]) if found else ""


@pytest.fixture
def replicas(api: FakeApi, tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """Of the pods muster-a, which leads, and muster-b; both know the cluster."""
    leases.put(api, "muster-a_1")
    for name in ("n1", "n2"):
        api.put(NODES, node(name))
    settings = from_mapping({"retry_s": 0.1, "retry_max_s": 0.2})
    with ExitStack() as running:
        made = []
        for host in ("muster-a", "muster-b"):
            folder = tmp_path / host
            folder.mkdir()
            config = str(api.kubeconfig(folder, token=host))
            connection = Connection(settings, config, lease=leases.NAME, identity=host)
            made.append(running.enter_context(connection))
        until(lambda: all(service.ready for service in made) and made[0].leads)
        yield made[0], made[1]


def test_the_leader_binds_and_the_standby_shows_it(
    api: FakeApi, replicas: tuple[Service, Service]
) -> None:
    _, standby = replicas
    gang(api, "a")
    until(lambda: bound(api) == {"a-0", "a-1"})
    until(lambda: stage(standby, "a") == "running")
    assert api.count("POST", BINDING) == 2
    assert not standby.leads
    assert standby.leader == "muster-a_1"


def test_after_a_change_the_other_one_starts_what_waits_and_the_first_one_nothing(
    api: FakeApi, replicas: tuple[Service, Service]
) -> None:
    first, second = replicas
    gang(api, "a")
    until(lambda: bound(api) == {"a-0", "a-1"})
    # A Lease takes seconds to expire, in which the watch catches up.
    until(lambda: stage(second, "a") == "running")
    leases.put(api, "muster-b_9", 2)
    until(lambda: second.leads and not first.leads)
    gang(api, "b")
    until(lambda: bound(api) == {"a-0", "a-1", "b-0", "b-1"})
    assert api.count("POST", BINDING) == 4
    until(lambda: stage(first, "b") == "running")

    leases.put(api, "muster-a_1", 3)
    until(lambda: first.leads and not second.leads)
    api.put(NODES, node("n3"))
    gang(api, "c")
    until(lambda: {"c-0", "c-1"} <= bound(api))
    assert api.count("POST", BINDING) == 6


def test_bindings_that_fail_are_not_sent_again_by_who_leads_no_more(
    api: FakeApi, replicas: tuple[Service, Service]
) -> None:
    first, second = replicas
    api.fail("POST", BINDING, 500, times=100_000)
    gang(api, "a")
    api.wait(lambda: sent_by(api, "muster-a") >= 4)
    leases.put(api, "muster-b_9", 2)
    until(lambda: second.leads and not first.leads)
    sent = sent_by(api, "muster-a")
    api.wait(lambda: sent_by(api, "muster-b") >= 6)
    api.heal()
    until(lambda: bound(api) == {"a-0", "a-1"})
    assert sent_by(api, "muster-a") == sent


def sent_by(api: FakeApi, host: str) -> int:
    """How many Bindings a replica has sent."""
    return sum(
        request.method == "POST"
        and request.path.endswith("/binding")
        and request.headers.get("Authorization") == f"Bearer {host}"
        for request in api.requests
    )


def test_half_a_gang_of_the_first_one_is_made_whole_by_the_second(
    api: FakeApi, replicas: tuple[Service, Service]
) -> None:
    _, second = replicas
    api.fail("POST", r"/api/v1/namespaces/t/pods/a-1/binding", "hang", times=1)
    api.fail("POST", r"/api/v1/namespaces/t/pods/a-2/binding", 500, times=1)
    gang(api, "a", 3)
    api.wait_for_request("POST", r"/api/v1/namespaces/t/pods/a-\d/binding", 3)
    leases.put(api, "muster-b_9", 2)
    until(lambda: bound(api) == {"a-0", "a-1", "a-2"})
    until(lambda: stage(second, "a") == "running")
