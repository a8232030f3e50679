"""Stands in for a cluster's names and Services: a proxy that knows where an address leads.

What goes through it is not looked into, so that TLS is between the two ends, with the name that the
one asks for.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

_CHUNK = 1 << 16
_SECONDS = 10.0


class Tunnel:
    """Answers CONNECT on a loopback port for the addresses that it knows.

    Parameters
    ----------
    routes
        ``HOST:PORT`` of a Service, and the loopback port that stands for it.
    """

    def __init__(self, routes: Mapping[str, int]) -> None:
        self.asked: set[str] = set()
        """Every address that somebody asked for."""
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.routes = routes
        self._server.asked = self.asked
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """For HTTPS_PROXY."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_SECONDS)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    routes: Mapping[str, int]
    asked: set[str]


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """One connection, until an end closes it."""
        verb, address, *_ = (*self.rfile.readline().decode().split(), "", "")
        while self.rfile.readline().strip():
            pass
        self.server.asked.add(address)
        port = self.server.routes.get(address)
        if verb != "CONNECT" or port is None:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", port), _SECONDS) as onward:
            onward.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(onward, self.connection), daemon=True)
            back.start()
            _pump(self.connection, onward)
            back.join(_SECONDS)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """All bytes of one direction."""
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
