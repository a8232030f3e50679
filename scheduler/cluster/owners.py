"""Reads the workloads that pods name as their gang's owner, such as a Job or a JobSet.

Where neither the pod nor a watched object states how many members a gang has, its owner does. Each
is read once, by a thread of its own, when the first pod names it, and again where the answer may
have changed: after a minute when a pod comes or goes, and at once for a pod of another owner of
that name.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from scheduler import dialects
from scheduler.cluster.owner_reader import REFRESH_S, Getter, Reader, Reading, resource_of
from scheduler.core.messages import Event, GroupGone, GroupSeen, PodGone, PodSeen
from scheduler.dialects.laying import states_minimum
from scheduler.model import Group, GroupKey, Pod
from scheduler.service import Post

__all__ = ["REFRESH_S", "Owners", "owner_resources"]

log = logging.getLogger(__name__)


def owner_resources() -> list[tuple[str, str]]:
    """(API group, resource) of every kind that may be read; Muster needs ``get`` on them."""
    return sorted(resource_of(kind) for kind in dialects.OWNERS)


@dataclass(slots=True)
class _Entry:
    """One owner, for as long as a pod names it."""

    users: set[str] = field(default_factory=set)
    """Uids of the pods that name it."""
    uids: dict[tuple[str, str], str] = field(default_factory=dict)
    """(kind, name) of its pods' controllers -> the latest uid."""
    stated: bool = False
    """Whether the pods state the minimum themselves, and only a hint is looked for."""
    due: float | None = None
    """When it is to be read; None for not at all, or just now."""
    reading: bool = False
    read_at: float | None = None
    said: Group | None = None
    """What the engine was told."""
    failures: int = 0
    version: int = 0
    """Grows when an answer that is on its way must not be used any more."""


class Owners:
    """Watches the pods that go by, and tells of their owners.

    ``post`` takes every event of the watch and passes it on at once; nothing in it waits for the
    network. As many owners are kept as living pods name. ``schedulers`` are the names of the
    schedulers whose pods count; empty for all.
    """

    def __init__(
        self,
        transport: Getter,
        post: Post,
        schedulers: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = Reader(transport, clock)
        self._post = post
        self._schedulers = frozenset(schedulers)
        self._clock = clock
        self._entries: dict[GroupKey, _Entry] = {}
        self._named: dict[str, GroupKey] = {}
        self._due: list[tuple[float, GroupKey]] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="muster-owners", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self, deadline_s: float = 5.0) -> None:
        """Read no more; what is under way gets ``deadline_s`` seconds."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(deadline_s)

    def post(self, event: Event) -> None:
        """Take in an event of the watch, from any thread, and pass it on."""
        if isinstance(event, PodSeen):
            self._seen(event.pod)
            self._post(event)
        elif isinstance(event, PodGone):
            self._post(event)
            self._gone(event.uid)
        else:
            self._post(event)

    def tell(self) -> None:
        """Everything once more, to one who has forgotten it."""
        with self._changed:
            for entry in self._entries.values():
                if entry.said is not None:
                    self._post(GroupSeen(entry.said))

    # ── pods ──

    def _seen(self, pod: Pod) -> None:
        key = self._owner_of(pod)
        with self._changed:
            if self._named.get(pod.uid) not in (None, key):
                self._leave(pod.uid)
            if key is not None:
                self._join(key, pod)

    def _owner_of(self, pod: Pod) -> GroupKey | None:
        key = pod.declaration.group if pod.declaration is not None else None
        if key is None or not dialects.is_owner(key):
            return None
        ours = not self._schedulers or not pod.scheduler or pod.scheduler in self._schedulers
        old = pod.phase.terminal and pod.uid not in self._named
        return key if ours and not old else None

    def _join(self, key: GroupKey, pod: Pod) -> None:
        entry = self._entries.setdefault(key, _Entry())
        if pod.declaration is not None and states_minimum(pod.declaration.options):
            self._spare(key, entry)
        if pod.uid not in entry.users:
            entry.users.add(pod.uid)
            self._named[pod.uid] = key
            self._want(key, entry)
        if pod.owner is not None:
            who = (pod.owner.kind, pod.owner.name)
            if entry.uids.get(who) not in (None, pod.owner.uid):
                self._renew(key, entry)
            entry.uids[who] = pod.owner.uid

    def _spare(self, key: GroupKey, entry: _Entry) -> None:
        """The pods do without the owner's minimum: an owner that is not to be had is no fault."""
        if not entry.stated:
            entry.stated = True
            if entry.said is not None:
                self._schedule(key, entry, 0.0)

    def _want(self, key: GroupKey, entry: _Entry) -> None:
        """Have the owner read if it never was, or not for long."""
        if entry.reading or entry.due is not None:
            return
        if entry.read_at is None or self._clock() - entry.read_at >= REFRESH_S:
            self._schedule(key, entry, 0.0)

    def _renew(self, key: GroupKey, entry: _Entry) -> None:
        """Another object has come to bear the name: what was read is no longer true."""
        entry.version += 1
        entry.read_at = None
        self._forget(key, entry)
        self._schedule(key, entry, 0.0)

    def _gone(self, uid: str) -> None:
        with self._changed:
            if uid in self._named:
                self._leave(uid)

    def _leave(self, uid: str) -> None:
        key = self._named.pop(uid)
        entry = self._entries[key]
        entry.users.discard(uid)
        if entry.users:
            self._want(key, entry)
            return
        del self._entries[key]
        self._forget(key, entry)

    def _forget(self, key: GroupKey, entry: _Entry) -> None:
        if entry.said is not None:
            entry.said = None
            self._post(GroupGone(key))

    # ── reading ──

    def _schedule(self, key: GroupKey, entry: _Entry, in_s: float) -> None:
        entry.due = self._clock() + in_s
        heapq.heappush(self._due, (entry.due, key))
        self._changed.notify_all()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            key, entry, version = job
            reading = self._reader.read(key, entry.stated, entry.failures)
            with self._changed:
                entry.reading = False
                if self._entries.get(key) is entry and entry.version == version:
                    self._take(key, entry, reading)

    def _next(self) -> tuple[GroupKey, _Entry, int] | None:
        """The owner to be read next; waits for one. None once stopped."""
        with self._changed:
            while not self._stopped:
                wait = self._due[0][0] - self._clock() if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait)
                    continue
                due, key = heapq.heappop(self._due)
                entry = self._entries.get(key)
                if entry is not None and entry.due == due:
                    entry.due, entry.reading = None, True
                    return key, entry, entry.version
        return None

    def _take(self, key: GroupKey, entry: _Entry, reading: Reading) -> None:
        entry.failures = entry.failures + 1 if reading.failed else 0
        if not reading.failed:
            entry.read_at = self._clock()
        if reading.again_s is not None:
            self._schedule(key, entry, reading.again_s)
        # A passing failure takes nothing back that was read before.
        if reading.group is None or (reading.failed and entry.said is not None):
            return
        if reading.group != entry.said:
            entry.said = reading.group
            self._post(GroupSeen(reading.group))
