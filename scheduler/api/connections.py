"""Connections of people: a limited number, and none that never says what it wants."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

VIEWERS = 512
"""Connections to the views at once, streams and those kept open for the next request included."""

HEADERS_S = 10.0
"""Seconds from the beginning of a connection until its first request has come."""


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
            idle.transport.close()
        self.open[new] = None
        return True


class Connection(HttpToolsProtocol):
    """One connection. The scheduler's own are never counted: it would go on without Muster."""

    viewers: Viewers

    @property
    def idle(self) -> bool:
        """Whether nothing is being answered on it."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close it at once if there are too many."""
        super().connection_made(transport)
        if self.server is None or self.server[1] != self.viewers.port:
            return
        if self.viewers.admits(self):
            self.loop.call_later(HEADERS_S, self._hurry)
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """It makes room for another."""
        self.viewers.open.pop(self, None)
        super().connection_lost(exc)

    def _hurry(self) -> None:
        asked = self.cycle is not None
        if not asked:
            self.transport.close()


def counting(viewers: Viewers) -> Any:
    """What uvicorn makes of a connection."""
    return type("CountedConnection", (Connection,), {"viewers": viewers})
