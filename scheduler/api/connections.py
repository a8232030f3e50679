"""Connections: none that asks for what has no end, and of people a limited number."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

VIEWERS = 512
"""Connections to the views at once, streams and those kept open for the next request included."""

HEADERS_S = 10.0
"""Seconds from the beginning of a connection until its first request has come."""

STALLED_S = 30.0
"""Seconds within which some of an answer has to be taken by who asked for it."""

HEAD_BYTES = 1 << 16
"""Bytes of a request's line and headers, and of what may follow its body; a token has a quarter.
The parser keeps all of it before anybody is asked who it is that sends it, and puts a long value
together anew for each piece, by which the scheduler's calls would be held up."""


class Viewers:
    """The connections to one port. All in the event loop."""

    def __init__(self, port: int, most: int = VIEWERS) -> None:
        self.port = port
        self.most = most
        self.open: dict[Connection, None] = {}
        """The oldest first."""

    def admits(self, new: Connection) -> bool:
        """Whether a new connection may stay; the oldest that waits for nothing makes room for it.

        Probes come as new connections: idle ones must never keep them out.
        """
        if len(self.open) >= self.most:
            idle = next((each for each in self.open if each.idle), None)
            if idle is None:
                return False
            del self.open[idle]
            # Not `close`, which waits for ever for one that does not take its last answer.
            idle.transport.abort()
        self.open[new] = None
        return True


class Connection(HttpToolsProtocol):
    """One connection. The scheduler's own are never counted: it would go on without Muster."""

    viewers: Viewers | None

    _watch: asyncio.TimerHandle | None = None
    _unread = 0
    """Bytes since the last request, or since the last part of one's body."""

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered on it."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close it at once if there are too many."""
        super().connection_made(transport)
        viewers = self.viewers
        if viewers is None or self.server is None or self.server[1] != viewers.port:
            return
        if viewers.admits(self):
            self.loop.call_later(HEADERS_S, self._hurry)
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It makes room for another."""
        if self.viewers is not None:
            self.viewers.open.pop(self, None)
        if self._watch is not None:
            self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """End it where what comes is neither a body nor ends."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread <= HEAD_BYTES or self.transport.is_closing():
            return
        if self.idle:
            self.send_400_response(f"More than {HEAD_BYTES} bytes of headers are not read.")
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """See whether the answer is taken at all."""
        super().pause_writing()
        viewers = self.viewers
        if viewers is not None and self in viewers.open and self._watch is None:
            self._look_later()

    def _look_later(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._watch = self.loop.call_later(STALLED_S, self._look, left)

    def _look(self, before: int) -> None:
        """End it where nothing was taken: it would keep its place and its memory for ever."""
        self._watch = None
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        elif self.flow.write_paused:
            self._look_later()

    def on_body(self, body: bytes) -> None:
        """What reads it has a limit of its own."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next request begins."""
        self._unread = 0
        super().on_message_complete()

    def _hurry(self) -> None:
        asked = self.cycle is not None
        if not asked:
            self.transport.close()


def counting(viewers: Viewers | None) -> Any:
    """What uvicorn makes of a connection; without ``viewers`` none is counted."""
    return type("CountedConnection", (Connection,), {"viewers": viewers})
