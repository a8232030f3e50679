"""An extender that answers as a test tells it to, and remembers every call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]


class StubExtender:
    """Serves on a free port while in its ``with`` block; passes everything unless told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Answer] = {
            "filter": lambda body: {"NodeNames": body["NodeNames"]},
            "prioritize": lambda body: [{"Host": name, "Score": 0} for name in body["NodeNames"]],
            "bind": lambda _: {"Error": ""},
            "preempt": lambda _: {"NodeNameToMetaVictims": {}},
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """The extender's ``urlPrefix``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def asked(self, verb: str) -> list[dict[str, Any]]:
        """The bodies of all calls of a verb."""
        return [body for name, body in self.calls if name == verb]

    def __enter__(self) -> StubExtender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(stub: StubExtender) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            verb = self.path.rsplit("/", 1)[-1]
            stub.calls.append((verb, body))
            content = json.dumps(stub.answers[verb](body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet."""

    return Handler
