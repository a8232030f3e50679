"""What was told to the engine of one kind of object, so that nothing gone is ever forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from scheduler.cluster.resources import Meta
from scheduler.core.messages import (
    ChartGone,
    ChartSeen,
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
)
from scheduler.model import Chart, Group, Node, Pod
from scheduler.service import Post

V = TypeVar("V")

_Slot = tuple[str, str]


class _Held(NamedTuple, Generic[V]):
    uid: str
    value: V


class Mirror(Generic[V]):
    """The objects of one kind by namespace and name, each with its uid.

    Events are posted under the mirror's own lock, so that what several threads see of one object
    reaches the engine in one order. An object that was replaced by one of the same name is reported
    as gone first, and a late word about an old uid touches no new object.
    """

    def __init__(self, seen: Callable[[V], Event], gone: Callable[[V], Event]) -> None:
        self._seen = seen
        self._gone = gone
        self._held: dict[_Slot, _Held[V]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, namespace: str, name: str, uid: str) -> V | None:
        """The object of that name and uid, if there is one."""
        held = self._held.get((namespace, name))
        return held.value if held is not None and held.uid == uid else None

    def uid_of(self, namespace: str, name: str) -> str:
        """The uid of the object of that name; "" if there is none.

        Takes no lock, as ``get``: who asks may be called from within a post.
        """
        held = self._held.get((namespace, name))
        return held.uid if held is not None else ""

    def replace(self, found: Iterable[tuple[Meta, V]], post: Post) -> None:
        """A full list: what it lacks is gone, what it has is there."""
        with self._lock:
            now = {meta.slot: _Held(meta.uid, value) for meta, value in found}
            for slot, held in self._held.items():
                if slot not in now or now[slot].uid != held.uid:
                    post(self._gone(held.value))
            self._held = now
            for held in now.values():
                post(self._seen(held.value))

    def tell(self, post: Post) -> None:
        """Everything once more, to one who has forgotten it."""
        with self._lock:
            for held in self._held.values():
                post(self._seen(held.value))

    def held(self, meta: Meta) -> V | None:
        """What is known of this very object; None if nothing is."""
        held = self._held.get(meta.slot)
        return held.value if held is not None and held.uid == meta.uid else None

    def put(self, meta: Meta, value: V, post: Post) -> None:
        """An object was added or changed; what means nothing to the engine is not passed on."""
        with self._lock:
            held = self._held.get(meta.slot)
            self._held[meta.slot] = _Held(meta.uid, value)
            if held is not None and held.uid != meta.uid:
                post(self._gone(held.value))
            elif held is not None and held.value == value:
                return
            post(self._seen(value))

    def drop(self, meta: Meta, post: Post) -> None:
        """An object was deleted; only its uid counts, whatever else the notice carried."""
        with self._lock:
            held = self._held.get(meta.slot)
            if held is None or (meta.uid and meta.uid != held.uid):
                return
            del self._held[meta.slot]
            post(self._gone(held.value))

    def observe(self, meta: Meta, value: V, post: Post) -> None:
        """An object was read outside the watch; told only while the watch has it too.

        Otherwise a read that is overtaken by the object's deletion would bring back a ghost that
        nobody ever reports as gone.
        """
        with self._lock:
            held = self._held.get(meta.slot)
            if held is not None and held.uid == meta.uid:
                post(self._seen(value))


def nodes() -> Mirror[Node]:
    """A mirror of nodes."""
    return Mirror(NodeSeen, lambda node: NodeGone(node.name))


def pods() -> Mirror[Pod]:
    """A mirror of pods."""
    return Mirror(PodSeen, lambda pod: PodGone(pod.uid))


def groups() -> Mirror[Group]:
    """A mirror of groups of one kind."""
    return Mirror(GroupSeen, lambda group: GroupGone(group.key))


def charts() -> Mirror[Chart]:
    """A mirror of topology objects of one kind."""
    return Mirror(ChartSeen, lambda chart: ChartGone(chart.key))
