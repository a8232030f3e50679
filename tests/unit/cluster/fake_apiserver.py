"""A small API server over real HTTP: lists in pages, watches in chunks, and fails on demand."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

Json = dict[str, Any]

WATCHED = ("podgroups", "topologies", "clusternetworktopologies", "hypernodes")
"""Resources that are listed and watched where a group has them."""

PATIENCE_S = 15.0

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
_POD_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(?:/(\w+))?")
_EVENTS_PATH = re.compile(r"/apis/events.k8s.io/v1/namespaces/([^/]+)/events")


@dataclass
class Fault:
    """What happens instead to the next ``times`` requests that match.

    ``action``: a status to answer; ``lost`` carries the request out and drops the connection;
    ``reset`` drops it without; ``hang`` carries it out and does not answer until the server stops.
    """

    method: str
    path: str
    action: int | str
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)
    query: str = ""

    def matches(self, request: Request) -> bool:
        return (
            self.times > 0
            and self.method == request.method
            and re.fullmatch(self.path, request.path) is not None
            and self.query in request.query_text
        )


@dataclass
class Request:
    """A request as it came."""

    method: str
    path: str
    query_text: str
    body: Any
    headers: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.query_text))


class Collection:
    """One kind of object with its history."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Json] = {}
        self.history: list[tuple[int, bytes]] = []
        self.compacted = 0
        self.watches = 0
        """How many watches were ever opened."""
        self.cut = 0
        """Changes when all open watches have to end at once."""
        self.ended = 0
        """Changes when all open watches have to end in order."""


class FakeApi:
    """The server with its world. Everything may be called while requests are served."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.collections: dict[str, Collection] = {NODES: Collection(), PODS: Collection()}
        self.requests: list[Request] = []
        self.events: list[Json] = []
        self.faults: list[Fault] = []
        self.groups: dict[str, dict[str, list[str]]] = {}
        self.stopped = False
        self.version = 100
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self, folder: Path, token: str = "a-token") -> Path:
        path = folder / "kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    # ── the world ──

    def serve(self, group: str, version: str, *resources: str) -> str:
        """Serve an API group; the path of its PodGroups or topology objects."""
        with self.changed:
            self.groups.setdefault(group, {})[version] = list(resources)
            watched = next((name for name in resources if name in WATCHED), "")
            path = f"/apis/{group}/{version}/{watched or WATCHED[0]}"
            if watched:
                self.collections.setdefault(path, Collection())
            return path

    def withdraw(self, group: str) -> None:
        """Serve an API group no more."""
        with self.changed:
            for version, resources in self.groups.pop(group).items():
                for name in resources:
                    self.collections.pop(f"/apis/{group}/{version}/{name}", None)
            self.changed.notify_all()

    def put(self, path: str, obj: Json, *, quietly: bool = False) -> Json:
        """Add or change an object; ``quietly`` = the watches never hear of it."""
        with self.changed:
            found = self.collections[path]
            slot = _slot(obj)
            kind = "MODIFIED" if slot in found.objects else "ADDED"
            self._change(found, slot, obj, kind, quietly)
            return obj

    def delete(self, path: str, namespace: str, name: str, *, quietly: bool = False) -> None:
        with self.changed:
            found = self.collections[path]
            obj = found.objects.pop((namespace, name))
            self._change(found, None, obj, "DELETED", quietly)

    def say(self, path: str, line: bytes) -> None:
        """Send a line of the test's own to all watches."""
        with self.changed:
            self.version += 1
            self.collections[path].history.append((self.version, line))
            self.changed.notify_all()

    def bookmark(self, path: str) -> int:
        """Send a bookmark; its version."""
        with self.changed:
            self.version += 1
            metadata = {"resourceVersion": str(self.version)}
            line = json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode()
            self.collections[path].history.append((self.version, line))
            self.changed.notify_all()
            return self.version

    def compact(self, path: str) -> None:
        """Forget the history: a watch from an older version gets 410."""
        with self.changed:
            found = self.collections[path]
            found.history.clear()
            found.compacted = self.version

    def cut(self, path: str, *, in_order: bool = False) -> None:
        """End all watches, in order or in the middle of a chunk."""
        with self.changed:
            found = self.collections[path]
            if in_order:
                found.ended += 1
            else:
                found.cut += 1
            self.changed.notify_all()

    def fail(self, method: str, path: str, action: int | str, **more: Any) -> Fault:
        fault = Fault(method, path, action, **more)
        with self.changed:
            self.faults.append(fault)
        return fault

    def heal(self) -> None:
        with self.changed:
            self.faults.clear()

    def pod(self, name: str, namespace: str = "t") -> Json:
        with self.changed:
            return self.collections[PODS].objects[namespace, name]

    # ── waiting ──

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S)

    def wait_for_watch(self, path: str, count: int = 1) -> None:
        """Wait until a collection has been watched that often."""
        self.wait(lambda: self.collections[path].watches >= count)

    def wait_for_request(self, method: str, path: str, count: int = 1, query: str = "") -> None:
        self.wait(lambda: self.count(method, path, query) >= count)

    def count(self, method: str, path: str, query: str = "") -> int:
        return sum(
            request.method == method
            and re.fullmatch(path, request.path) is not None
            and query in request.query_text
            for request in self.requests
        )

    # ── inner ──

    def _change(
        self, found: Collection, slot: tuple[str, str] | None, obj: Json, kind: str, quietly: bool
    ) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if slot is not None:
            found.objects[slot] = obj
        if not quietly:
            line = json.dumps({"type": kind, "object": obj}).encode()
            found.history.append((self.version, line))
        self.changed.notify_all()


def _slot(obj: Json) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128
    block_on_close = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are part of the game."""


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"api": api})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    api: FakeApi

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        """As usual, but an idle connection is given up only when the server stops."""
        while not self.api.stopped:
            self.connection.settimeout(0.02)
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
            self.connection.settimeout(PATIENCE_S)
            with suppress(OSError):
                super().handle_one_request()
            return
        self.close_connection = True

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_GET  # noqa: N815

    def _serve(self) -> None:
        request = self._request()
        fault = self._fault(request)
        if fault is None:
            self._answer_to(request)
        elif isinstance(fault.action, int):
            self._status(fault.action, f"fault {fault.action}", fault.headers)
        else:
            if fault.action != "reset":
                self._handle(request)
            if fault.action == "hang":
                with self.api.changed:
                    self.api.changed.wait_for(lambda: self.api.stopped, PATIENCE_S)
            self._hang_up()

    def _request(self) -> Request:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            parts.query,
            json.loads(raw) if raw else None,
            dict(self.headers.items()),
        )
        with self.api.changed:
            self.api.requests.append(request)
            self.api.changed.notify_all()
        return request

    def _fault(self, request: Request) -> Fault | None:
        with self.api.changed:
            for fault in self.api.faults:
                if fault.matches(request):
                    fault.times -= 1
                    return fault
        return None

    def _answer_to(self, request: Request) -> None:
        if request.query.get("watch"):
            self._watch(request)
        else:
            status, body = self._handle(request)
            self._json(status, body)

    def _handle(self, request: Request) -> tuple[int, Json]:
        with self.api.changed:
            try:
                return self._dispatch(request)
            finally:
                self.api.changed.notify_all()

    def _dispatch(self, request: Request) -> tuple[int, Json]:
        api = self.api
        if request.path in api.collections:
            return self._list(api.collections[request.path], request.query)
        folder, _, name = request.path.rpartition("/")
        if folder in api.collections and request.method == "GET":
            found = (
                obj for slot, obj in api.collections[folder].objects.items() if slot[1] == name
            )
            return next(((200, obj) for obj in found), _refusal(404, f"no {name}"))
        if request.path.startswith("/apis") and request.method == "GET":
            return self._discovery(request.path)
        if _EVENTS_PATH.fullmatch(request.path):
            api.events.append(request.body)
            return 201, request.body
        match = _POD_PATH.fullmatch(request.path)
        if match is None:
            return _refusal(404, "no such path")
        return self._pod(request, match[1], match[2], match[3] or "")

    # ── reads ──

    def _list(self, found: Collection, query: dict[str, str]) -> tuple[int, Json]:
        objects = [found.objects[slot] for slot in sorted(found.objects)]
        start = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(objects)
        rest = objects[start + limit :]
        metadata = {"resourceVersion": str(self.api.version)}
        if rest:
            metadata["continue"] = str(start + limit)
        return 200, {"metadata": metadata, "items": objects[start : start + limit]}

    def _discovery(self, path: str) -> tuple[int, Json]:
        groups = self.api.groups
        if path == "/apis":
            return 200, {
                "groups": [
                    {"name": name, "versions": [{"version": version} for version in versions]}
                    for name, versions in groups.items()
                ]
            }
        _, _, group, version, *rest = path.split("/")
        if rest or version not in groups.get(group, {}):
            return _refusal(404, "not served")
        return 200, {"resources": [{"name": name} for name in groups[group][version]]}

    def _watch(self, request: Request) -> None:
        since = int(request.query["resourceVersion"])
        with self.api.changed:
            found = self.api.collections.get(request.path)
            expired = found is not None and since < found.compacted
            marks = (found.cut, found.ended) if found else (0, 0)
            if found and not expired:
                found.watches += 1
                self.api.changed.notify_all()
        if found is None or expired:
            self._status(410 if found else 404, "too old resource version")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        ends = time.monotonic() + float(request.query["timeoutSeconds"])
        for line in self._lines(found, since, marks, ends):
            self._chunk(line + b"\n")
        if found.cut != marks[0] or self.api.stopped:
            self._chunk(b'{"type": "MODIFIED", "obj')
            self._hang_up()
        else:
            self._chunk(b"")

    def _lines(
        self, found: Collection, since: int, marks: tuple[int, int], ends: float
    ) -> Iterator[bytes]:
        def over() -> bool:
            return self.api.stopped or (found.cut, found.ended) != marks

        def fresh() -> list[tuple[int, bytes]]:
            return [item for item in found.history if item[0] > since]

        while True:
            with self.api.changed:
                left = max(0.0, ends - time.monotonic())
                self.api.changed.wait_for(lambda: over() or fresh(), left)
                last = over()
                lines = [] if found.cut != marks[0] else fresh()
            for version, line in lines:
                since = version
                yield line
            if last or (not lines and time.monotonic() >= ends):
                return

    # ── writes ──

    def _pod(self, request: Request, namespace: str, name: str, what: str) -> tuple[int, Json]:
        pod = self.api.collections[PODS].objects.get((namespace, name))
        if pod is None:
            return _refusal(404, f'pods "{name}" not found')
        if request.method == "GET":
            return 200, pod
        uid = _uid(request.body, what)
        if uid and uid != pod["metadata"]["uid"]:
            return _refusal(422 if request.method == "PATCH" else 409, "the UID does not match")
        if what == "binding":
            return self._bind(pod, request.body)
        if what == "eviction":
            self.api.delete(PODS, namespace, name)
            return 201, {"status": "Success"}
        self.api.put(PODS, _merged(pod, request.body))
        return 200, pod

    def _bind(self, pod: Json, body: Json) -> tuple[int, Json]:
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
            return _refusal(409, "the pod is already assigned or gated")
        bound = _merged(pod, {"metadata": {"annotations": body["metadata"].get("annotations")}})
        bound["spec"] = {**pod["spec"], "nodeName": body["target"]["name"]}
        self.api.put(PODS, bound)
        return 201, {"status": "Success"}

    # ── answers ──

    def _json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def _status(self, code: int, text: str, headers: dict[str, str] | None = None) -> None:
        self._json(code, _refusal(code, text)[1], headers)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _uid(body: Json, what: str) -> str:
    if what == "eviction":
        return str(body["deleteOptions"]["preconditions"]["uid"])
    return str(body["metadata"].get("uid", ""))


def _refusal(code: int, text: str) -> tuple[int, Json]:
    return code, {"kind": "Status", "code": code, "message": text}


def _merged(old: Json, patch: Json) -> Json:
    new = dict(old)
    for key, value in patch.items():
        if isinstance(value, dict):
            new[key] = _merged(old.get(key) or {}, value)
        elif value is None:
            new.pop(key, None)
        else:
            new[key] = value
    return new


def until(condition: Callable[[], bool]) -> None:
    """Wait for what gives no notice of itself."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


# ── objects ───────────────────────────────────────────────────────────────────────────────────────


def node(name: str, uid: str = "", gpus: int = 8) -> Json:
    return {
        "metadata": {"name": name, "uid": uid or f"uid-{name}"},
        "status": {"allocatable": {"cpu": "64", "pods": "110", "nvidia.com/gpu": str(gpus)}},
    }


def pod(name: str, uid: str = "", **spec: Any) -> Json:
    return {
        "metadata": {"namespace": "t", "name": name, "uid": uid or f"uid-{name}"},
        "spec": {"containers": [{"name": "c"}], **spec},
        "status": {"phase": "Pending"},
    }


def pod_group(name: str, minimum: int) -> Json:
    return {
        "metadata": {"namespace": "t", "name": name, "uid": f"uid-{name}"},
        "spec": {"minMember": minimum},
    }
