"""HTTP/1.1 with little work: one request after the other over connections that stay open.

A general client spends most of a small request on things that nobody here asks for. What counts is
CPU: on a machine that is full of API server, every millisecond of it delays the start of a gang.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from socket import socket

import httptools
from urllib3.connection import HTTPConnection

MOST_BYTES = 1 << 24
"""Longest answer to a write that is taken in; those of the API server have a few kilobytes."""

_PART = 1 << 16
_FRAMING = frozenset((b"content-length", b"transfer-encoding"))


class NotConnectedError(OSError):
    """No connection could be made, so nothing was sent."""


class NoAnswerError(OSError):
    """The request may have been carried out, but no whole answer came."""

    def __init__(self, text: str, *, timed_out: bool = False) -> None:
        super().__init__(text)
        self.timed_out = timed_out


@dataclass(slots=True)
class Reply:
    """An answer as it came."""

    status: int = 0
    body: bytes = b""
    retry_after: bytes = b""


class Connections:
    """Connections to one server that are kept between requests. Thread-safe.

    ``connect`` gives a connection that is made with its ``connect()``; ``idle`` is how many are
    kept at most, and ``read_s`` the longest silence in seconds while an answer is waited for.
    """

    def __init__(self, connect: Callable[[], HTTPConnection], idle: int, read_s: float) -> None:
        self._connect = connect
        self._read_s = read_s
        self._idle: deque[_Connection] = deque(maxlen=idle)
        self._closed = False

    def ask(self, request: bytes, *, bounded: bool) -> Reply:
        """Send a whole request and read its answer.

        With ``bounded`` the whole answer has to come within the time of one silence and may have
        ``MOST_BYTES``; a list may be long and slow. Raises NotConnectedError and NoAnswerError.
        """
        connection = self._take() or self._open()
        try:
            reply = connection.ask(request, bounded)
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return reply

    def close(self) -> None:
        """Close all that are idle; those in use are closed when their answer is there."""
        self._closed = True
        while (connection := self._pop()) is not None:
            connection.close()

    def _take(self) -> _Connection | None:
        while (connection := self._pop()) is not None:
            if connection.is_alive():
                return connection
            connection.close()
        return None

    def _pop(self) -> _Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open(self) -> _Connection:
        made = self._connect()
        try:
            made.connect()
        except Exception as error:
            made.close()
            raise NotConnectedError(str(error)) from error
        return _Connection(made, self._read_s)

    def _give_back(self, connection: _Connection) -> None:
        if self._closed or not connection.kept or len(self._idle) == self._idle.maxlen:
            connection.close()
        else:
            self._idle.append(connection)


class _Connection:
    """An open connection with one request at a time."""

    def __init__(self, made: HTTPConnection, read_s: float) -> None:
        self._made = made
        self._socket: socket = made.sock
        self._socket.settimeout(read_s)
        self._read_s = read_s
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._limited = False
        self.kept = True

    def is_alive(self) -> bool:
        """Whether nothing came while it was idle: that could only be the end, or be wrong."""
        return not self._readable.poll(0)

    def ask(self, request: bytes, bounded: bool) -> Reply:
        """Send and read. Raises NoAnswerError, after which the connection is of no use."""
        until = time.monotonic() + self._read_s
        answer = _Answer(MOST_BYTES if bounded else None)
        try:
            self._socket.sendall(request)
            while not answer.feed(self._socket.recv(_PART)):
                self._limit(until if bounded else None)
        except TimeoutError as error:
            raise NoAnswerError("no answer in time", timed_out=True) from error
        except NoAnswerError:
            raise
        except OSError as error:
            raise NoAnswerError(f"the connection was lost: {error}") from error
        self._limit(None)
        self.kept = answer.kept
        return answer.reply

    def _limit(self, until: float | None) -> None:
        """How long the next read may take; most answers come whole and need no new limit."""
        if until is not None:
            self._socket.settimeout(max(1e-3, until - time.monotonic()))
        elif self._limited:
            self._socket.settimeout(self._read_s)
        self._limited = until is not None

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            self._made.close()


class _Answer:
    """What has come of one answer; llhttp tells where it ends."""

    def __init__(self, most: int | None) -> None:
        self.reply = Reply()
        self.kept = False
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._begun = self._framed = self._whole = self._surplus = False
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> bool:
        """Take what was received, nothing at the end of the connection; whether that is all."""
        if data:
            self._parse(data)
        elif not self._begun or self._framed:
            raise NoAnswerError("the connection was lost before the end of the answer")
        else:
            self._whole = True
        if self._whole:
            self.reply.body = b"".join(self._parts)
        return self._whole

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._whole:
                raise NoAnswerError(f"the answer is not HTTP/1.1: {error}") from error
            self._surplus = True
        if self._most is not None and self._size > self._most:
            raise NoAnswerError(f"the answer is longer than {self._most} bytes")
        # What comes after the end belongs to nothing that was asked.
        self.kept = self._whole and not self._surplus and self.kept

    # ── called by the parser ──

    def on_message_begin(self) -> None:
        """A status line."""
        self._surplus = self._whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        lower = name.lower()
        if self._whole:
            return
        if lower in _FRAMING:
            self._framed = True
        elif lower == b"retry-after":
            self.reply.retry_after = value

    def on_headers_complete(self) -> None:
        """The body follows."""
        if not self._whole:
            self._begun = True
            self.reply.status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """A part of the body."""
        if not self._whole:
            self._size += len(part)
            self._parts.append(part)

    def on_message_complete(self) -> None:
        """The end, but for what only says that the answer is still to come."""
        if 100 <= self.reply.status < 200:
            self._begun = self._framed = False
            self.reply = Reply()
        elif not self._whole:
            self._whole = True
            self.kept = self._parser.should_keep_alive()
