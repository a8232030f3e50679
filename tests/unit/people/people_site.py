"""A real service over real HTTP with a small cluster in it, the command line, and an API server."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from scheduler import cli, decode
from scheduler.api import ServerThread, create_app
from scheduler.core.messages import (
    Bind,
    Effect,
    EffectDone,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Synced,
)
from scheduler.service import Post, Service
from scheduler.settings import Settings
from tests import builders

LEVELS = ("topo/block", "topo/rack")
PATIENCE_S = 20.0


class Clock:
    """Seconds that only the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Binder:
    """An actuator with which every effect works at once."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self._post: Post = lambda event: None

    def start(self, post: Post) -> None:
        self._post = post

    def submit(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self.bound[str(effect.ref)] = effect.node
                self._post(EffectDone(effect.id, Outcome.OK))

    def stop(self, deadline_s: float) -> None:
        """Nothing is under way."""


class Still:
    """A timer that never fires."""

    def start(self, fire: Any) -> None:
        """Never fires."""

    def set(self, due: float | None) -> None:
        """Never fires."""

    def stop(self) -> None:
        """Never fired."""


class Site:
    """A service with nodes ``b0/r0/n0`` … and what a test puts on them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.binder = Binder()
        self.objects: dict[str, Any] = {}
        self.service = Service(
            Settings(levels=LEVELS),
            self.binder,
            clock=self.clock,
            timer=Still(),
            objects=self.objects.values,
            lock_wait_s=5.0,
        )
        self.service.start()
        self.server = ServerThread(create_app(self.service))
        self.server.start()
        self.url = self.server.url

    def nodes(self, blocks: int = 2, racks: int = 2, nodes: int = 2, gpu: int = 8) -> None:
        """``b0-r0-0`` and so on."""
        for block in range(blocks):
            for rack in range(racks):
                for at in range(nodes):
                    name = f"b{block}-r{rack}-{at}"
                    self.node(name, gpu=gpu, block=f"b{block}", rack=f"r{rack}")

    def node(self, name: str, **more: Any) -> None:
        self.objects[name] = builders.node(name, **more)
        self.service.post(NodeSeen(decode.node(self.objects[name])))

    def pod(self, key: str, **more: Any) -> None:
        self.objects[key] = builders.pod(key, **more)
        self.service.post(PodSeen(decode.pod(self.objects[key])))

    def gone(self, key: str) -> None:
        self.service.post(PodGone(key))

    def gang(self, name: str, pods: int, gpu: int, **more: Any) -> None:
        for at in range(pods):
            self.pod(f"t/{name}-{at}", gpu=gpu, gang=name, min=pods, **more)

    def synced(self) -> None:
        self.service.post(Synced())

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())

    def text(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE_S) as answer:
            found: str = answer.read().decode()
            return found

    def close(self) -> None:
        self.server.stop()
        self.service.stop()


@contextmanager
def site() -> Iterator[Site]:
    """A site that is stopped at the end."""
    made = Site()
    try:
        yield made
    finally:
        made.close()


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def line(self, word: str) -> str:
        """The only line that begins with a word, without it."""
        found = [line.strip() for line in self.out.splitlines() if line.strip().startswith(word)]
        assert len(found) == 1, f"{word!r} begins {len(found)} lines of:\n{self.out}"
        return found[0].removeprefix(word).strip()


def muster(*arguments: str, given: str | None = None, **environment: str) -> Ran:
    """Run the command as a user does, without the terminal."""
    unset: dict[str, str | None] = {"MUSTER_SERVER": None, "KUBECONFIG": None}
    found = CliRunner().invoke(
        cli.build(arguments), list(arguments), input=given, env={**unset, **environment}
    )
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Ran(found.exit_code, found.stdout, found.stderr)


# ── an API server ──


class ApiServer:
    """Passes what comes for a Service or a pod on to Muster, as the API server's proxy does.

    ``mode``: ``service``, ``pod`` (there is no Service), ``nothing`` (neither), ``forbidden``,
    ``no-endpoints``.
    """

    def __init__(self, muster: str, mode: str = "service") -> None:
        self.muster, self.mode = muster, mode
        self.asked: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, folder: Path, namespace: str | None = None, token: str = "a-token") -> str:
        context = {"cluster": "k", "user": "u"} | ({"namespace": namespace} if namespace else {})
        path = folder / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": context}],
        }
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def answer(
        self, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        home = "/api/v1/namespaces/muster-system/"
        if self.mode == "forbidden":
            return _status(403, 'services "muster:http" is forbidden')
        if path.startswith(home + "pods?"):
            return 200, json.dumps({"items": self._pods()}).encode()
        ways = {"service": "services/muster:http/proxy", "pod": "pods/muster-1:8086/proxy"}
        way = home + ways.get(self.mode, "none")
        if self.mode == "no-endpoints":
            return _status(503, 'no endpoints available for service "muster:http"')
        if not path.startswith(way):
            return _status(404, 'services "muster" not found')
        return _passed_on(method, self.muster + path.removeprefix(way), body, headers)

    def _pods(self) -> list[dict[str, Any]]:
        ready = [{"type": "Ready", "status": "True"}]
        waiting = {"metadata": {"name": "muster-0"}, "status": {"conditions": []}}
        answering = {"metadata": {"name": "muster-1"}, "status": {"conditions": ready}}
        return [waiting, answering] if self.mode == "pod" else [waiting]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = self.headers.get("Authorization", "")
                api.asked.append((self.command, self.path, token))
                headers = dict(self.headers.items())
                api.headers.append(headers)
                # As the API server does, once it knows who that is.
                headers.pop("Authorization", None)
                status, content = api.answer(self.command, self.path, body, headers)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815

        return Handler


def _status(code: int, text: str) -> tuple[int, bytes]:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text}
    return code, json.dumps(body).encode()


def _passed_on(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    own = {name: text for name, text in headers.items() if name.startswith("X-")}
    request = urllib.request.Request(url, body or None, own, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
