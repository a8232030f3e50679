"""Serves the application with uvicorn: in a thread with a start and a stop, or until a signal."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from scheduler.api.app import create_app
from scheduler.api.connections import Viewers, counting
from scheduler.api.listeners import Address, ByPort
from scheduler.errors import MusterError
from scheduler.service import Service
from scheduler.service.access import Access

KEEP_ALIVE_S = 120
"""Longer than the 90 s after which the scheduler's client closes idle connections by itself."""

START_DEADLINE_S = 30.0
BACKLOG = 2048
LISTENING = "--port or --host"
"""The options that say where the scheduler's calls are answered."""


class ServerError(MusterError):
    """The server cannot listen or did not start."""


class ServerThread:
    """A server in a thread of its own; port 0 takes a free one.

    The sockets are bound at once, so ``url`` is known before ``start`` and a port in use is a
    ServerError of the constructor, which names the ``options`` to change. On ``views`` only what
    reads is answered.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        views: Address | None = None,
        options: str = LISTENING,
    ) -> None:
        self._sockets = _listen_all(Address(host, port), views, options)
        self.host: str = host
        self.port: int = _port(self._sockets[0])
        self.views_url = _url(views.host, _port(self._sockets[1])) if views else ""
        """Where views are answered besides; empty if nowhere."""
        self._viewers = Viewers(_port(self._sockets[1])) if views else None
        self._server = _Server(
            app,
            uvicorn.Config(
                ByPort(app, app.state.views, _port(self._sockets[1])) if views else app,
                loop="auto",
                http=counting(self._viewers),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=5,
                server_header=False,
                proxy_headers=False,
            ),
        )
        self._thread = threading.Thread(target=self._run, name="muster-http", daemon=True)

    @property
    def url(self) -> str:
        """Where the server answers."""
        return _url(self.host, self.port)

    def start(self) -> None:
        """Serve; returns once requests are answered."""
        self._thread.start()
        if not self._server.running.wait(START_DEADLINE_S) or not self._server.started:
            raise ServerError(f"the server on {self.url} did not start; see the log")

    def stop(self, deadline_s: float = 10.0) -> None:
        """Answer what is under way, then end, within ``deadline_s`` seconds."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(deadline_s)
        for listener in self._sockets:
            listener.close()

    @property
    def alive(self) -> bool:
        """Whether the server is serving."""
        return self._thread.is_alive()

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._server.run(sockets=self._sockets)
        finally:
            self._server.running.set()


class _Server(uvicorn.Server):
    """Says when it is up."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app
        self.running = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.running.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams have no end of their own, and would be waited for.
        self._app.state.streams.close()
        self._app.state.views.state.streams.close()
        await super().shutdown(sockets)


def run(
    service: Service,
    host: str = "127.0.0.1",
    port: int = 8085,
    listening: Callable[[str, str], None] | None = None,
    views: Address | None = None,
    access: Access | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then end in order. Call it from the main thread.

    ``listening`` is told the URL, and that of the views (empty without ``views``), once requests
    are answered. With ``access``, views are for people who say who they are. Raises ServerError if
    the address cannot be used or the server ends by itself.
    """
    asked = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ServerThread(create_app(service, access=access), host, port, views) as server:
            if listening is not None:
                listening(server.url, server.views_url)
            while not asked.wait(1.0):
                if not server.alive:
                    raise ServerError(f"the server on {server.url} ended by itself; see the log")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen_all(address: Address, views: Address | None, options: str) -> list[socket.socket]:
    """Raises ServerError, and then leaves no socket open."""
    if views is not None and views.port == address.port != 0:
        raise ServerError(
            f"port {views.port} is that of the scheduler's calls; choose another --views-port"
        )
    first = listen(*address, options=options)
    if views is None:
        return [first]
    try:
        return [first, listen(*views, options="--views-port or --views-host")]
    except ServerError:
        first.close()
        raise


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int, options: str = LISTENING) -> socket.socket:
    """A socket that listens. Raises ServerError, which names the ``options`` to change."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ServerError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another {options}"
        ) from error
    return listener
