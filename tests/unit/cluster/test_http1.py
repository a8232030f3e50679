"""Requests against a server that breaks every rule: a result is true, or it is a doubt."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from kubernetes.client import Configuration

from cluster.raw_server import CLOSE, HANG, RESET, RawServer, Script, certificate, ok
from scheduler.cluster import Transport, http1, transport
from scheduler.cluster.transport import Answer, LostReplyError, UnreachableError

Start = Callable[..., tuple[RawServer, Transport]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a server with its scripts, and a transport to it."""
    made: list[Any] = []

    def begin(
        *scripts: Script, tls: tuple[Path, Path] | None = None, **settings: Any
    ) -> tuple[RawServer, Transport]:
        context = None
        configuration = Configuration()
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            configuration.ssl_ca_cert = str(tls[0])
        server = RawServer(scripts, context)
        configuration.host = server.url
        for name, value in settings.items():
            setattr(configuration, name, value)
        found = Transport(configuration, read_s=0.5)
        made.extend((found, server))
        return server, found

    yield begin
    for one in made:
        one.close()


def post(found: Transport) -> Answer:
    return found.post("/api/v1/x", {"a": 1})


# ── answers in every shape ──


SHAPES: dict[str, Sequence[bytes]] = {
    "in one piece": [ok(b"abc", status="201 Created")],
    "byte by byte": [bytes([one]) for one in ok(b"abc", status="201 Created")],
    "in chunks": [
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"2;ext=1\r\nab\r\n",
        b"1\r\nc\r\n0\r\nX-Trailer: y\r\n\r\n",
    ],
    "after two that are not final": [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
        ok(b"abc", status="201 Created"),
    ],
    "with names in capitals": [b"HTTP/1.1 201 X\r\nCONTENT-LENGTH:3\r\n\r\nabc"],
}


@pytest.mark.parametrize("parts", SHAPES.values(), ids=SHAPES)
def test_an_answer_is_read_whole_and_its_connection_is_kept(
    start: Start, parts: Sequence[bytes]
) -> None:
    server, found = start(list(parts), list(parts))
    for _ in range(2):
        assert post(found) == Answer(201, b"abc")
    assert server.connections == 1


def test_what_is_sent_is_one_whole_request(start: Start) -> None:
    server, found = start([ok()], api_key={"authorization": "Bearer t"})
    found.post("/api/v1/x", {"a": 1})
    head, _, body = server.received[0].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert first == "POST /api/v1/x HTTP/1.1"
    assert dict(line.split(": ", 1) for line in headers) == {
        "Host": f"127.0.0.1:{server.port}",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": f"muster/{transport.__version__}",
        "Authorization": "Bearer t",
        "Content-Length": "7",
    }
    assert body == b'{"a":1}'


def test_a_path_cannot_smuggle_a_second_request_in(start: Start) -> None:
    server, found = start([ok()])
    found.get("/api/v1/a b\r\nX: y")
    assert server.received[0].startswith(b"GET /api/v1/a%20b%0D%0AX:%20y HTTP/1.1\r\nHost")


def test_a_token_that_is_no_header_is_told_before_anything_is_sent(start: Start) -> None:
    server, found = start(api_key={"authorization": "Bearer a\r\nX: y"})
    with pytest.raises(UnreachableError, match="bearer token"):
        post(found)
    assert server.received == []


def test_a_new_token_is_used_once_the_old_one_may_have_expired(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = ["Bearer one"]

    def renew(configuration: Configuration) -> None:
        configuration.api_key = {"authorization": current[0]}

    server, found = start(
        [ok()], [ok()], [ok()], api_key={"authorization": "x"}, refresh_api_key_hook=renew
    )
    post(found)
    current[0] = "Bearer two"
    post(found)
    now = time.monotonic() + transport.TOKEN_S
    monkeypatch.setattr(transport.time, "monotonic", lambda: now)
    post(found)
    said = [b"Authorization: Bearer two" in request for request in server.received]
    assert said == [False, False, True]


def test_the_pause_that_the_server_asks_for_is_told(start: Start) -> None:
    refused = ok(b"{}", "retry-AFTER: 7", status="429 Too Many Requests")
    odd = ok(b"{}", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", status="429 Too Many Requests")
    _, found = start([refused], [odd])
    assert post(found).retry_after_s == 7.0
    assert post(found).retry_after_s is None


def test_without_a_length_the_end_of_the_connection_is_the_end(start: Start) -> None:
    server, found = start([b"HTTP/1.1 200 OK\r\n\r\nab", b"c", CLOSE], [ok()])
    assert post(found) == Answer(200, b"abc")
    post(found)
    assert server.connections == 2


@pytest.mark.parametrize(
    "last",
    [
        ok(b"abc", "Connection: close"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        ok(b"abc") + b"surplus",
        ok(b"abc") + ok(b"another answer"),
    ],
    ids=["it says close", "old HTTP", "something after it", "an answer that nobody asked for"],
)
def test_a_connection_that_cannot_be_trusted_is_given_up(start: Start, last: bytes) -> None:
    server, found = start([last], [ok(b"next")])
    assert post(found) == Answer(200, b"abc")
    assert post(found) == Answer(200, b"next")
    assert server.connections == 2


def test_a_connection_that_was_closed_while_idle_costs_no_request(start: Start) -> None:
    server, found = start([ok(), 0.05, CLOSE], [ok(b"next")])
    post(found)
    connection = found._direct._idle[0]
    server.wait(lambda: not connection.is_alive())
    assert post(found) == Answer(200, b"next")


# ── doubts ──


BROKEN: dict[str, tuple[Script, bool]] = {
    "closed at once": ([CLOSE], False),
    "broken off at once": ([RESET], False),
    "closed within the head": ([b"HTTP/1.1 201 Cre", CLOSE], False),
    "closed within the body": ([b"HTTP/1.1 201 X\r\nContent-Length: 9\r\n\r\nabc", CLOSE], False),
    "closed within a chunk": (
        [b"HTTP/1.1 201 X\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", CLOSE],
        False,
    ),
    "not HTTP": ([b"220 smtp.example ESMTP\r\n"], False),
    "a length that is none": ([b"HTTP/1.1 201 X\r\nContent-Length: many\r\n\r\n"], False),
    "two lengths": (
        [b"HTTP/1.1 201 X\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
        False,
    ),
    "another protocol": (
        [b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"],
        False,
    ),
    "silence": ([HANG], True),
    "silence within the body": ([b"HTTP/1.1 201 X\r\nContent-Length: 9\r\n\r\nabc", HANG], True),
    "only ever not final": ([b"HTTP/1.1 100 Continue\r\n\r\n", HANG], True),
    "a drop now and then": (
        [b"HTTP/1.1 201 X\r\nContent-Length: 99\r\n\r\n", *[b"a", 0.2] * 20],
        True,
    ),
}


@pytest.mark.parametrize(("script", "timed_out"), BROKEN.values(), ids=BROKEN)
def test_an_answer_that_is_not_whole_is_a_doubt(
    start: Start, script: Script, timed_out: bool
) -> None:
    _, found = start(script, [ok()])
    with pytest.raises(LostReplyError) as caught:
        post(found)
    assert caught.value.timed_out is timed_out
    assert str(caught.value).startswith("POST /api/v1/x: ")
    assert post(found).ok


def test_an_endless_body_is_a_doubt_for_a_write_and_a_long_one_is_fine_for_a_list(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "MOST_BYTES", 1000)
    long = ok(b"x" * 300_000)
    _, found = start([long], [long])
    with pytest.raises(LostReplyError, match="longer than 1000 bytes"):
        post(found)
    assert len(found.get("/api/v1/x").body) == 300_000


def test_a_list_may_take_longer_than_one_silence(start: Start) -> None:
    parts = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", *[b"a", 0.2] * 5]
    _, found = start(parts)
    assert found.get("/api/v1/x").body == b"aaaaa"


def test_nobody_there_is_no_doubt(start: Start) -> None:
    server, found = start()
    server.close()
    with pytest.raises(UnreachableError, match="cannot be reached"):
        post(found)


def test_a_slow_answer_does_not_shorten_the_next_wait(start: Start) -> None:
    slow = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", 0.4, b"a"]
    _, found = start(slow, [0.4, ok(b"next")])
    assert post(found).body == b"aa"
    assert post(found).body == b"next"


def test_by_a_proxy(start: Start) -> None:
    proxy, _ = start([ok(b"{}", "Retry-After: 3")])
    configuration = Configuration()
    configuration.host, configuration.proxy = "http://elsewhere:1", proxy.url
    through = Transport(configuration, read_s=0.5)
    assert post(through) == Answer(200, b"{}", 3.0)
    assert proxy.received[0].startswith(b"POST http://elsewhere:1/api/v1/x HTTP/1.1\r\n")
    through.close()


# ── TLS ──


def test_tls_with_a_known_authority(start: Start, tmp_path: Path) -> None:
    server, found = start([ok()], [ok()], tls=certificate(tmp_path))
    assert post(found).ok
    assert post(found).ok
    assert server.connections == 1


def test_nothing_is_sent_to_a_server_that_cannot_prove_itself(start: Start, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    tls = certificate(tmp_path)
    other = certificate(tmp_path / "other")[0]
    unknown, found = start([ok()], tls=tls, ssl_ca_cert=str(other))
    with pytest.raises(UnreachableError, match="certificate verify failed"):
        post(found)
    assert unknown.received == []


def test_nothing_is_sent_to_a_server_of_another_name(start: Start, tmp_path: Path) -> None:
    server, found = start([ok()], tls=certificate(tmp_path, "DNS:elsewhere"))
    with pytest.raises(UnreachableError, match="certificate"):
        post(found)
    assert server.received == []


def test_a_server_name_of_its_own(start: Start, tmp_path: Path) -> None:
    _, found = start(
        [ok()], tls=certificate(tmp_path, "DNS:elsewhere"), tls_server_name="elsewhere"
    )
    assert post(found).ok


def test_tls_cut_off_without_a_word_is_a_doubt(start: Start, tmp_path: Path) -> None:
    _, found = start([b"HTTP/1.1 201", RESET], [ok()], tls=certificate(tmp_path))
    with pytest.raises(LostReplyError):
        post(found)
    assert post(found).ok


# ── many at once ──


def test_each_answer_goes_to_who_asked(start: Start) -> None:
    """Every worker has a connection of its own, and no answer is mixed up."""
    many, times = 8, 5
    server, found = start(*[[lambda request: ok(request.partition(b"\r\n\r\n")[2])]] * many * times)
    together, wrong = Barrier(many), []

    def work(number: int) -> None:
        together.wait(10)
        for at in range(times):
            answer = found.post("/api/v1/x", [number, at])
            if answer.body != f"[{number},{at}]".encode():
                wrong.append(answer)

    threads = [Thread(target=work, args=(number,)) for number in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(server.received) == many * times
    assert server.connections <= many


def test_closing_closes_what_is_idle_and_keeps_nothing_afterwards(start: Start) -> None:
    server, found = start([ok()], [ok()])
    post(found)
    found.close()
    post(found)
    assert len(found._direct._idle) == 0
    assert server.connections == 2


# ── streams ──

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_stream_knows_whether_more_has_come(start: Start, tmp_path: Path, secure: bool) -> None:
    go = Event()

    def later(_: bytes) -> bytes:
        go.wait(10)
        return chunk(b"two\n") + b"0\r\n\r\n"

    tls = certificate(tmp_path) if secure else None
    server, found = start([HEAD + chunk(b"one\n"), later], tls=tls)
    with found.stream("/api/v1/x", {}, 10.0) as stream:
        lines = stream.lines()
        assert next(lines) == b"one"
        assert not stream.has_more()
        go.set()
        server.wait(stream.has_more)
        assert list(lines) == [b"two"]


def test_a_stream_that_is_closed_has_no_more(start: Start) -> None:
    _, found = start([HEAD + chunk(b"one\n"), HANG])
    with found.stream("/api/v1/x", {}, 10.0) as stream:
        assert next(stream.lines()) == b"one"
    assert not stream.has_more()
