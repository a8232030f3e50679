"""What has changed, as it changes: server-sent events for the page, and for who else listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

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
        return found | {"overview": {**ready, **service.overview()}}


class Streams:
    """All clients of ``/v1/events``. Everything but the look itself runs in the event loop.

    A client first gets ``ready``: from then on it misses nothing, so it reads the whole once and
    lays each ``change`` over it.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._clients: set[_Queue] = set()
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    async def handle(self, request: Request) -> Response:
        """A stream, or 503 if there are too many."""
        if request.method == "HEAD":
            # A stream without a body would hold its place for ever.
            return Response(headers=_HEADERS, media_type="text/event-stream")
        if self._closed or len(self._clients) >= CLIENTS:
            error = f"there are {len(self._clients)} streams already; ask /v1/status instead"
            body = msgspec.json.encode({"error": error})
            headers = {"Retry-After": "30"}
            return Response(body, 503, headers, media_type="application/json")
        return StreamingResponse(self._stream(), headers=_HEADERS, media_type="text/event-stream")

    def close(self) -> None:
        """End all streams; for the server's shutdown, which would wait for them."""
        self._closed = True
        for queue in list(self._clients):
            self._cut_off(queue)

    async def _stream(self) -> AsyncIterator[bytes]:
        queue = self._join()
        try:
            while True:
                try:
                    message = await asyncio.wait_for(queue.get(), BEAT_S)
                except TimeoutError:
                    message = BEAT
                if message is None:
                    return
                yield message
        finally:
            self._clients.discard(queue)

    def _join(self) -> _Queue:
        queue: _Queue = asyncio.Queue(BACKLOG)
        self._clients.add(queue)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._run())
        else:
            queue.put_nowait(READY)
        return queue

    async def _run(self) -> None:
        """Look and tell, until nobody listens any more."""
        differ = Differ(self._service)
        clock = asyncio.get_running_loop().time
        first = True
        while self._clients:
            began = clock()
            try:
                change = await run_in_threadpool(differ.look)
                self._tell(READY if first else _message(change))
                first = False
            except BusyError:
                log.debug("the engine was busy; the page is told later")
            except Exception:
                log.exception("what has changed could not be told")
            await asyncio.sleep(max(EVERY_S, SHARE * (clock() - began)))

    def _tell(self, message: bytes) -> None:
        for queue in list(self._clients) if message else ():
            try:
                queue.put_nowait(message)
            except asyncio.QueueFull:
                self._cut_off(queue)

    def _cut_off(self, queue: _Queue) -> None:
        """End one stream; what still waited in it is dropped."""
        self._clients.discard(queue)
        while not queue.empty():
            queue.get_nowait()
        queue.put_nowait(None)


def _changed(before: _Views, now: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [view for key, view in now.items() if before.get(key) != view]


def _message(change: Mapping[str, Any] | None) -> bytes:
    if change is None:
        return b""
    return b"event: change\ndata: " + msgspec.json.encode(change) + b"\n\n"
