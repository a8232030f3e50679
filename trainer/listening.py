"""A port of this pod at which visitors are received, one after the other, in a thread."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger("muster.listening")

BACKLOG = 1024
"""Visitors that wait to be received; all pods of a gang come at once."""

PAUSE = 0.1
"""Seconds until the next try where the system has no descriptor for a visitor."""

IDLE, INTERVAL, PROBES = 10, 5, 4
"""Seconds of silence, seconds between probes, and probes without an answer: so a side whose node
is gone is noticed in half a minute, which says nothing itself."""


class Listener:
    """Listens by IPv4 and by IPv6. Open until closed."""

    def __init__(self, port: int, receive: Callable[[socket.socket], None]) -> None:
        """receive: is given each visitor, to close it, and returns soon.

        Raises OSError where the port is taken, OverflowError where there is none of that number.
        """
        self._receive = receive
        self._closed = threading.Event()
        self._server = _listen(port)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        # Closing alone leaves the port open for as long as a thread waits there.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                visitor, _ = self._server.accept()
            except OSError as error:
                if not self._closed.wait(PAUSE):
                    log.warning("a visitor could not be received: %s", error)
            else:
                self._receive(visitor)


def notice_its_end(link: socket.socket) -> None:
    """Have the system find out if the other side's node is gone, while nobody says anything."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("IDLE", IDLE), ("INTVL", INTERVAL), ("CNT", PROBES)):
        option = getattr(socket, f"TCP_KEEP{name}", None)
        if option is not None:
            link.setsockopt(socket.IPPROTO_TCP, option, value)


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG
        )
    return socket.create_server(("", port), backlog=BACKLOG)
