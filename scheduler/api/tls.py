"""The scheduler's calls over TLS, for a scheduler that does not run in the same pod.

Who calls has to show a certificate: the verbs behind it ask nobody who is calling. What comes is
handed on as it is to the address of the verbs, which stays on loopback.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from scheduler.api.listeners import Address
from scheduler.api.server import ServerError, listen

HANDSHAKE_S = 5.0
"""Longest time for a handshake; the scheduler gives up a call after as much."""

CONNECTIONS = 256
"""Connections at once. A scheduler keeps a few."""

HANDSHAKES = 256
"""Handshakes at once: nobody has shown anything yet. Who comes beyond that takes the place of
whoever has been at it for longest, so that those who only hold theirs keep nobody out, and use up
no files that the scheduler's other connections need."""

ACCEPT_PAUSE_S = 1.0
"""Until the next try where no connection can be taken, as when no more files may be open."""

RELOAD_S = 60.0
"""How often to look whether a certificate was renewed."""

TELL_S = 60.0
"""How often to say at most that somebody was refused: who calls decides how often that happens."""

_REFUSED = ("CERTIFICATE_VERIFY_FAILED", "PEER_DID_NOT_RETURN_A_CERTIFICATE")
"""What OpenSSL calls a certificate that is not taken, and one that is missing."""

CHUNK = 1 << 16
STOP_S = 5.0

log = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    """PEM files."""

    certificate: Path
    """Of this server, with what lies between it and its authority."""
    key: Path
    client_authority: Path
    """Who signs the certificates of those who may call."""


class TlsFront:
    """Listens at once, so that a port in use is a ServerError of the constructor, as is a file that
    cannot be used; serves between ``start`` and ``stop``. Port 0 takes a free one."""

    def __init__(self, address: Address, files: TlsFiles) -> None:
        self._files = files
        self._context = _context(files)
        self._renewed = _times(files)
        self._socket = listen(*address, options="--tls-port or --tls-host")
        self.address = Address(address.host, self._socket.getsockname()[1])
        """Where it listens."""
        self._target = Address("", 0)
        self._open = 0
        self._told_at = -TELL_S
        self._shaking: dict[asyncio.Task[None], None] = {}
        """Handshakes under way, the oldest first."""
        self._connections: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self, target: Address) -> None:
        """Hand what comes on to ``target``."""
        self._target = target
        self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="muster-tls", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more, and end what is open."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            # One that ends by itself in this very moment has no loop to ask any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_S)
        self._socket.close()

    def __enter__(self) -> TlsFront:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ── inner ──

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._serve())
        except Exception:
            log.exception("the address for TLS ended by itself")
        finally:
            loop.close()

    async def _serve(self) -> None:
        self._socket.setblocking(False)
        ways = [asyncio.create_task(way) for way in (self._renew(), self._accept())]
        await self._stopping.wait()
        others = [*ways, *self._connections]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                caller, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                log.warning("no connection over TLS can be taken just now: %s", error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            if len(self._shaking) >= HANDSHAKES:
                self._end_shaking(next(iter(self._shaking)))
            self._begin(caller)
            # Where one comes after the other, sock_accept lets nobody else have a turn.
            await asyncio.sleep(0)

    def _begin(self, caller: socket.socket) -> None:
        task = asyncio.get_running_loop().create_task(self._connected(caller))
        self._shaking[task] = None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _end_shaking(self, oldest: asyncio.Task[None]) -> None:
        self._shaking.pop(oldest)
        oldest.cancel()

    async def _connected(self, plain: socket.socket) -> None:
        try:
            caller, back = await self._shaken(plain)
        except OSError as error:
            self._tell(error)
            return
        if self._open >= CONNECTIONS:
            back.close()
            return
        self._open += 1
        try:
            await self._joined(caller, back)
        except OSError as error:
            log.debug("a connection over TLS ended: %s", error)
        finally:
            self._open -= 1
            back.close()

    def _tell(self, error: OSError) -> None:
        """A scheduler without the right certificate sees no more than a connection that ends."""
        now = asyncio.get_running_loop().time()
        refused = isinstance(error, ssl.SSLError) and error.reason in _REFUSED
        if not refused or now - self._told_at < TELL_S:
            log.debug("a handshake came to nothing: %s", error)
            return
        self._told_at = now
        log.warning(
            "a caller over TLS was refused (if it is the scheduler, its pods wait): %s: it has to "
            "show a certificate of %s, for use as a client",
            error,
            self._files.client_authority,
        )

    async def _shaken(
        self, plain: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Both ways of a connection whose caller has shown a certificate. Raises OSError."""
        loop = asyncio.get_running_loop()
        caller = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(caller)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, plain, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
            )
        finally:
            if task := asyncio.current_task():
                self._shaking.pop(task, None)
        return caller, asyncio.StreamWriter(transport, protocol, caller, loop)

    async def _joined(self, caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, onward = await asyncio.open_connection(*self._target)
        ways = [
            asyncio.create_task(_pump(caller, onward)),
            asyncio.create_task(_pump(answers, back)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # First, for the end of all may come while these are waited for.
            onward.close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _renew(self) -> None:
        """Take a renewed certificate for the connections that follow."""
        while True:
            await asyncio.sleep(RELOAD_S)
            self.renew()

    def renew(self) -> None:
        """Read the files again if they have changed. What cannot be used is left, with a word.

        All of it is new then: an authority that was taken out counts no longer, and neither does a
        session that began with a certificate of it.
        """
        with suppress(OSError):
            if (now := _times(self._files)) == self._renewed:
                return
            try:
                self._context = _context(self._files)
            except ServerError as error:
                log.warning("a renewed certificate is not taken: %s", error)
                return
            self._renewed = now
            log.info("the certificate for TLS was renewed")


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()


def _context(files: TlsFiles) -> ssl.SSLContext:
    """Raises ServerError, which names the file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise ServerError(
            f"--tls-cert {files.certificate} with --tls-key {files.key} cannot be used: "
            f"{error.strerror or error}: PEM files that belong together are expected"
        ) from error
    try:
        context.load_verify_locations(files.client_authority)
    except (OSError, ssl.SSLError) as error:
        raise ServerError(
            f"--tls-client-ca {files.client_authority} cannot be used: {error.strerror or error}: "
            "a PEM file with certificates is expected"
        ) from error
    return context


def _times(files: TlsFiles) -> tuple[float, ...]:
    return tuple(file.stat().st_mtime for file in files)
