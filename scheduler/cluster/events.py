"""Writes Kubernetes Events, always after what matters more."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scheduler.cluster.transport import Answer, Transport, segment
from scheduler.core.messages import Bind, Record
from scheduler.errors import ClusterError
from scheduler.model import PodRef
from scheduler.service import Metrics

LIMIT = 10_000
"""Events that may wait; more are dropped and counted."""

ROUTINE_PER_S = 100.0
ROUTINE_AT_ONCE = 16
"""How fast the Events of pods that were bound are written. Each costs the API server as much as a
Binding, so those of a gang of 500 must not get in the way of the next gang's start."""

_GRAIN_S = 1e-3
"""Shorter pauses are none."""

TRIES = 3
LONGEST_PAUSE_S = 5.0
"""How often an Event is sent that is refused as one too many, and the longest pause before it."""

REFS = 16
"""Most pods that one Record is written on."""

NOTE_BYTES = 1024
"""The API's own limit of a note."""

POLITE_S = 1.0
"""How long an Event lets other writes go first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Note:
    """One Event on one pod, or on what owns it."""

    ref: PodRef
    reason: str
    action: str
    text: str
    warning: bool = False
    routine: bool = False
    """Whether it says only what the pod itself shows too, so that it may come late."""
    kind: str = "Pod"
    """Of the object that ``ref`` names."""


def of_binding(effect: Bind) -> Note:
    """The Event that the scheduler itself writes for pods that it binds."""
    text = f"Successfully assigned {effect.ref} to {effect.node}"
    if effect.note:
        text = f"{text}: {effect.note}"
    return Note(effect.ref, "Scheduled", "Binding", text, routine=True)


def of_record(effect: Record) -> list[Note]:
    """The same Event on the first pods of a gang."""
    return [
        Note(ref, effect.reason, "Scheduling", effect.message, effect.warning)
        for ref in effect.refs[:REFS]
    ]


class EventWriter:
    """A bounded queue of Events, and how one is written.

    What people have to know comes first; what is routine is paced.
    """

    def __init__(
        self,
        transport: Transport,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._dropped = metrics.events_dropped
        self._clock = clock
        self._instance = f"muster-{socket.gethostname()}"[:128]
        self._urgent: deque[Note] = deque()
        self._routine: deque[Note] = deque()
        self._next_routine = 0.0
        self._changed = threading.Condition()
        self._stopped = False
        self._refused = ""

    def put(self, note: Note) -> None:
        """Queue an Event; with too many waiting it is dropped."""
        with self._changed:
            if self._stopped or len(self._urgent) + len(self._routine) >= LIMIT:
                self._dropped.inc()
                return
            (self._routine if note.routine else self._urgent).append(note)
            self._changed.notify()

    def take(self) -> Note | None:
        """The next one; None once stopped and empty."""
        with self._changed:
            while True:
                if self._urgent:
                    return self._urgent.popleft()
                pause = self._pause()
                if self._routine and (self._stopped or pause <= _GRAIN_S):
                    self._next_routine += 1 / ROUTINE_PER_S
                    return self._routine.popleft()
                if self._stopped:
                    return None
                self._changed.wait(pause if self._routine else None)

    def _pause(self) -> float:
        """Seconds until the next routine Event may go."""
        now = self._clock()
        self._next_routine = max(self._next_routine, now - (ROUTINE_AT_ONCE - 1) / ROUTINE_PER_S)
        return self._next_routine - now

    def stop(self, *, drop: bool) -> None:
        """Take no more in, and pace no more; with ``drop`` forget what waits."""
        with self._changed:
            self._stopped = True
            if drop:
                self._dropped.inc(len(self._urgent) + len(self._routine))
                self._urgent.clear()
                self._routine.clear()
            self._changed.notify_all()

    def write(self, note: Note) -> None:
        """Send one Event; a refusal is counted, and logged when it is a new one."""
        path = f"/apis/events.k8s.io/v1/namespaces/{segment(note.ref.namespace)}/events"
        try:
            answer = self._send(path, self._body(note))
        except ClusterError as error:
            self._refuse(note, str(error), str(error))
            return
        if not answer.ok:
            self._refuse(note, str(answer.status), answer.text)

    def _send(self, path: str, body: dict[str, Any]) -> Answer:
        for _ in range(TRIES - 1):
            answer = self._transport.post(path, body)
            if answer.status != 429:
                return answer
            with self._changed:
                pause = min(answer.retry_after_s or 1.0, LONGEST_PAUSE_S)
                self._changed.wait_for(lambda: self._stopped, pause)
        return self._transport.post(path, body)

    def _refuse(self, note: Note, kind: str, text: str) -> None:
        self._dropped.inc()
        if kind != self._refused:
            self._refused = kind
            about = {"pod": str(note.ref) if note.kind == "Pod" else ""}
            log.warning("an Event was not written: %s", text, extra=about)

    def _body(self, note: Note) -> dict[str, Any]:
        namespace, name, uid = note.ref
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{name[:200]}.{time.time_ns():x}"},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "Warning" if note.warning else "Normal",
            "reason": note.reason,
            "action": note.action,
            "note": _shortened(note.text),
            "reportingController": "muster",
            "reportingInstance": self._instance,
            "regarding": {
                # Of an owner the pod says the kind and the uid, which are looked for; no version.
                **({"apiVersion": "v1"} if note.kind == "Pod" else {}),
                "kind": note.kind,
                "namespace": namespace,
                "name": name,
                "uid": uid,
            },
        }


def _shortened(text: str) -> str:
    raw = text.encode()
    if len(raw) <= NOTE_BYTES:
        return text
    return raw[: NOTE_BYTES - 3].decode("utf-8", "ignore") + "…"
