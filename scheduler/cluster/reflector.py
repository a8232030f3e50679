"""Lists one kind of object, watches it, and starts over when the watch cannot be trusted."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.pace import Backoff, Pace
from scheduler.cluster.resources import Meta, Resource
from scheduler.cluster.transport import (
    Answer,
    LostReplyError,
    Stream,
    Transport,
    UnreachableError,
    message,
)
from scheduler.cluster.yielding import yielding
from scheduler.errors import ClusterError, DecodeError
from scheduler.service import Metrics, Post

PAGE = 500
"""Objects in one page of a list."""

_LIMITS = (PAGE, PAGE, 0)
"""Page sizes of the tries of one list: a list that expires twice half-way is read in one piece."""

V = TypeVar("V")

log = logging.getLogger(__name__)


class AbsentError(ClusterError):
    """The kind is not served, or may not be read, and that is fine."""


class RefusedError(ClusterError):
    """The API server answered, but not with a list."""

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s or 0.0


class _StartOver(Exception):  # noqa: N818 - control flow within this module
    """The watch cannot be resumed; ``reason`` is one word for metrics."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Expired(Exception):  # noqa: N818 - control flow within this module
    """A list ran too long for its snapshot."""


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Raw] | None = None


class _Line(Struct):
    type: str
    object: Raw


class _Object(Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)


class _Status(Struct):
    code: int = 0


_page = msgspec.json.Decoder(_Page)
_line = msgspec.json.Decoder(_Line)
_object = msgspec.json.Decoder(_Object)
_status = msgspec.json.Decoder(_Status)

Decode = Callable[[bytes, V | None], V | None]
"""One object's JSON, and what was read of it last, to its value; None if it is of no interest.
Raises DecodeError."""


class Reflector(Generic[V]):
    """Keeps a mirror equal to what the API server has, until stopped.

    ``listed`` is called after every full list, ``troubled`` with a text for people whenever
    listing fails. While ``crowded``, changes may be told up to a second late.
    """

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        decode: Decode[V],
        mirror: Mirror[V],
        post: Post,
        metrics: Metrics,
        pace: Pace,
        listed: Callable[[], None],
        troubled: Callable[[str], None],
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self.resource = resource
        self._transport = transport
        self._decode = decode
        self._mirror = mirror
        self._post = post
        self._restarts = metrics.watch_restarts
        self._pace = pace
        self._listed = listed
        self._troubled = troubled
        self._crowded = crowded
        self._stopped = threading.Event()
        self._backoff = Backoff(pace, self._stopped)
        self._version = ""
        self._stream: Stream | None = None
        self._warned: set[str] = set()

    def run(self) -> None:
        """List and watch until stopped. Raises AbsentError for an optional kind that is absent."""
        while not self._stopped.is_set():
            try:
                if self._list():
                    self._listed()
                    self._follow()
            except _StartOver as over:
                self._restarted(over.reason)
            except AbsentError:
                self._mirror.replace((), self._post)
                raise
            except ClusterError as error:
                self._troubled(str(error))
                self._backoff.wait(error.retry_after_s if isinstance(error, RefusedError) else 0.0)
            except Exception:
                log.exception("the watch of %s failed; it starts again", self.resource.name)
                self._backoff.wait()

    def stop(self) -> None:
        """Make ``run`` return soon."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.stop()

    # ── list ──

    def _list(self) -> bool:
        for limit in _LIMITS:
            try:
                found = list(self._pages(limit))
            except _Expired:
                continue
            if self._stopped.is_set():
                return False  # perhaps half a list, which must not make the other half vanish
            self._mirror.replace(found, self._post)
            return True
        raise ClusterError(f"cannot list {self.resource.name}: each list expired half-way")

    def _pages(self, limit: int) -> Iterator[tuple[Meta, V]]:
        token = ""
        while not self._stopped.is_set():
            page = self._page(limit, token)
            for raw in page.items or ():
                read = self._read(raw, None)
                if read is not None:
                    yield read
            self._version = page.metadata.resource_version
            token = page.metadata.continue_
            if not token:
                return

    def _page(self, limit: int, token: str) -> _Page:
        query = {"limit": str(limit)} if limit else {}
        answer = self._transport.get(
            self.resource.path, {**query, "continue": token} if token else query
        )
        if answer.status == 410:
            raise _Expired
        if not answer.ok:
            raise self._refusal(answer)
        try:
            return _page.decode(answer.body)
        except msgspec.DecodeError as error:
            raise ClusterError(f"cannot list {self.resource.name}: {error}") from error

    def _refusal(self, answer: Answer) -> ClusterError:
        name, text = self.resource.name, answer.text
        if self.resource.optional and answer.status in (403, 404, 405):
            return AbsentError(f"{name} are not read: {text}")
        if answer.status in (401, 403):
            text += f"; this account needs get, list and watch on {name}"
        return RefusedError(f"cannot list {name}: {text}", answer.retry_after_s)

    # ── watch ──

    def _follow(self) -> None:
        """Watch from the listed version on, resuming where a watch ended."""
        while not self._stopped.is_set():
            reason = self._watch_once()
            if not self._stopped.is_set():
                self._restarted(reason)

    def _watch_once(self) -> str:
        try:
            with self._transport.stream(
                self.resource.path, self._watch_query(), self._pace.idle_s
            ) as stream:
                self._stream = stream
                if self._stopped.is_set():
                    return "stopped"
                self._check(stream)
                for line in yielding(stream, self._crowded):
                    self._take(line)
                    self._backoff.reset()
            return "ended"
        except UnreachableError:
            return "unreachable"
        except LostReplyError as error:
            return "idle" if error.timed_out else "lost"
        finally:
            self._stream = None

    def _watch_query(self) -> dict[str, str]:
        longest = self._pace.watch_s * random.uniform(1.0, 1.2)
        return {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(1, int(longest))),
        }

    def _check(self, stream: Stream) -> None:
        if stream.status == 410:
            raise _StartOver("expired")
        if stream.status != 200:
            text = message(stream.read())
            log.warning("watch of %s: %s %s", self.resource.name, stream.status, text)
            raise _StartOver(f"status_{stream.status}")

    def _take(self, line: bytes) -> None:
        """One line of a watch. Raises _StartOver if it is not to be trusted."""
        try:
            change = _line.decode(line)
            if change.type == "ERROR":
                raise _StartOver("expired" if _is_expired(change.object) else "error")
            meta = _object.decode(change.object).metadata
        except msgspec.DecodeError as error:
            log.warning("watch of %s: a malformed line (%s)", self.resource.name, error)
            raise _StartOver("malformed") from error
        self._apply(change, meta)
        self._version = meta.resource_version or self._version

    def _apply(self, change: _Line, meta: Meta) -> None:
        if change.type == "DELETED":
            self._mirror.drop(meta, self._post)
        elif change.type in ("ADDED", "MODIFIED"):
            read = self._read(change.object, meta)
            if read is not None:
                self._mirror.put(*read, self._post)

    def _restarted(self, reason: str) -> None:
        self._restarts.labels(self.resource.name, reason).inc()
        log.info("watch of %s starts again: %s", self.resource.name, reason)
        self._backoff.wait()

    # ── objects ──

    def _read(self, raw: Raw, known: Meta | None) -> tuple[Meta, V] | None:
        try:
            meta = known or _object.decode(raw).metadata
            value = self._decode(bytes(raw), self._mirror.held(meta))
        except (msgspec.DecodeError, DecodeError) as error:
            self._warn_once(str(error))
            return None
        except Exception:
            log.exception("an object among %s is left out", self.resource.name)
            return None
        return None if value is None else (meta, value)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning("an object among %s is left out: %s", self.resource.name, text)


def _is_expired(status: Any) -> bool:
    try:
        return _status.decode(status).code == 410
    except msgspec.DecodeError:
        return False
