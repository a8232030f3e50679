"""A client that is not the bottleneck: prepared requests over many connections, in a process of
its own."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from urllib.parse import urlsplit

from kubernetes import config

CONNECTIONS = 16
START_S = 60.0
ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A POST of JSON, sent ``at_s`` seconds after the begin or as soon as possible after that."""

    path: str
    body: bytes
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a batch went."""

    seconds: float
    failures: Sequence[str]
    """What was not answered with 2xx. Nothing more is sent after the first."""


@dataclass(frozen=True, slots=True)
class Target:
    """An API server, and who speaks to it."""

    host: str
    port: int
    authorization: str
    authority: str | None
    certificate: tuple[str, str] | None

    @classmethod
    def of(cls, kubeconfig: Path) -> Target:
        """What a kubeconfig file names."""
        loaded = config.new_client_from_config(str(kubeconfig)).configuration  # type: ignore[no-untyped-call]
        url = urlsplit(loaded.host)
        bearer = loaded.auth_settings().get("BearerToken", {}).get("value", "")
        both = (loaded.cert_file, loaded.key_file) if loaded.cert_file else None
        return cls(url.hostname or "", url.port or 443, bearer, loaded.ssl_ca_cert, both)


class Connection:
    """One kept-alive connection that sends one request after the other."""

    def __init__(self, target: Target) -> None:
        context = ssl.create_default_context(cafile=target.authority)
        if target.certificate:
            context.load_cert_chain(*target.certificate)
        plain = socket.create_connection((target.host, target.port), timeout=ANSWER_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname=target.host)
        who = f"Authorization: {target.authorization}\r\n" if target.authorization else ""
        self._head = f"Host: {target.host}\r\nContent-Type: application/json\r\n{who}"

    def post(self, request: Request) -> tuple[int, bytes]:
        """Status and body of the answer. OSError if the connection is lost."""
        length = len(request.body)
        head = f"POST {request.path} HTTP/1.1\r\n{self._head}Content-Length: {length}\r\n\r\n"
        self._socket.sendall(head.encode() + request.body)
        return self._answer()

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _answer(self) -> tuple[int, bytes]:
        received = bytearray()
        while (end := received.find(b"\r\n\r\n")) < 0:
            self._receive(received)
        head = bytes(received[:end]).lower()
        status = int(head.split(b" ", 2)[1])
        while not is_whole(head, received[end + 4 :]):
            self._receive(received)
        return status, bytes(received[end + 4 :])

    def _receive(self, received: bytearray) -> None:
        part = self._socket.recv(1 << 16)
        if not part:
            raise ConnectionError("the API server closed the connection")
        received += part


def is_whole(head: bytes, body: bytes | bytearray) -> bool:
    """Whether a body is complete; ``head`` is in lower case."""
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"\r\n0\r\n\r\n")
    _, _, rest = head.partition(b"content-length:")
    return len(body) >= int(rest.split(b"\r\n", 1)[0] or b"0")


def _serve(pipe: Pipe, target: Target, connections: int) -> None:
    """Send batch after batch until an empty one comes."""
    pipe.send("ready")
    while batch := pipe.recv():
        # New ones for each batch: the API server closes those that were silent for long.
        open_ones = [Connection(target) for _ in range(min(connections, len(batch)))]
        pipe.send(_send(open_ones, batch))
        for connection in open_ones:
            connection.close()


def _send(connections: Sequence[Connection], batch: Sequence[Request]) -> Done:
    began = time.monotonic()
    waiting = iter(batch)
    turn = threading.Lock()
    failures: list[str] = []

    def work(connection: Connection) -> None:
        while not failures and (request := _next(waiting, turn)) is not None:
            time.sleep(max(0.0, began + request.at_s - time.monotonic()))
            if failure := _failure(connection, request):
                failures.append(failure)

    threads = [threading.Thread(target=work, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Done(time.monotonic() - began, failures)


def _failure(connection: Connection, request: Request) -> str:
    try:
        status, body = connection.post(request)
    except (OSError, ValueError) as error:
        return f"POST {request.path}: {error}"
    return "" if 200 <= status < 300 else f"POST {request.path}: {status} {body[:300]!r}"


def _next(waiting: Iterator[Request], turn: threading.Lock) -> Request | None:
    with turn:
        return next(waiting, None)


class Sender:
    """Sends batches from another process."""

    def __init__(self, pipe: Pipe, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def begin(self, batch: Sequence[Request]) -> None:
        """Begin to send a batch, in its order; ``at_s`` must not fall."""
        self._pipe.send(list(batch))

    def done(self, deadline_s: float) -> Done:
        """Wait for the end of the batch. RuntimeError if a request failed; TimeoutError."""
        if not self._pipe.poll(deadline_s):
            raise TimeoutError(f"the client did not send its batch within {deadline_s:g} s")
        done: Done = self._pipe.recv()
        if done.failures:
            raise RuntimeError(f"{len(done.failures)} requests failed: {done.failures[0]}")
        return done

    def send(self, batch: Sequence[Request], deadline_s: float = 600.0) -> Done:
        """Begin and wait."""
        if not batch:
            return Done(0.0, ())
        self.begin(batch)
        return self.done(deadline_s)


@contextmanager
def sender(kubeconfig: Path, connections: int = CONNECTIONS) -> Iterator[Sender]:
    """A sender whose process ends with the block."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    target = Target.of(kubeconfig)
    process = context.Process(target=_serve, args=(theirs, target, connections), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(START_S):
            raise TimeoutError(f"the client did not start within {START_S:g} s")
        ours.recv()
        assert process.pid is not None
        yield Sender(ours, process.pid)
        ours.send(())
        process.join(10)
    finally:
        process.kill()
