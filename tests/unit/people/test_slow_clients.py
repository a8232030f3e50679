"""Connections that are opened and not used are ended, and keep nobody out."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest
from guarded_site import Guarded
from people_site import PATIENCE_S, Site

from scheduler.api import body, connections

SLOW_FIT = (
    b"POST /v1/fit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann-token\r\n"
    b"Content-Length: 1000\r\n\r\n["
)
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
ENDLESS = {
    "line": b"GET /",
    "header": b"GET / HTTP/1.1\r\nHost: x\r\nX-More: ",
    "header of a second request": PROBE + b"GET / HTTP/1.1\r\nHost: x\r\nX-More: ",
    "trailer": b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"1\r\na\r\n0\r\nX-More: ",
}


@pytest.fixture
def guarded(here: Site) -> Iterator[Guarded]:
    made = Guarded(here)
    yield made
    made.close()


@pytest.fixture
def full(guarded: Guarded) -> Guarded:
    """Where three may look at once."""
    assert guarded.server._viewers is not None
    guarded.server._viewers.most = 3
    return guarded


def opened(url: str, said: bytes = b"") -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    made.sendall(said)
    return made


def until_its_end(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_a_body_that_does_not_come_is_not_waited_for(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "BODY_S", 0.1)
    answer = until_its_end(opened(guarded.url, SLOW_FIT))
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the body was not there within 0.1 s" in answer

    verb = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"
    assert until_its_end(opened(guarded.here.url, verb)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("begun", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("port", ["views", "verbs"])
def test_headers_are_not_read_for_ever(guarded: Guarded, port: str, begun: bytes) -> None:
    """What is kept of them, and put together anew for each piece, is nobody's yet."""
    connection = opened(guarded.url if port == "views" else guarded.here.url, begun)
    more, sent = b"x" * (1 << 14), 0
    with connection, suppress(OSError):
        while sent < 1 << 28:
            connection.sendall(more)
            sent += len(more)
    assert sent < 1 << 25


def test_who_sends_too_many_headers_is_told_and_a_long_body_is_none(guarded: Guarded) -> None:
    least = connections.HEAD_BYTES // 2
    with opened(guarded.url, PROBE[:-2] + b"X-More: " + b"x" * least + b"\r\n\r\n") as well:
        assert well.recv(4096).startswith(b"HTTP/1.1 200")
    said = until_its_end(opened(guarded.url, PROBE[:-2] + b"X-More: " + b"x" * 2 * least))
    assert said.startswith(b"HTTP/1.1 400")
    assert b"65536 bytes of headers" in said

    pieces = (b"[" + b" " * 1000 for _ in range(300))
    answer = guarded.ask("/v1/fit", "ann", method="POST", content=pieces)
    assert answer.status_code == 400
    assert "not JSON" in answer.json()["error"]


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost:"])
def test_who_never_says_what_they_want_is_cut_off(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 0.1)
    assert until_its_end(opened(guarded.url, said)) == b""


def test_where_too_many_look_the_oldest_idle_connection_makes_room(full: Guarded) -> None:
    with ExitStack() as held:
        kept = [held.enter_context(opened(full.url, PROBE)) for _ in range(3)]
        for each in kept:
            assert each.recv(4096).startswith(b"HTTP/1.1 200")
        assert httpx.get(full.url + "/healthz").status_code == 200
        assert kept[0].recv(4096) == b""
        kept[2].sendall(PROBE)
        assert kept[2].recv(4096).startswith(b"HTTP/1.1 200")


def unread(url: str, said: bytes) -> socket.socket:
    """A connection whose answers nobody takes."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    made.settimeout(PATIENCE_S)
    made.connect((host, int(port)))
    made.sendall(said)
    return made


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it comes to hold."""
    ends = time.monotonic() + PATIENCE_S
    while not holds() and time.monotonic() < ends:
        threading.Event().wait(0.01)
    return holds()


def test_who_does_not_take_the_answer_is_cut_off(
    full: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "STALLED_S", 0.2)
    viewers = full.server._viewers
    assert viewers is not None
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(unread(full.url, PROBE.replace(b"/healthz", b"/") * 200))
        assert eventually(lambda: len(viewers.open) == 3)
        assert eventually(lambda: not viewers.open)
        assert httpx.get(full.url + "/healthz").status_code == 200


def test_where_all_are_being_answered_no_more_are_let_in_but_the_scheduler_is(
    full: Guarded,
) -> None:
    ask = SLOW_FIT.replace(b"\r\n\r\n[", b"\r\nExpect: 100-continue\r\n\r\n")
    with ExitStack() as held:
        for _ in range(3):
            # Told to continue: from then on its body is waited for.
            assert b"100" in held.enter_context(opened(full.url, ask)).recv(4096)
        assert until_its_end(opened(full.url)) == b""
        assert httpx.get(full.server.url + "/healthz", timeout=PATIENCE_S).text == "ok"
