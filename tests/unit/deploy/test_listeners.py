"""Two addresses of one server: the scheduler's, and one that shows and changes nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler.api import Address, ServerError, ServerThread, create_app
from scheduler.service import Service
from scheduler.settings import Settings

PATIENCE_S = 30.0
VERBS = ("filter", "prioritize", "bind", "preempt")


class NoEffects:
    """An actuator that is never asked."""

    def start(self, post: object) -> None:
        """Nothing to start."""

    def submit(self, effects: object) -> None:
        """Nothing to do."""

    def stop(self, deadline_s: float) -> None:
        """Nothing to stop."""


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service(Settings(), NoEffects())
    service.start()
    yield service
    service.stop()


@pytest.fixture
def server(service: Service) -> Iterator[ServerThread]:
    with ServerThread(create_app(service), views=Address("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def views(server: ServerThread) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.views_url, timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture
def verbs(server: ServerThread) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client:
        yield client


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["POST", "GET", "PUT", "OPTIONS"])
def test_the_views_know_no_verb(views: httpx.Client, verb: str, method: str) -> None:
    assert views.request(method, f"/{verb}", content=b"{}").status_code == 404


@pytest.mark.parametrize("path", ["/v1/../bind", "//bind", "/bind/", "/v1/%2e%2e/bind", "/BIND"])
def test_no_other_spelling_reaches_a_verb(server: ServerThread, path: str) -> None:
    with socket.create_connection(
        (server.host, int(server.views_url.rpartition(":")[2]))
    ) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
        client.sendall(f"{head}X-Forwarded-Host: {server.host}:{server.port}\r\n".encode())
        client.sendall(b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
        assert re.match(rb"HTTP/1.1 (404|405) ", client.recv(100))


@pytest.mark.parametrize("verb", VERBS)
def test_the_schedulers_address_answers_them(verbs: httpx.Client, verb: str) -> None:
    body = {"Pod": {"metadata": {"name": "p", "namespace": "t"}}, "NodeNames": []}

    assert verbs.post(f"/{verb}", json=body).status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/v1/gangs", "/v1/nodes"])
def test_both_addresses_show_the_same(views: httpx.Client, verbs: httpx.Client, path: str) -> None:
    assert views.get(path).status_code == verbs.get(path).status_code == 200


def test_every_path_that_is_shown_is_one_that_reads(service: Service) -> None:
    from scheduler.api.listeners import views_only

    app = create_app(service)
    shown = {route.path for route in views_only(app).routes}  # type: ignore[attr-defined]
    whole = {route.path for route in app.routes}  # type: ignore[attr-defined]

    assert whole - shown == {*(f"/{verb}" for verb in VERBS), "/openapi.json"}
    assert {"/", "/healthz", "/readyz", "/metrics", "/v1/gangs"} <= shown


def test_readiness_is_told_on_both(views: httpx.Client, service: Service) -> None:
    service.set_unready_reason("nodes are not listed yet")

    answer = views.get("/readyz")

    assert (answer.status_code, answer.json()["reason"]) == (503, "nodes are not listed yet")


def test_no_metric_is_told_twice(views: httpx.Client) -> None:
    lines = views.get("/metrics").text.splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]

    assert any(name.startswith("muster_reservations") for name in samples)
    assert len(samples) == len(set(samples))


def test_a_stream_is_shown_there_too_and_ends_with_the_server(service: Service) -> None:
    with ServerThread(create_app(service), views=Address("127.0.0.1", 0)) as server:
        url = f"{server.views_url}/v1/events"
        with httpx.stream("GET", url, timeout=PATIENCE_S) as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: ready"
            server.stop(PATIENCE_S)
            assert "event: never" not in list(lines), "the stream has an end"
        assert not server.alive


def test_without_a_second_address_there_is_none(service: Service) -> None:
    with ServerThread(create_app(service)) as server:
        assert server.views_url == ""
        assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE_S).status_code == 200


def test_one_port_cannot_serve_both(service: Service) -> None:
    with pytest.raises(ServerError, match="choose another --views-port"):
        ServerThread(create_app(service), port=9, views=Address("127.0.0.2", 9))


def test_a_port_in_use_is_named_and_the_other_is_let_go(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        views = Address("127.0.0.1", taken.getsockname()[1])

        with pytest.raises(ServerError, match=f":{views.port}.* another --views-port"):
            ServerThread(create_app(service), port=port, views=views)

    with ServerThread(create_app(service), port=port):
        pass


def test_the_command_serves_both(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)
    options = ["--kubeconfig", str(kubeconfig), "--port", "0"]
    options += ["--views-host", "127.0.0.1", "--views-port", "0"]
    environment = {key: value for key, value in os.environ.items() if "MUSTER" not in key}
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler", "serve", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stderr is not None
        urls = {}
        for line in process.stderr:
            if found := re.search(r"(listening|views) on (http://\S+)", line):
                urls[found[1]] = found[2]
            if len(urls) == 2:
                break
        with httpx.Client(timeout=PATIENCE_S) as client:
            assert client.get(f"{urls['views']}/healthz").status_code == 200
            assert client.post(f"{urls['views']}/bind", json={}).status_code == 404
            assert client.post(f"{urls['listening']}/bind", json={}).status_code == 200
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


# Nobody listens there: views and probes are answered while the cluster is away, too.
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {token: none}}]
"""
