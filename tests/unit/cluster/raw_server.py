"""A server that says exactly the bytes that a test gives it, over plain TCP or TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

HANG = object()
"""Say nothing more, and keep the connection open."""
CLOSE = object()
"""Close the connection."""
RESET = object()
"""Break the connection off."""

Step = bytes | float | Callable[[bytes], bytes] | object
"""Bytes to send, seconds to wait, what makes an answer of the request, or a word from above."""
Script = Sequence[Step]


def ok(body: bytes = b"{}", *more: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    heads = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(heads).encode() + b"\r\n\r\n" + body


class RawServer:
    """Answers the n-th request with the n-th script; what it received is kept."""

    def __init__(self, scripts: Sequence[Script], context: ssl.SSLContext | None = None) -> None:
        self.received: list[bytes] = []
        self.connections = 0
        self._scripts = iter(scripts)
        self._context = context
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._stopped.set()
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(plain,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, plain: socket.socket) -> None:
        self.connections += 1
        self._open.append(plain)
        with suppress(OSError):
            line = self._context.wrap_socket(plain, server_side=True) if self._context else plain
            self._open.append(line)
            while request := _read_request(line):
                self.received.append(request)
                if not self._play(line, request, next(self._scripts)):
                    return

    def _play(self, line: socket.socket, request: bytes, script: Script) -> bool:
        for step in script:
            if isinstance(step, bytes):
                line.sendall(step)
            elif callable(step):
                line.sendall(step(request))
            elif isinstance(step, float):
                self._stopped.wait(step)
            elif step is HANG:
                self._stopped.wait(10)
            else:
                _end(line, hard=step is RESET)
                return False
        return True


def _read_request(line: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        part = line.recv(1 << 16)
        if not part:
            return b""
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or b"0")
    while len(body) < length:
        body += line.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def _end(line: socket.socket, *, hard: bool) -> None:
    if hard:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    else:
        line.shutdown(socket.SHUT_RDWR)
    line.close()


def certificate(folder: Path, name: str = "IP:127.0.0.1") -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key; skips where there is no openssl."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl here to make a certificate with")
    made, key = folder / "tls.crt", folder / "tls.key"
    argv = [program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-days", "2", "-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    subprocess.run([*argv, "-keyout", str(key), "-out", str(made)], check=True, capture_output=True)
    return made, key
