"""What has changed, as it changes: server-sent events for the page, and for who else listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from scheduler.api import seen
from scheduler.api.guard import Guard, token_of
from scheduler.errors import ClusterError
from scheduler.service import BusyError, Service

CLIENTS = 32
"""Streams at once; who comes later has to ask now and then instead."""

BACKLOG = 8
"""Messages that may wait for a slow client before it is cut off; it comes back and reads anew."""

EVERY_S = 1.0
"""Seconds between two looks at the engine, as long as somebody listens."""

SHARE = 20
"""A look is followed by a pause of that many times as long, so that it takes 5 % at most."""

BEAT_S = 15.0
"""Seconds of silence after which a comment is sent, so that proxies keep the stream open."""

READY = b"retry: 3000\nevent: ready\ndata: {}\n\n"
BEAT = b": still here\n\n"

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_Queue = asyncio.Queue[bytes | None]
_Views = dict[str, dict[str, Any]]

log = logging.getLogger(__name__)


class Differ:
    """Finds out what has changed since the last look. May be called from any one thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._steps = -1
        self._nodes: _Views = {}
        self._gangs: _Views = {}

    def look(self) -> dict[str, Any] | None:
        """Nodes and gangs that are new or have changed, those that are gone, and the overview.

        None if nothing has. Raises BusyError if the engine is not free in time.
        """
        service = self._service
        steps = service.steps
        if steps == self._steps:
            return None
        nodes = {str(node["name"]): node for node in service.nodes()}
        gangs = {str(gang["key"]): gang for gang in service.gangs()}
        found = {
            "nodes": _changed(self._nodes, nodes),
            "gone_nodes": sorted(self._nodes.keys() - nodes.keys()),
            "gangs": _changed(self._gangs, gangs),
            "gone_gangs": sorted(self._gangs.keys() - gangs.keys()),
        }
        self._steps, self._nodes, self._gangs = steps, nodes, gangs
        if not any(found.values()):
            return None
        ready = {"ready": service.ready, "reason": service.unready_reason}
        ready |= {"leads": service.leads, "leader": service.leader}
        return found | {"overview": {**ready, **service.overview()}}


class _Client(NamedTuple):
    """One stream: what waits to be sent, and who is listening."""

    queue: _Queue
    token: str


class Streams:
    """All clients of ``/v1/events``. Everything but the look itself runs in the event loop.

    A client first gets ``ready``: from then on it misses nothing, so it reads the whole once and
    lays each ``change`` over it.
    """

    def __init__(self, service: Service, guard: Guard | None = None) -> None:
        self._service = service
        self._guard = guard or Guard()
        self._clients: set[_Client] = set()
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    async def handle(self, request: Request) -> Response:
        """A stream, or 503 if there are too many.

        Raises UnknownPersonError, and ClusterError if the API server does not say who asks.
        """
        await run_in_threadpool(self._guard.sight, request)
        if request.method == "HEAD":
            # A stream without a body would hold its place for ever.
            return Response(headers=_HEADERS, media_type="text/event-stream")
        if self._closed or len(self._clients) >= CLIENTS:
            error = f"there are {len(self._clients)} streams already; ask /v1/status instead"
            body = msgspec.json.encode({"error": error})
            headers = {"Retry-After": "30"}
            return Response(body, 503, headers, media_type="application/json")
        stream = self._stream(token_of(request))
        return StreamingResponse(stream, headers=_HEADERS, media_type="text/event-stream")

    def close(self) -> None:
        """End all streams; for the server's shutdown, which would wait for them."""
        self._closed = True
        for client in list(self._clients):
            self._cut_off(client)

    async def _stream(self, token: str = "") -> AsyncIterator[bytes]:
        client = self._join(token)
        try:
            while True:
                try:
                    message = await asyncio.wait_for(client.queue.get(), BEAT_S)
                except TimeoutError:
                    message = BEAT
                if message is None:
                    return
                yield message
        finally:
            self._clients.discard(client)

    def _join(self, token: str) -> _Client:
        client = _Client(asyncio.Queue(BACKLOG), token)
        self._clients.add(client)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._run())
        else:
            client.queue.put_nowait(READY)
        return client

    async def _run(self) -> None:
        """Look and tell, until nobody listens any more."""
        differ = Differ(self._service)
        clock = asyncio.get_running_loop().time
        first = True
        while self._clients:
            began = clock()
            try:
                tokens = {client.token for client in self._clients}
                messages = await run_in_threadpool(self._messages, differ, tokens, first)
                # Who came while the engine was looked at reads all of it after that, and needs no
                # change; only the first look must have been made before anybody reads.
                self._tell(messages, READY if first else b"")
                first = False
            except BusyError:
                log.debug("the engine was busy; the page is told later")
            except Exception:
                log.exception("what has changed could not be told")
            await asyncio.sleep(max(EVERY_S, SHARE * (clock() - began)))

    def _messages(
        self, differ: Differ, tokens: Iterable[str], first: bool
    ) -> dict[str, bytes | None]:
        """For each token what its owner is told; None to whom nothing is told any more."""
        change = differ.look()
        if first:
            return dict.fromkeys(tokens, READY)
        return {token: self._message(change, token) for token in tokens} if change else {}

    def _message(self, change: Mapping[str, Any], token: str) -> bytes | None:
        try:
            sight = self._guard.sight_of(token)
            return None if sight is None else _event(seen.change(change, sight))
        except ClusterError as error:
            log.warning("a stream is ended: %s", error)
            return None

    def _tell(self, messages: Mapping[str, bytes | None], otherwise: bytes) -> None:
        for client in list(self._clients):
            message = messages.get(client.token, otherwise)
            if message is None or (message and not _put(client.queue, message)):
                self._cut_off(client)

    def _cut_off(self, client: _Client) -> None:
        """End one stream; what still waited in it is dropped."""
        self._clients.discard(client)
        while not client.queue.empty():
            client.queue.get_nowait()
        client.queue.put_nowait(None)


def _put(queue: _Queue, message: bytes) -> bool:
    try:
        queue.put_nowait(message)
    except asyncio.QueueFull:
        return False
    return True


def _changed(before: _Views, now: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [view for key, view in now.items() if _differs(before.get(key), view)]


def _differs(before: dict[str, Any] | None, now: dict[str, Any]) -> bool:
    # What has not changed is mostly the very same object.
    return before is not now and before != now


def _event(change: Mapping[str, Any]) -> bytes:
    return b"event: change\ndata: " + msgspec.json.encode(change) + b"\n\n"
