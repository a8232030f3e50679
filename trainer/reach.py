"""Waiting for the first pod: its name to resolve and its port to open, up to a deadline.

A name may resolve before the port opens, late, or to the address of a predecessor; so it is
resolved anew for every try, and the tries of many pods are spread by jitter. Nothing ever
falls back to localhost, which would make every pod a world of its own.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trainer.errors import PreflightError

log = logging.getLogger("muster.reach")

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
CONNECT_SECONDS = 3.0
TRIES_BEFORE_SAYING = 8


@dataclass(frozen=True, slots=True)
class Reached:
    """The first pod answered."""

    address: str
    seconds: float
    tries: int


def _resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


def _connect(address: str, port: int, seconds: float) -> None:
    socket.create_connection((address, port), seconds).close()


@dataclass(frozen=True, slots=True)
class Network:
    """What waiting does to the world; a test puts its own in the place."""

    resolve: Callable[[str, int], list[str]] = _resolve
    """Raises OSError."""
    connect: Callable[[str, int, float], None] = _connect
    """Raises OSError."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = field(default=random.random)
    """0 to 1."""


def wait_for(host: str, port: int, seconds: float, network: Network | None = None) -> Reached:
    """Try until the port at the host accepts a connection.

    Raises PreflightError with host, port, seconds and what failed last.
    """
    net = network or Network()
    start, pause, tries = net.now(), FIRST_PAUSE, 0
    while True:
        tries += 1
        left = start + seconds - net.now()
        outcome = _try(host, port, max(0.1, min(CONNECT_SECONDS, left)), net)
        spent = net.now() - start
        if isinstance(outcome, _Address):
            return Reached(outcome, spent, tries)
        if spent >= seconds:
            raise PreflightError(_explain(host, port, spent, tries, outcome))
        if tries == TRIES_BEFORE_SAYING:
            log.info("still waiting for %s:%d: %s", host, port, outcome)
        net.sleep(min(seconds - spent, pause * (0.5 + net.jitter())))
        pause = min(LONGEST_PAUSE, pause * 1.6)


class _Address(str):
    """An address that answered; any other text is the reason why none did."""

    __slots__ = ()


def _try(host: str, port: int, seconds: float, net: Network) -> _Address | str:
    try:
        addresses = net.resolve(host, port)
    except (OSError, UnicodeError) as error:
        return f"the name does not resolve ({error})"
    reasons = []
    for address in addresses:
        try:
            net.connect(address, port, seconds)
        except OSError as error:
            reasons.append(f"{address}: {error}")
        else:
            return _Address(address)
    return "; ".join(dict.fromkeys(reasons)) or "the name has no address"


def _explain(host: str, port: int, seconds: float, tries: int, reason: str) -> str:
    return (
        f"the first pod could not be reached at {host}:{port} within {seconds:.1f} s "
        f"({tries} tries): {reason}; is it running, is the name right (MASTER_ADDR), and does a "
        "NetworkPolicy let pods of the gang talk on all ports?"
    )


def is_here(host: str) -> bool:
    """Whether the name is one of this machine's own addresses."""
    try:
        addresses = _resolve(host, 0)
    except (OSError, UnicodeError):
        return False
    return any(_can_bind(address) for address in addresses)


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True
