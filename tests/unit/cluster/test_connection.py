"""The real engine between HTTP and a fake API server: gangs start, whatever the API server does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.fake_apiserver import NODES, PODS, FakeApi, Json, node, pod, pod_group, until
from scheduler.api import ServerThread, create_app
from scheduler.cluster import Connection, connection, yielding
from scheduler.service import Service
from scheduler.settings import Settings

BINDING = r"/api/v1/namespaces/t/pods/\S+/binding"


class Site:
    """Muster with its server, connected to the fake API server."""

    def __init__(self, api: FakeApi, folder: Path) -> None:
        self.api = api
        self.connection = Connection(Settings(), str(api.kubeconfig(folder)))
        self.service: Service = self.connection.__enter__()
        self.server = ServerThread(create_app(self.service))
        self.server.start()
        self.client = httpx.Client(base_url=self.server.url, timeout=15.0)

    def ready(self) -> None:
        until(lambda: self.service.ready)

    def call(self, verb: str, body: Json) -> Any:
        reply = self.client.post(f"/{verb}", json=body)
        assert reply.status_code == 200
        return reply.json()

    def filter(self, asked: Json, *names: str) -> Any:
        return self.call("filter", {"Pod": asked, "NodeNames": list(names)})

    def bound(self) -> dict[str, str]:
        return {
            name: found["spec"]["nodeName"]
            for (_, name), found in self.api.collections[PODS].objects.items()
            if "nodeName" in found["spec"]
        }

    def close(self) -> None:
        self.client.close()
        self.server.stop()
        self.connection.__exit__(None, None, None)


@pytest.fixture
def site(api: FakeApi, tmp_path: Path) -> Iterator[Site]:
    site = Site(api, tmp_path)
    yield site
    site.close()


def member(name: str, least: int = 2, gpus: int = 4, **spec: Any) -> Json:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    made = pod(name, schedulerName="muster", **spec)
    made["spec"]["containers"] = [{"name": "c", "resources": resources}]
    made["metadata"]["annotations"] = {
        "muster.scheduler/gang": "a",
        "muster.scheduler/min-available": str(least),
    }
    return made


def test_a_gang_is_held_and_then_bound_whole_with_its_hints(api: FakeApi, site: Site) -> None:
    api.put(NODES, node("n1"))
    first = api.put(PODS, member("a-0"))
    site.ready()
    until(lambda: site.service.knows("uid-a-0"))
    held = site.filter(first, "n1")
    assert held["NodeNames"] == []
    assert "1 of 2" in held["FailedAndUnresolvableNodes"]["muster"]
    api.put(PODS, member("a-1"))
    api.wait(lambda: site.bound() == {"a-0": "n1", "a-1": "n1"})
    hints = [
        json.loads(api.pod(name)["metadata"]["annotations"]["muster.scheduler/hint"])
        for name in ("a-0", "a-1")
    ]
    assert sorted(hint["rank"] for hint in hints) == [0, 1]
    api.wait(lambda: sum(event["reason"] == "Scheduled" for event in api.events) == 2)


def test_lost_replies_do_not_bind_twice(api: FakeApi, site: Site) -> None:
    api.put(NODES, node("n1"))
    api.fail("POST", BINDING, "lost", times=2)
    for at in range(2):
        api.put(PODS, member(f"a-{at}"))
    api.wait(lambda: len(site.bound()) == 2)
    api.wait_for_request("GET", r"/api/v1/namespaces/t/pods/a-\d")
    assert api.count("POST", BINDING) == 2


def test_a_failed_binding_is_sent_again(api: FakeApi, site: Site) -> None:
    api.put(NODES, node("n1"))
    api.fail("POST", BINDING, 500, times=1)
    for at in range(2):
        api.put(PODS, member(f"a-{at}"))
    api.wait(lambda: len(site.bound()) == 2)
    assert api.count("POST", BINDING) == 3


def test_the_schedulers_bind_call_is_answered_when_the_pod_is_bound(
    api: FakeApi, site: Site
) -> None:
    api.put(NODES, node("n1"))
    for at in range(2):
        api.put(PODS, member(f"a-{at}"))
    api.wait(lambda: len(site.bound()) == 2)
    body = {"PodNamespace": "t", "PodName": "a-0", "PodUID": "uid-a-0", "Node": "n1"}
    assert site.call("bind", body) == {"Error": ""}
    assert site.call("bind", {**body, "PodUID": "uid-other"})["Error"]
    assert site.call("bind", {**body, "Node": "n2"})["Error"]
    assert api.count("POST", BINDING) == 2


def test_plain_pods_pass_and_members_wait_while_the_api_server_refuses(
    api: FakeApi, tmp_path: Path
) -> None:
    api.fail("GET", NODES, 403, times=100_000)
    site = Site(api, tmp_path)
    try:
        api.wait_for_request("GET", NODES, 2)
        assert site.filter(pod("p"), "n1", "n2")["NodeNames"] == ["n1", "n2"]
        assert site.filter(member("a-0"), "n1", "n2")["NodeNames"] == []
        reply = site.client.get("/readyz")
        assert reply.status_code == 503
        assert "cannot list nodes: 403" in reply.json()["reason"]
    finally:
        site.close()


def test_a_deleted_pod_gives_its_node_back_even_if_nobody_said_so(api: FakeApi, site: Site) -> None:
    api.put(NODES, node("n1"))
    api.put(PODS, member("g", least=1, gpus=8, nodeName="n1"))
    until(lambda: site.service.knows("uid-g"))
    api.delete(PODS, "t", "g", quietly=True)
    api.compact(PODS)
    api.cut(PODS)
    for at in range(2):
        late = member(f"b-{at}")
        late["metadata"]["annotations"]["muster.scheduler/gang"] = "b"
        api.put(PODS, late)
    api.wait(lambda: site.bound() == {"b-0": "n1", "b-1": "n1"})


def test_people_see_the_gang_and_the_metrics(api: FakeApi, site: Site) -> None:
    api.put(NODES, node("n1"))
    api.put(PODS, member("a-0"))
    site.ready()
    until(lambda: site.client.get("/v1/gangs/t/a").status_code == 200)
    gang = site.client.get("/v1/gangs/t/a").json()
    assert (gang["state"], gang["members"], gang["min"]) == ("forming", 1, 2)
    assert site.client.get("/v1/gangs/t/a/why").json()["missing_pods"] == 1
    assert [item["name"] for item in site.client.get("/v1/nodes").json()["nodes"]] == ["n1"]
    assert site.client.get("/v1/topology").status_code == 200
    assert "t/a" in site.client.get("/v1/state").json()["gangs"]
    assert 'muster_gangs{state="forming"} 1.0' in site.client.get("/metrics").text


def test_a_pod_group_is_told_why_its_gang_waits(api: FakeApi, tmp_path: Path) -> None:
    path = api.serve("scheduling.x-k8s.io", "v1alpha1", "podgroups")
    api.put(path, pod_group("big", 2))
    site = Site(api, tmp_path)
    try:
        site.ready()
        api.put(NODES, node("n1"))
        for at in range(2):
            made = member(f"a-{at}", gpus=8)
            made["metadata"]["annotations"] = {}
            made["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "big"}
            api.put(PODS, made)
        api.wait(lambda: any(event["regarding"]["kind"] == "PodGroup" for event in api.events))
        (told,) = (event for event in api.events if event["regarding"]["kind"] == "PodGroup")
        assert (told["regarding"]["name"], told["regarding"]["uid"]) == ("big", "uid-big")
        assert told["reason"] in ("GangWaiting", "GangNeverFits")
    finally:
        site.close()


def test_while_a_large_gang_is_bound_what_is_only_seen_waits(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yielding, "LONGEST_S", 3600.0)
    monkeypatch.setattr(connection, "READ_S", 2.0)
    for at in range(40):
        api.put(NODES, node(f"n{at}"))
        api.put(PODS, member(f"a-{at}", least=40, gpus=8))
    api.fail("POST", BINDING.replace(r"\S+", "a-7"), "hang")
    site = Site(api, tmp_path)
    api.wait(lambda: len(site.bound()) == 40)
    api.put(PODS, pod("late"))
    api.put(NODES, node("later"))
    until(lambda: site.service.overview()["nodes"]["total"] == 41)
    assert not site.service.knows("uid-late")
    until(lambda: site.service.knows("uid-late"))
    site.close()
