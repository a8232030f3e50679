"""API objects as plain JSON values, with uids, resource versions and watchers."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from scheduler.simulation.clock import EPOCH

Object = dict[str, Any]
"""An API object as decoded JSON. What the store hands out must not be changed by the reader."""

_UIDS = uuid.UUID("6d757374-6572-4000-8000-000000000000")


class Key(NamedTuple):
    """Identity of an object: kind, namespace ("" for cluster objects) and name."""

    kind: str
    namespace: str
    name: str


class ChangeType(StrEnum):
    """``type`` of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event."""

    type: ChangeType
    key: Key
    object: Object


Watcher = Callable[[Change], None]


def key_of(item: Object) -> Key:
    """The key of an API object."""
    metadata = item["metadata"]
    return Key(item["kind"], metadata.get("namespace", ""), metadata["name"])


def timestamp(virtual: float) -> str:
    """A virtual second as the API writes times."""
    return datetime.fromtimestamp(EPOCH + int(virtual), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """Holds the objects; every write gets a new resource version and reaches every watcher.

    Objects are replaced, never changed in place, so a reader may keep what it was given.
    """

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._versions = itertools.count(1)
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> None:
        """Call ``watcher`` for every later change, in the order of the changes."""
        self._watchers.append(watcher)

    def get(self, key: Key) -> Object | None:
        """The object, or None."""
        return self._objects.get(key)

    def of_kind(self, kind: str) -> Iterator[Object]:
        """All objects of a kind, in the order in which they were created."""
        items = list(self._objects.items())
        return (item for key, item in items if key.kind == kind)

    def listed(self) -> Iterator[Change]:
        """Everything there is as ADDED changes, in the order in which it was created.

        May be called from any thread: the copy is made in one step.
        """
        items = self._objects.copy().items()
        return (Change(ChangeType.ADDED, key, item) for key, item in items)

    def add(self, item: Object, now: float) -> Object:
        """Store a new object with uid and creation time. The key must be free."""
        key, version = key_of(item), next(self._versions)
        stored = copy.deepcopy(item)
        metadata = stored["metadata"]
        metadata.setdefault("uid", str(uuid.uuid5(_UIDS, f"{'/'.join(key)}/{version}")))
        metadata["creationTimestamp"] = timestamp(now)
        metadata["resourceVersion"] = str(version)
        self._objects[key] = stored
        self._tell(ChangeType.ADDED, key)
        return stored

    def change(self, key: Key, edit: Callable[[Object], None]) -> Object:
        """Apply ``edit`` to a copy and store it; an edit that changes nothing is no write."""
        before = self._objects[key]
        after = copy.deepcopy(before)
        edit(after)
        if after == before:
            return before
        after["metadata"]["resourceVersion"] = str(next(self._versions))
        self._objects[key] = after
        self._tell(ChangeType.MODIFIED, key)
        return after

    def remove(self, key: Key) -> None:
        """Take the object away."""
        last = self._objects.pop(key)
        self._publish(Change(ChangeType.DELETED, key, last))

    def _tell(self, type_: ChangeType, key: Key) -> None:
        self._publish(Change(type_, key, self._objects[key]))

    def _publish(self, change: Change) -> None:
        for watcher in self._watchers:
            watcher(change)
