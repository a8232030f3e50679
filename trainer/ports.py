"""The rendezvous port of a gang that shares its nodes' network with other gangs.

A pod with a network of its own has every port to itself. With hostNetwork two gangs on one node
meet on one port unless each derives its own: the gang's id names a row of candidates, the first
pod takes the first that is free on all its interfaces, and says so on the port above it to
whoever asks. The others ask along the same row, so all agree, also after a restart and where
another process has taken the first candidate.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from trainer.errors import RendezvousError
from trainer.listening import Listener

log = logging.getLogger("muster.ports")

FIRST, LAST = 12_000, 27_998
"""Below Kubernetes' node ports and Linux's ephemeral ports, which anybody may take."""

HIGHEST = 65_535

CANDIDATES = 16
GREETING = "muster 1 {gang}\n"


def candidates(gang: str) -> tuple[int, ...]:
    """Ports for the gang's store, best first; even, as the one above each is the beacon's."""
    pairs = (LAST - FIRST) // 2 + 1
    start = int.from_bytes(hashlib.sha256(gang.encode()).digest()[:8], "big")
    return tuple(FIRST + 2 * ((start + step) % pairs) for step in range(CANDIDATES))


def is_free(port: int) -> bool:
    """Whether nobody listens on the port on any interface, by IPv4 and by IPv6."""
    for family, anywhere in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((anywhere, port))
        except OSError as error:
            if family == socket.AF_INET6 and not _in_use(error):
                continue  # no IPv6 here
            return False
    return True


def any_free(room: int = 0) -> int:
    """A port that nobody listens on at this moment, nor on the one so far above it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("", 0))
            found: int = probe.getsockname()[1]
        if not room or (found + room <= HIGHEST and is_free(found) and is_free(found + room)):
            return found


class Beacon:
    """Tells whoever connects which gang's store is on the port below. Open until closed."""

    def __init__(self, gang: str) -> None:
        """Raises RendezvousError where none of the gang's candidates is free."""
        self._words = GREETING.format(gang=gang).encode()
        self.store_port, self._listener = self._claim(candidates(gang))

    def close(self) -> None:
        self._listener.close()

    def _claim(self, row: tuple[int, ...]) -> tuple[int, Listener]:
        for port in row:
            if not is_free(port):
                log.warning("port %d is taken; trying the gang's next one", port)
                continue
            try:
                return port, Listener(port + 1, self._greet)
            except OSError:
                continue
        raise RendezvousError(
            f"none of the gang's {len(row)} ports from {row[0]} on is free; set MASTER_PORT"
        )

    def _greet(self, visitor: socket.socket) -> None:
        with visitor, suppress(OSError):
            visitor.sendall(self._words)


def find(gang: str, host: str, seconds: float, sleep: Callable[[float], None] = time.sleep) -> int:
    """The port of the gang's store on the first pod's host, once that has taken one.

    Raises RendezvousError, naming host, ports and seconds.
    """
    row, end = candidates(gang), time.monotonic() + seconds
    while True:
        for port in row:
            if _is_ours(host, port + 1, gang):
                return port
        if time.monotonic() >= end:
            raise RendezvousError(
                f"the first pod of gang {gang} answered on no port of {host} within {seconds:g} s "
                f"(tried {row[0] + 1}, {row[1] + 1} and {len(row) - 2} more); look at its log, or "
                "give all pods one port with MASTER_PORT"
            )
        sleep(0.2)


def _is_ours(host: str, port: int, gang: str) -> bool:
    words = GREETING.format(gang=gang).encode()
    try:
        with socket.create_connection((host, port), timeout=1.0) as link:
            link.settimeout(1.0)
            return link.makefile("rb").readline(len(words)) == words
    except OSError:
        return False


def _in_use(error: OSError) -> bool:
    import errno

    return error.errno == errno.EADDRINUSE
