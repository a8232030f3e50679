"""The Events of a gang on what made its pods, so that `kubectl describe job` explains the wait.

A PodGroup that the pods name has them too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from scheduler.cluster.events import Note
from scheduler.cluster.mirror import Mirror
from scheduler.core.messages import Record
from scheduler.model import GroupKey, Owner, Pod, PodRef
from scheduler.service.remembering import remember

OWNERS = 16
"""Most owners that one Record is written on; a gang mostly has one."""

AGAIN_S = 600.0
"""How long the same text is not said again of one owner: its pods may come and go meanwhile."""

REMEMBERED = 10_000


class OwnerNotes:
    """Makes the notes. ``pods`` knows who owns them, ``pod_group`` the uid of a PodGroup ("" for
    none); used by one thread at a time."""

    def __init__(
        self,
        pods: Mirror[Pod],
        clock: Callable[[], float] = time.monotonic,
        pod_group: Callable[[GroupKey], str] = lambda _: "",
    ) -> None:
        self._pods = pods
        self._pod_group = pod_group
        self._clock = clock
        self._said: dict[tuple[str, str, str], float] = {}

    def of_record(self, effect: Record) -> list[Note]:
        """The Event of a Record on each owner of its pods that was not told the same just now."""
        owners = [owner for owner in self._owners(effect) if self._is_new(effect, owner)]
        namespace = effect.gang.namespace
        return [
            Note(
                PodRef(namespace, owner.name, owner.uid),
                effect.reason,
                "Scheduling",
                effect.message,
                effect.warning,
                kind=owner.kind,
            )
            for owner in owners
        ]

    def _owners(self, effect: Record) -> list[Owner]:
        found: dict[str, Owner] = {}
        for ref in effect.refs:
            pod = self._pods.get(ref.namespace, ref.name, ref.uid)
            for owner in self._told_of(pod) if pod is not None else ():
                if owner.kind and owner.name and owner.uid:
                    found[owner.uid] = owner
        return list(found.values())[:OWNERS]

    def _told_of(self, pod: Pod) -> Iterator[Owner]:
        if pod.owner is not None:
            yield pod.owner
        group = pod.declaration.group if pod.declaration is not None else None
        if group is not None and group.namespace == pod.namespace:
            yield Owner("PodGroup", group.name, self._pod_group(group))

    def _is_new(self, effect: Record, owner: Owner) -> bool:
        key, now = (owner.uid, effect.reason, effect.message), self._clock()
        if now < self._said.get(key, float("-inf")) + AGAIN_S:
            return False
        remember(self._said, key, now, REMEMBERED)
        return True
