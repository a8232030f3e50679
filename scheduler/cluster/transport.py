"""Bytes in, bytes out: a thin layer on the Kubernetes client's own REST transport."""

from __future__ import annotations

import re
import select
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import socket
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from scheduler import __version__
from scheduler.cluster.http1 import Connections, NoAnswerError, NotConnectedError
from scheduler.errors import ClusterError

CONNECTIONS = 32
"""Kept-alive connections: one for each effect worker and each watch, and some for the rest."""

CONNECT_S = 3.0
READ_S = 10.0
TOKEN_S = 10.0
"""Seconds for which a bearer token is used before it is read anew; they are renewed by the hour."""
_CHUNK = 1 << 16

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

_NEVER_SENT = (
    ConnectTimeoutError,
    NewConnectionError,
    NotConnectedError,
    ProxyError,
    SSLError,
)
_TARGET = re.compile(r"[!-~]+")
_VALUE = re.compile(r"[ -~]+")


class UnreachableError(ClusterError):
    """The request did not reach the API server."""


class LostReplyError(ClusterError):
    """The request may have been carried out, but no answer came."""

    def __init__(self, text: str, *, timed_out: bool) -> None:
        super().__init__(text)
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said."""

    status: int
    body: bytes
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """Status and message for people, under 400 characters."""
        return f"{self.status} {message(self.body)}".strip()[:400]


class Stream:
    """An open answer of many lines. ``stop`` may be called from another thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self.status = response.status

    def lines(self) -> Iterator[bytes]:
        """Every complete line. Ends with the answer; what follows the last newline is dropped.

        Raises LostReplyError when nothing comes for the idle time or the connection breaks.
        """
        rest = b""
        with _translated("watch"):
            for chunk in self._response.stream(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line for line in lines if line.strip())

    def has_more(self) -> bool:
        """Whether something has come that can be read without waiting, as far as that is known."""
        sock: socket | None = getattr(self._response.connection, "sock", None)
        if sock is None or sock.fileno() < 0:
            return False
        if isinstance(sock, ssl.SSLSocket) and sock.pending():
            return True
        readable = select.poll()
        readable.register(sock, select.POLLIN)
        return bool(readable.poll(0))

    def read(self) -> bytes:
        """All of it, for an answer that is no stream after all."""
        with _translated("watch"):
            return self._response.read()

    def stop(self) -> None:
        """Make a reader that waits in another thread return."""
        with suppress(ValueError, RuntimeError, OSError, NotImplementedError):
            self._response.shutdown()

    def close(self) -> None:
        """Give the connection up; an unread rest cannot be skipped."""
        self._response.close()


class Transport:
    """Requests to one API server over kept-alive connections. Thread-safe."""

    def __init__(self, configuration: Configuration, *, read_s: float = READ_S) -> None:
        configuration.connection_pool_maxsize = CONNECTIONS
        configuration.retries = False
        self._configuration = configuration
        self._base: str = configuration.host.rstrip("/")
        # One pool for the one host: a manager looks it up anew, by parsing the URL, every time.
        manager: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._pool = manager.connection_from_url(self._base)
        parts = urlsplit(self._base)
        self._prefix, self._host = parts.path, parts.netloc.rpartition("@")[2]
        # A proxy has to be told whom it is to ask, unless it only carries TLS.
        named = self._pool.proxy is not None and parts.scheme == "http"
        self._root = self._base if named else parts.path
        self._token = ""
        self._token_until = 0.0
        self._added: dict[str, str] = {}
        self._timeout = urllib3.Timeout(connect=CONNECT_S, read=read_s)
        self._pool.timeout = self._timeout
        # Made by the pool, which knows certificates and names, and then used without it.
        connect = cast("Callable[[], HTTPConnection]", self._pool._new_conn)
        self._direct = Connections(connect, CONNECTIONS, read_s)

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._base

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """GET. Raises UnreachableError or LostReplyError, as post and patch do."""
        return self._send("GET", _with_query(path, query), None, JSON)

    def post(self, path: str, body: Any) -> Answer:
        """POST a value as JSON."""
        return self._send("POST", path, msgspec.json.encode(body), JSON)

    def patch(self, path: str, body: Any) -> Answer:
        """PATCH with a JSON merge patch."""
        return self._send("PATCH", path, msgspec.json.encode(body), MERGE_PATCH)

    @contextmanager
    def stream(self, path: str, query: Mapping[str, str], idle_s: float) -> Iterator[Stream]:
        """GET an answer line by line; ``idle_s`` is the longest silence in seconds."""
        timeout = urllib3.Timeout(connect=CONNECT_S, read=idle_s)
        with _translated("GET"):
            response = self._request("GET", _with_query(path, query), None, JSON, timeout, False)
        stream = Stream(response)
        try:
            yield stream
        finally:
            stream.close()

    @property
    def token(self) -> str:
        """The bearer token that is sent; "" where there is none, as with certificates."""
        return self._authorization().removeprefix("Bearer ")

    def add_header(self, name: str, value: str) -> None:
        """Send a header of one's own with every request, for who answers behind a proxy."""
        self._added[name] = value

    def close(self) -> None:
        """Close all idle connections."""
        self._direct.close()
        self._pool.close()

    def _send(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        with _translated(f"{method} {path.partition('?')[0]}"):
            if self._pool.proxy is not None:
                return self._by_proxy(method, path, body, kind)
            head = self._head(method, path, len(body or b""), kind)
            reply = self._direct.ask(head + (body or b""), bounded=method != "GET")
        return Answer(reply.status, reply.body, _seconds(reply.retry_after.decode("latin-1")))

    def _by_proxy(self, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        response = self._request(method, path, body, kind, self._timeout, True)
        retry_after = _seconds(response.headers.get("Retry-After", ""))
        return Answer(response.status, response.data, retry_after)

    def _head(self, method: str, path: str, length: int, kind: str) -> bytes:
        target = self._prefix + path
        if not _TARGET.fullmatch(target):
            target = quote(target, safe="%/?&=:@!$'()*+,;~")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in self._headers(kind).items()]
        lines.append(f"Content-Length: {length}\r\n\r\n")
        return "\r\n".join(lines).encode("ascii")

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        timeout: urllib3.Timeout,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        return self._pool.urlopen(
            method,
            self._root + path,
            body=body,
            headers=self._headers(kind),
            timeout=timeout,
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=preload,
        )

    def _headers(self, kind: str) -> dict[str, str]:
        headers = {
            "Accept": JSON,
            "Content-Type": kind,
            "User-Agent": f"muster/{__version__}",
        }
        if token := self._authorization():
            headers["Authorization"] = token
        return headers | self._added

    def _authorization(self) -> str:
        """The bearer token; asking for it reads files and all of the environment each time."""
        now = time.monotonic()
        if now >= self._token_until:
            found = self._configuration.auth_settings().get("BearerToken")
            token = str(found["value"] or "").strip() if found else ""
            if token and not _VALUE.fullmatch(token):
                raise UnreachableError("the bearer token has characters that no token may have")
            self._token, self._token_until = token, now + TOKEN_S
        return self._token


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def message(body: bytes) -> str:
    """The message of a Status object, or the start of whatever else it is."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body[:200].decode("utf-8", "replace").strip()
    return str(found.get("message") or found.get("reason") or "") if isinstance(found, dict) else ""


def _with_query(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _seconds(stated: str) -> float | None:
    return float(stated) if stated.isdecimal() else None


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except _NEVER_SENT as error:
        raise UnreachableError(f"{what}: the API server cannot be reached: {error}") from error
    except NoAnswerError as error:
        raise LostReplyError(f"{what}: {error}", timed_out=error.timed_out) from error
    except ReadTimeoutError as error:
        raise LostReplyError(f"{what}: no answer in time", timed_out=True) from error
    except (HTTPError, OSError) as error:
        text = f"{what}: the connection was lost: {error}"
        raise LostReplyError(text, timed_out=False) from error
