"""The application over real HTTP, with a scripted engine behind it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from service.scripted import (
    ManualTimer,
    RecordingActuator,
    ScriptedEngine,
    Taken,
    binding,
    ref,
)

from scheduler.api import ServerThread, create_app, wire
from scheduler.api.app import MOST_LOOKS, MOST_WAIT_S
from scheduler.api.server import ServerError
from scheduler.core.messages import (
    BindCall,
    BindReply,
    EffectDone,
    Filter,
    FilterReply,
    NodeGone,
    Outcome,
    Preempt,
    Prioritize,
    Synced,
)
from scheduler.service import Service
from scheduler.service.patience import MOST_S, SHARE, Patience
from scheduler.settings import Settings

PATIENCE_S = 10.0
BODY_LIMIT = 4 << 20


class Clock:
    """The real one, and beside it what tests add to one that stands still."""

    def __init__(self) -> None:
        self.added = 0.0
        self.stands_still = False

    def __call__(self) -> float:
        return self.added if self.stands_still else time.monotonic()


class Site:
    """A server with a scripted engine, and a client."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine(gang_list=[{"key": "t/a", "state": "queued"}])
        self.actuator = RecordingActuator()
        self.service = Service(
            Settings(),
            self.actuator,
            engine=self.engine,
            timer=ManualTimer(),
            lock_wait_s=0.05,
            bind_deadline_s=PATIENCE_S,
        )
        self.service.start()
        self.clock = Clock()
        app = create_app(self.service, body_limit=BODY_LIMIT, patience=Patience(self.clock))
        self.server = ServerThread(app)
        self.server.start()
        self.client = httpx.Client(base_url=self.server.url, timeout=PATIENCE_S)

    def post(self, path: str, body: Any) -> Any:
        reply = self.client.post(path, content=json.dumps(body).encode())
        assert reply.status_code == 200, reply.text
        assert reply.headers["content-type"] == "application/json"
        return reply.json()

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Keep the engine busy, as a long plan would."""
        began, ended = threading.Event(), threading.Event()

        def plan(event: NodeGone) -> Taken:
            began.set()
            assert ended.wait(PATIENCE_S)
            return Taken()

        self.engine.on(NodeGone, plan)
        thread = threading.Thread(target=self.service.post, args=(NodeGone("n9"),))
        thread.start()
        assert began.wait(PATIENCE_S)
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def close(self) -> None:
        self.client.close()
        self.server.stop()
        self.service.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def pod(name: str, gang: str = "", gpus: int = 0) -> dict[str, Any]:
    annotations = {"muster.scheduler/gang": gang} if gang else {}
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {
            "namespace": "t",
            "name": name,
            "uid": f"uid-{name}",
            "annotations": annotations,
        },
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def args(pod: dict[str, Any], *names: str) -> dict[str, Any]:
    return {"Pod": pod, "Nodes": None, "NodeNames": list(names)}


def failing(event: object) -> Taken:
    raise RuntimeError("a bug")


class TestVerbs:
    def test_filter(self, site: Site) -> None:
        site.engine.on(Filter, lambda event: Taken(FilterReply(["n2"], {"n1": "full"}, {})))
        got = site.post("/filter", args(pod("a-0"), "n1", "n2"))
        assert (got["NodeNames"], got["FailedNodes"]) == (["n2"], {"n1": "full"})
        asked = site.engine.events[-1]
        assert isinstance(asked, Filter)
        assert (asked.ref, list(asked.names)) == (ref("a-0"), ["n1", "n2"])

    def test_an_answer_that_is_about_to_change_is_waited_for(self, site: Site) -> None:
        asked = iter(range(100))

        def twice_unsettled(event: Filter) -> Taken:
            if next(asked) < 2:
                return Taken(FilterReply([], {}, {"muster": "1 of 2 pods exist"}, unsettled=True))
            return Taken(FilterReply(["n2"], {}, {}))

        site.engine.on(Filter, twice_unsettled)
        assert site.post("/filter", args(pod("a-0"), "n1", "n2"))["NodeNames"] == ["n2"]
        assert next(asked) == 3

    def test_one_that_does_not_change_is_given_in_the_end(self, site: Site) -> None:
        hold = {"muster": "1 of 2 pods exist"}
        site.engine.on(Filter, lambda event: Taken(FilterReply([], {}, hold, unsettled=True)))
        got = site.post("/filter", args(pod("a-0"), "n1"))
        assert got["FailedAndUnresolvableNodes"] == hold
        counted = site.service.metrics.text().decode()
        assert "muster_filter_one_node_calls_total 1.0" in counted, "it was one call"
        assert 1 < len(site.engine.events) <= 1 + MOST_LOOKS

    def test_looks_that_take_long_are_few_and_used_up(self, site: Site) -> None:
        """Each look may have to wait for the engine, as long as the first one did."""
        site.clock.stands_still = True

        def slow(event: Filter) -> Taken:
            site.clock.added += 0.6 * MOST_WAIT_S
            return Taken(FilterReply([], {}, {"muster": "1 of 2 pods exist"}, unsettled=True))

        site.engine.on(Filter, slow)
        for _ in range(calls := 100):
            before = len(site.engine.events)
            site.post("/filter", args(pod("a-0"), "n1"))
            assert len(site.engine.events) - before <= 2
        held_back = (len(site.engine.events) - calls) * 0.6 * MOST_WAIT_S
        assert 0 < held_back <= MOST_S + MOST_WAIT_S + SHARE * site.clock.added

    def test_prioritize(self, site: Site) -> None:
        got = site.post("/prioritize", args(pod("a-0"), "n1", "n2"))
        assert got == [{"Host": "n1", "Score": 5}, {"Host": "n2", "Score": 5}]

    def test_preempt(self, site: Site) -> None:
        victims = {"n1": {"Pods": [{"UID": "v"}], "NumPDBViolations": 1}}
        got = site.post("/preempt", {"Pod": pod("a-0"), "NodeNameToMetaVictims": victims})
        assert got == {"NodeNameToMetaVictims": victims}

    def test_bind_answers_when_the_binding_is_confirmed(self, site: Site) -> None:
        site.engine.on(BindCall, binding)
        site.engine.on(EffectDone, lambda done: Taken(BindReply(ref("a-0"), "n1", "")))
        sent = threading.Event()
        site.actuator.react = lambda effect: sent.set()
        body = {"PodName": "a-0", "PodNamespace": "t", "PodUID": "uid-a-0", "Node": "n1"}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(site.post, "/bind", body)
            assert sent.wait(PATIENCE_S)
            other = site.post("/filter", args(pod("b"), "n1"))
            assert other["NodeNames"] == ["n1"], "a waiting bind call must not stop the server"
            assert not answer.done()
            site.service.post(EffectDone(1, Outcome.OK))
            assert answer.result(PATIENCE_S) == {"Error": ""}

    def test_bind_that_is_never_confirmed_answers_an_error(self, site: Site) -> None:
        site.service.bind_deadline_s = 0.05
        site.engine.on(BindCall, binding)
        body = {"PodName": "a-0", "PodNamespace": "t", "PodUID": "uid-a-0", "Node": "n1"}
        assert "not confirmed" in site.post("/bind", body)["Error"]
        assert site.service.waiting_binds == 0

    def test_whole_nodes_come_back_as_they_were(self, site: Site) -> None:
        nodes = [{"metadata": {"name": f"n{at}"}, "status": {"x": at / 3}} for at in range(3)]
        got = site.post("/filter", {"Pod": pod("p"), "Nodes": {"items": nodes}})
        assert got["Nodes"] == {"items": nodes}
        assert got["NodeNames"] is None

    def test_a_request_of_some_megabytes_is_no_problem(self, site: Site) -> None:
        nodes = [
            {"metadata": {"name": f"n{at}", "annotations": {"pad": "x" * 10_000}}}
            for at in range(200)
        ]
        got = site.post("/filter", {"Pod": pod("p"), "Nodes": {"items": nodes}})
        assert len(got["Nodes"]["items"]) == 200


class TestWhateverHappens:
    def test_while_the_planner_is_busy(self, site: Site) -> None:
        with site.planning():
            held = site.post("/filter", args(pod("a-0", gang="a"), "n1"))
            gpu = site.post("/filter", args(pod("g", gpus=1), "n1"))
            passed = site.post("/filter", args(pod("p"), "n1"))
            view = site.client.get("/v1/gangs")
        assert "busy" in held["FailedAndUnresolvableNodes"]["muster"]
        assert gpu["NodeNames"] == []
        assert passed["NodeNames"] == ["n1"]
        assert view.status_code == 503
        assert "try again" in view.json()["error"]

    def test_calls_that_wait_for_the_planner_keep_nobody_else_waiting(self, site: Site) -> None:
        site.service.lock_wait_s = 3 * PATIENCE_S
        with ThreadPoolExecutor(1) as pool:
            with site.planning():
                waiting = pool.submit(site.post, "/filter", args(pod("p"), "n1"))
                health = site.client.get("/healthz").status_code
                assert not waiting.done()
            assert waiting.result(PATIENCE_S)["NodeNames"] == ["n1"]
        assert health == 200

    def test_when_the_engine_fails(self, site: Site) -> None:
        for kind in (Filter, Prioritize, Preempt, BindCall):
            site.engine.on(kind, failing)
        held = site.post("/filter", args(pod("a-0", gang="a"), "n1"))
        assert (held["NodeNames"], held["Error"]) == ([], "")
        assert "internal error" in held["FailedAndUnresolvableNodes"]["muster"]
        assert site.post("/filter", args(pod("p"), "n1"))["NodeNames"] == ["n1"]
        assert site.post("/prioritize", args(pod("p"), "n1")) == [{"Host": "n1", "Score": 0}]
        assert site.post("/preempt", {"Pod": pod("p")}) == {"NodeNameToMetaVictims": {}}
        assert "internal error" in site.post("/bind", {"PodName": "p", "Node": "n1"})["Error"]

    def test_when_even_the_answer_cannot_be_written(self, site: Site) -> None:
        site.engine.on(Filter, lambda event: Taken(FilterReply([object()], {}, {})))  # type: ignore[list-item]
        got = site.post("/filter", args(pod("a-0"), "n1"))
        assert got["NodeNames"] == []
        assert "internal error" in got["FailedAndUnresolvableNodes"]["muster"]

    def test_a_pod_that_cannot_be_read_is_held_with_the_reason(self, site: Site) -> None:
        for body in (args({"metadata": None}, "n1"), {"NodeNames": ["n1"]}):
            got = site.post("/filter", body)
            assert got["NodeNames"] == []
            assert "cannot be read" in got["FailedAndUnresolvableNodes"]["muster"]

    @pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
    def test_what_is_no_json_is_the_clients_fault(self, site: Site, verb: str) -> None:
        reply = site.client.post(f"/{verb}", content=b"{")
        assert reply.status_code == 400
        assert "not JSON" in reply.json()["Error"]

    @pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
    def test_what_is_nested_too_deeply_is_the_clients_fault(self, site: Site, verb: str) -> None:
        deep = b'{"Pod":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        reply = site.client.post(f"/{verb}", content=deep)
        assert reply.status_code == 400
        assert "nested too deeply" in reply.json()["Error"]

    def test_a_body_over_the_limit_is_refused_with_advice(self, site: Site) -> None:
        reply = site.client.post("/filter", content=b" " * (BODY_LIMIT + 1))
        assert reply.status_code == 413
        assert "nodeCacheCapable" in reply.json()["Error"]

    def test_the_limit_holds_without_a_stated_length(self, site: Site) -> None:
        def chunks() -> Iterator[bytes]:
            for _ in range(BODY_LIMIT // 65_536 + 1):
                yield b" " * 65_536

        assert site.client.post("/filter", content=chunks()).status_code == 413

    def test_another_method_is_refused(self, site: Site) -> None:
        assert site.client.get("/filter").status_code == 405

    def test_a_client_that_leaves_in_the_middle_harms_nobody(self, site: Site) -> None:
        with socket.create_connection((site.server.host, site.server.port)) as broken:
            broken.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert site.post("/filter", args(pod("p"), "n1"))["NodeNames"] == ["n1"]


class TestViews:
    def test_ready_after_the_first_list_and_plain_pods_pass_before_it(self, site: Site) -> None:
        site.service.set_unready_reason("cannot list nodes: 403 Forbidden")
        reply = site.client.get("/readyz")
        assert (reply.status_code, reply.json()["reason"]) == (
            503,
            "cannot list nodes: 403 Forbidden",
        )
        assert site.client.get("/healthz").status_code == 200
        assert site.post("/filter", args(pod("p"), "n1"))["NodeNames"] == ["n1"]
        site.service.post(Synced())
        reply = site.client.get("/readyz")
        assert (reply.status_code, reply.json()) == (200, {"ready": True, "reason": ""})

    def test_gangs(self, site: Site) -> None:
        assert site.client.get("/v1/gangs").json()["gangs"] == [{"key": "t/a", "state": "queued"}]
        assert site.client.get("/v1/gangs/t/a").json()["state"] == "queued"
        assert site.client.get("/v1/gangs/t/a/why").json()["reason"] == "no room"

    def test_of_two_gangs_with_one_name_the_kind_tells(self, site: Site) -> None:
        kinds = ("t/c#Job.batch", "t/c#PyTorchJob.kubeflow.org")
        site.engine.gang_list += [{"key": key, "state": "forming"} for key in kinds]
        for path in ("/v1/gangs/t/c", "/v1/gangs/t/c/why"):
            answer = site.client.get(path)
            assert answer.status_code == 409
            assert all(kind in answer.json()["error"] for kind in kinds)
        assert site.client.get("/v1/gangs/t/c%23job").json()["key"] == kinds[0]

    @pytest.mark.parametrize("path", ["/v1/gangs/t/b", "/v1/gangs/t/b/why"])
    def test_an_unknown_gang_is_named(self, site: Site, path: str) -> None:
        reply = site.client.get(path)
        assert (reply.status_code, "t/b" in reply.json()["error"]) == (404, True)

    def test_nodes_and_snapshot(self, site: Site) -> None:
        site.engine.node_list = [{"name": "n1"}]
        found = site.client.get("/v1/nodes").json()
        assert found == {"levels": ["block", "rack"], "nodes": [{"name": "n1"}]}
        assert "gangs" in site.client.get("/v1/state").json()

    def test_topology(self, site: Site) -> None:
        def node(name: str, *path: str | None) -> dict[str, Any]:
            return {"name": name, "path": path, "gpus": 8, "used": 4, "reserved": 1}

        site.engine.node_list = [
            node("n1", "b1", "r1"),
            node("n2", "b1", "r2"),
            node("n3", "b1", None),
            node("n4", "b2", "r1"),
            node("n5", None, None),
        ]
        found = site.client.get("/v1/topology").json()
        assert found["levels"] == ["block", "rack"]
        assert [(item["path"], item["nodes"]) for item in found["domains"]] == [
            (["b1"], ["n1", "n2", "n3"]),
            (["b1", "r1"], ["n1"]),
            (["b1", "r2"], ["n2"]),
            (["b2"], ["n4"]),
            (["b2", "r1"], ["n4"]),
        ]
        whole = found["domains"][0]
        assert (whole["gpus"], whole["used"], whole["reserved"]) == (24, 12, 3)

    def test_metrics(self, site: Site) -> None:
        site.post("/filter", args(pod("p"), "n1"))
        site.client.post("/filter", content=b"{")
        text = site.client.get("/metrics").text
        assert 'muster_request_seconds_count{code="200",verb="filter"} 1.0' in text
        assert 'muster_request_seconds_count{code="400",verb="filter"} 1.0' in text
        assert 'muster_gangs{state="queued"} 1.0' in text
        assert "muster_reservations 3.0" in text
        assert "process_cpu_seconds_total" in text
        assert "muster_expired_reservations_total 7.0" in text
        assert "# HELP muster_step_seconds Seconds that" in text


class TestServer:
    def test_a_port_in_use_is_said_at_once(self, site: Site) -> None:
        with pytest.raises(ServerError, match=f"cannot listen on 127.0.0.1:{site.server.port}"):
            ServerThread(create_app(site.service), port=site.server.port)

    def test_stop_lets_a_request_finish(self, site: Site) -> None:
        began, ended = threading.Event(), threading.Event()

        def slow(event: Filter) -> Taken:
            began.set()
            assert ended.wait(PATIENCE_S)
            return Taken(FilterReply(event.names, {}, {}))

        site.engine.on(Filter, slow)
        with ThreadPoolExecutor(2) as pool:
            answer = pool.submit(site.post, "/filter", args(pod("p"), "n1"))
            assert began.wait(PATIENCE_S)
            stopping = pool.submit(site.server.stop)
            ended.set()
            assert answer.result(PATIENCE_S)["NodeNames"] == ["n1"]
            stopping.result(PATIENCE_S)
        assert not site.server.alive


def test_large_bodies_are_read_outside_the_event_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, threads = wire.read_preempt, list[str]()

    def noted(body: bytes) -> wire.PreemptArgs:
        threads.append(threading.current_thread().name)
        return read(body)

    monkeypatch.setattr(wire, "read_preempt", noted)
    victims = {f"n{at}": {"Pods": [{"UID": "u" * 400}]} for at in range(1000)}
    for amount in (1, 1000):
        some = dict(list(victims.items())[:amount])
        body = {"Pod": {"metadata": {"uid": "p"}}, "NodeNameToMetaVictims": some}
        assert site.client.post("/preempt", json=body).status_code == 200

    assert threads[0] == "muster-http"
    assert threads[1].startswith("muster-verb")


def test_a_snapshot_of_no_known_cluster_is_refused_and_not_an_empty_one(site: Site) -> None:
    reply = site.client.get("/v1/snapshot")

    assert reply.status_code == 404
    assert "/v1/state" in reply.json()["error"]
