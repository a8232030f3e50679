"""An API server with one node, over real HTTP."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

MERGE_PATCH = "application/merge-patch+json"


class NodeApi:
    """Serves ``/api/v1/nodes/n1``; ``refuse`` makes it answer with that status instead."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] | None = None
        self.requests: list[tuple[str, str]] = []
        self.refuse: dict[str, int] = {}
        self.patched = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self, folder: Path) -> Path:
        """A file that leads here."""
        server = {"server": f"http://127.0.0.1:{self._server.server_address[1]}"}
        context = {"cluster": "c", "user": "u"}
        file = folder / "kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": server}],
                    "users": [{"name": "u", "user": {"token": "a-token"}}],
                    "contexts": [{"name": "x", "context": context}],
                    "current-context": "x",
                }
            )
        )
        return file

    def answer(self, method: str, path: str, kind: str, body: bytes) -> tuple[int, Any]:
        self.requests.append((method, path))
        if method in self.refuse:
            status = self.refuse[method]
            return status, {"kind": "Status", "message": f"no {method} for you", "code": status}
        if path != "/api/v1/nodes/n1":
            return 404, {"kind": "Status", "message": f"{path} not found", "code": 404}
        if method == "PATCH":
            assert kind == MERGE_PATCH
            self._merge(json.loads(body)["metadata"]["annotations"])
        return 200, {"kind": "Node", "metadata": {"name": "n1", "annotations": self.annotations}}

    def _merge(self, changes: dict[str, str | None]) -> None:
        merged = {**(self.annotations or {}), **changes}
        self.annotations = {key: text for key, text in merged.items() if text is not None}
        self.patched.set()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Nothing to say."""

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kind = self.headers.get("Content-Type", "")
                status, value = api.answer(self.command, self.path, kind, body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_PATCH = do_GET  # noqa: N815

        return Handler
