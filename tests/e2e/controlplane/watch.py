"""Follows collections of objects, and records what happened to pods and when."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import urllib3

from .client import ApiError, Client, Object, selectors, wait_until

Handler = Callable[[str, Object], None]
Read = Callable[[bytes], Object]
"""One line of a watch, with at least `type`, and the object's `metadata` with uid and version."""

# How a watch ends when its connection is lost, or shut down by us while it is read from.
_BROKEN = (urllib3.exceptions.HTTPError, ApiError, OSError, ValueError)


class Watch:
    """Calls a handler, in one thread, for every object there is and every change after.

    The objects that exist are handed over, as `ADDED`, before the block is entered; from then on
    no change is lost. After a broken connection everything is listed again, and what is gone
    meanwhile is handed over as `DELETED`.
    """

    def __init__(
        self,
        client: Client,
        kind: str,
        handler: Handler,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        read: Read = json.loads,
    ) -> None:
        self._client = client
        self._read = read
        self._path = client.path(kind, "", namespace)
        self._query = selectors(labels, fields)
        self._handler = handler
        self._known: dict[str, Object] = {}
        self._version = ""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._answer: urllib3.BaseHTTPResponse | None = None
        self._thread = threading.Thread(target=self._follow, name=f"watch {kind}", daemon=True)

    def __enter__(self) -> Self:
        self._list()
        self._connect()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stopping.set()
            if self._answer is not None:
                # The API server may be ending the watch at this very moment.
                with suppress(OSError, RuntimeError, ValueError):
                    self._answer.shutdown()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stopping.is_set():
            for event in self._events():
                self._hand_over(event["type"], event["object"])
            try:
                self._list()
                self._connect()
            except _BROKEN:
                self._stopping.wait(0.2)

    def _events(self) -> Iterator[Object]:
        """What the open answer tells, until it ends, breaks or is no longer valid."""
        if self._answer is None:
            return
        try:
            with self._answer as answer:
                for event in map(self._read, _lines(answer)):
                    if event["type"] == "ERROR":
                        return
                    yield event
        except _BROKEN:
            return

    def _list(self) -> None:
        if self._stopping.is_set():
            return
        answer = self._client.request("GET", self._path, query=self._query)
        self._version = answer["metadata"]["resourceVersion"]
        listed = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in self._known.keys() - listed.keys():
            self._hand_over("DELETED", self._known[uid])
        for uid, item in listed.items():
            if (known := self._known.get(uid)) is None:
                self._hand_over("ADDED", item)
            elif _version(known) != _version(item):
                self._hand_over("MODIFIED", item)

    def _connect(self) -> None:
        """Open the watch, unless the block is being left: then nobody would close it."""
        query = {**self._query, "watch": "1", "resourceVersion": self._version}
        answer = self._client.stream(self._path, query)
        with self._lock:
            self._answer = None if self._stopping.is_set() else answer
        if self._answer is None:
            answer.close()

    def _hand_over(self, change: str, item: Object) -> None:
        uid = item["metadata"]["uid"]
        if change == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = item
        self._handler(change, item)


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


@dataclass(frozen=True)
class Change:
    """One change of a pod."""

    at: float
    """`time.monotonic()` when it reached us, in seconds."""
    kind: str
    """ADDED, MODIFIED or DELETED."""
    pod: Object

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str | None:
        """The node it is bound to."""
        node: str | None = self.pod["spec"].get("nodeName")
        return node


class PodRecorder:
    """Records every change of the pods in a namespace while its block lasts, in order."""

    def __init__(self, client: Client, namespace: str, *, labels: str = "") -> None:
        self.changes: list[Change] = []
        self._watch = Watch(client, "Pod", self._record, namespace=namespace, labels=labels)

    def __enter__(self) -> Self:
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)

    def bindings(self) -> list[Change]:
        """The change in which each pod first had a node, in the order they came."""
        first: dict[str, Change] = {}
        for change in list(self.changes):
            if change.node:
                first.setdefault(change.pod["metadata"]["uid"], change)
        return list(first.values())

    def wait_bound(self, names: Iterable[str], deadline: float = 30.0) -> list[Change]:
        """Wait until all the named pods are bound; their bindings in the order they came.

        Raises
        ------
        TimeoutError
            With the names of those that are not.
        """
        wanted = set(names)

        def missing() -> set[str]:
            return wanted - {change.name for change in self.bindings()}

        try:
            wait_until(lambda: not missing(), deadline)
        except TimeoutError:
            raise TimeoutError(f"not bound within {deadline:g} s: {sorted(missing())}") from None
        return [change for change in self.bindings() if change.name in wanted]

    def _record(self, kind: str, pod: Object) -> None:
        self.changes.append(Change(time.monotonic(), kind, pod))
