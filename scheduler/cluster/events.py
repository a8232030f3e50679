"""Writes Kubernetes Events, always after what matters more."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scheduler.cluster.transport import Transport, segment
from scheduler.core.messages import Bind, Record
from scheduler.errors import ClusterError
from scheduler.model import PodRef
from scheduler.service import Metrics

LIMIT = 4096
"""Events that may wait; more are dropped and counted."""

REFS = 16
"""Most pods that one Record is written on."""

NOTE_BYTES = 1024
"""The API's own limit of a note."""

POLITE_S = 1.0
"""How long an Event lets other writes go first."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Note:
    """One Event on one pod."""

    ref: PodRef
    reason: str
    action: str
    text: str
    warning: bool = False


def of_binding(effect: Bind) -> Note:
    """The Event that the scheduler itself writes for pods that it binds."""
    text = f"Successfully assigned {effect.ref} to {effect.node}"
    if effect.note:
        text = f"{text}: {effect.note}"
    return Note(effect.ref, "Scheduled", "Binding", text)


def of_record(effect: Record) -> list[Note]:
    """The same Event on the first pods of a gang."""
    return [
        Note(ref, effect.reason, "Scheduling", effect.message, effect.warning)
        for ref in effect.refs[:REFS]
    ]


class EventWriter:
    """A bounded queue of Events, and how one is written."""

    def __init__(self, transport: Transport, metrics: Metrics) -> None:
        self._transport = transport
        self._dropped = metrics.events_dropped
        self._instance = f"muster-{socket.gethostname()}"[:128]
        self._waiting: deque[Note] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._refused = ""

    def put(self, note: Note) -> None:
        """Queue an Event; with too many waiting it is dropped."""
        with self._changed:
            if self._stopped or len(self._waiting) >= LIMIT:
                self._dropped.inc()
                return
            self._waiting.append(note)
            self._changed.notify()

    def take(self) -> Note | None:
        """The next one; None once stopped and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped)
            return self._waiting.popleft() if self._waiting else None

    def stop(self, *, drop: bool) -> None:
        """Take no more in; with ``drop`` forget what waits."""
        with self._changed:
            self._stopped = True
            if drop:
                self._dropped.inc(len(self._waiting))
                self._waiting.clear()
            self._changed.notify_all()

    def write(self, note: Note) -> None:
        """Send one Event; a refusal is counted, and logged when it is a new one."""
        path = f"/apis/events.k8s.io/v1/namespaces/{segment(note.ref.namespace)}/events"
        try:
            answer = self._transport.post(path, self._body(note))
        except ClusterError as error:
            self._refuse(str(error), str(error))
            return
        if not answer.ok:
            self._refuse(str(answer.status), answer.text)

    def _refuse(self, kind: str, text: str) -> None:
        self._dropped.inc()
        if kind != self._refused:
            self._refused = kind
            log.warning("an Event was not written: %s", text)

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
                "apiVersion": "v1",
                "kind": "Pod",
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
