"""A condition on PodGroups that says whether their gang has started, and why not.

For kinds that have conditions: the native PodGroup and Volcano's. Where Muster may not write them,
it leaves them alone.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.resources import Resource
from scheduler.cluster.transport import Transport, segment
from scheduler.core.messages import Bind, Effect, Record
from scheduler.errors import ClusterError
from scheduler.model import GangKey, GroupKey, Pod, PodRef
from scheduler.service import Actuator, Post
from scheduler.service.remembering import remember

CONDITIONS: Mapping[str, str] = {
    "PodGroup.scheduling.k8s.io": "PodGroupScheduled",
    "PodGroup.scheduling.volcano.sh": "Scheduled",
}
"""Kind of PodGroup -> the type of its condition."""

WAITS = frozenset({"GangWaiting", "GangNeverFits", "GangInvalid", "GangBroken", "GangTimedOut"})
"""Reasons of Records after which a gang is not started."""

LIMIT = 10_000
TRIES = 3
"""How often a status is written that others change at the same moment."""

log = logging.getLogger(__name__)


class _Said(NamedTuple):
    gang: GangKey
    group: GroupKey
    started: bool
    reason: str
    message: str


class GroupStatus:
    """Writes the conditions, in a thread of its own and in order.

    ``resource`` gives what is served of a kind of PodGroup. ``pods`` knows which group a pod names.
    """

    def __init__(
        self,
        transport: Transport,
        pods: Mirror[Pod],
        resource: Callable[[GroupKey], Resource | None],
    ) -> None:
        self._transport = transport
        self._pods = pods
        self._resource = resource
        self._groups: dict[GangKey, GroupKey] = {}
        self._off: set[str] = set()
        self._queue: queue.Queue[_Said | None] = queue.Queue(LIMIT)
        self._thread = threading.Thread(target=self._work, name="muster-groups", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, deadline_s: float) -> None:
        """Write no more; what is under way gets ``deadline_s`` seconds."""
        self._off.update(CONDITIONS)
        self._put(None)
        if self._thread.is_alive():
            self._thread.join(deadline_s)

    def note(self, effect: Effect) -> None:
        """What the engine asks for, before it is done."""
        if isinstance(effect, Bind):
            self._remember(effect.gang, (effect.ref,))
        elif isinstance(effect, Record) and effect.reason in WAITS:
            self._remember(effect.gang, effect.refs)
            self._say(effect.gang, False, effect.reason, effect.message)

    def started(self, gang: GangKey, members: int) -> None:
        """The gang has its min of members."""
        self._say(gang, True, "GangStarted", f"gang {gang}: {members} members are bound")

    # ── inner ──

    def _remember(self, gang: GangKey, refs: Sequence[PodRef]) -> None:
        for ref in refs if gang not in self._groups else ():
            pod = self._pods.get(*ref)
            group = pod.declaration.group if pod is not None and pod.declaration else None
            if group is not None and group.kind in CONDITIONS and group.namespace == gang.namespace:
                remember(self._groups, gang, group, LIMIT)
                return

    def _say(self, gang: GangKey, started: bool, reason: str, message: str) -> None:
        group = self._groups.get(gang)
        if group is not None and group.kind not in self._off:
            self._put(_Said(gang, group, started, reason, message))

    def _put(self, said: _Said | None) -> None:
        try:
            self._queue.put_nowait(said)
        except queue.Full:
            log.warning("too many statuses of PodGroups wait; one is left out")

    def _work(self) -> None:
        while (said := self._queue.get()) is not None:
            if said.group.kind in self._off:
                continue
            try:
                self._write(said)
            except ClusterError as error:
                _not_written(said, str(error))
            except Exception:
                about = {"gang": str(said.gang)}
                log.exception("the status of %s was not written", said.group, extra=about)

    def _write(self, said: _Said) -> None:
        resource = self._resource(said.group)
        if resource is None:
            return
        path = _path(resource, said.group)
        for _ in range(TRIES):
            answer = self._transport.get(path)
            if not answer.ok:
                self._refused(said, answer.status, answer.text)
                return
            patch = _patch(msgspec.json.decode(answer.body), said)
            if patch is None:
                return
            answer = self._transport.patch(f"{path}/status", patch)
            if answer.status != 409:
                if not answer.ok:
                    self._refused(said, answer.status, answer.text)
                return

    def _refused(self, said: _Said, status: int, text: str) -> None:
        if status in (401, 403, 405):
            self._off.add(said.group.kind)
            log.warning("statuses of %s are not written: %s", said.group.kind, text)
        elif status != 404:
            _not_written(said, text)


def _not_written(said: _Said, text: str) -> None:
    about = {"gang": str(said.gang)}
    log.warning("the status of %s was not written: %s", said.group, text, extra=about)


class StatusActuator:
    """An actuator in front of another one, from which PodGroups' conditions follow."""

    def __init__(self, actuator: Actuator, groups: GroupStatus) -> None:
        self._actuator = actuator
        self._groups = groups

    def start(self, post: Post) -> None:
        """Start both."""
        self._groups.start()
        self._actuator.start(post)

    def submit(self, effects: Sequence[Effect]) -> None:
        """Pass effects on."""
        for effect in effects:
            self._groups.note(effect)
        self._actuator.submit(effects)

    def stop(self, deadline_s: float) -> None:
        """Stop both."""
        self._groups.stop(0.0)
        self._actuator.stop(deadline_s)


def _path(resource: Resource, key: GroupKey) -> str:
    folder, _, plural = resource.path.rpartition("/")
    return f"{folder}/namespaces/{segment(key.namespace)}/{plural}/{segment(key.name)}"


def _patch(found: Mapping[str, Any], said: _Said) -> dict[str, Any] | None:
    """A merge patch that replaces one condition and no other; None if it says so already."""
    kind = CONDITIONS[said.group.kind]
    conditions = list((found.get("status") or {}).get("conditions") or ())
    before: dict[str, Any] = next((item for item in conditions if item.get("type") == kind), {})
    state = "True" if said.started else "False"
    fresh = {"status": state, "reason": said.reason, "message": said.message}
    if fresh.items() <= before.items():
        return None
    since = before.get("lastTransitionTime") if before.get("status") == state else None
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    mine = {"type": kind, **fresh, "lastTransitionTime": since or now}
    if said.group.kind.endswith("volcano.sh"):
        mine["transitionID"] = str(uuid.uuid4())
    others = [item for item in conditions if item.get("type") != kind]
    # With the version that was read: a list is replaced as a whole, and others may write it too.
    version = (found.get("metadata") or {}).get("resourceVersion")
    return {"metadata": {"resourceVersion": version}, "status": {"conditions": [*others, mine]}}
