"""Follows the Lease for which kube-schedulers compete: Muster acts while its own pod's holds it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from scheduler.cluster import lease
from scheduler.cluster.lease import Lease, LeaseName, Term
from scheduler.cluster.pace import Backoff, Pace
from scheduler.cluster.transport import Answer, LostReplyError, Stream, Transport
from scheduler.errors import ClusterError

WATCH_S = 300
"""How long one watch stays open."""

IDLE_S = 3.0
"""Longest silence before the Lease is read anew; its holder renews it every 2 s."""

log = logging.getLogger(__name__)


class _Line(Struct):
    type: str
    object: Raw


_line = msgspec.json.Decoder(_Line)


class Replica(Protocol):
    """What leads, or stands by. Each is called by one thread, in turn."""

    def lead(self) -> bool:
        """Begin to act; False while something of an earlier term is still under way."""

    def stand_by(self) -> None:
        """Act no more; what was planned is void."""

    def hindered(self, reason: str) -> None:
        """Nobody can say who leads, and why; "" once it is known again."""


class Leadership:
    """Whether this replica leads, and who does.

    ``identity`` is what the own pod's kube-scheduler calls itself before the underscore: its host
    name. ``clock`` gives monotonic seconds, ``wall`` those that Leases are written in.
    """

    def __init__(
        self,
        transport: Transport,
        name: LeaseName,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        pace: Pace | None = None,
    ) -> None:
        self.name = name
        self.identity = identity
        self._transport = transport
        self._clock = clock
        self._wall = wall
        self._until = float("-inf")
        self._seen = Lease()
        self._led: Term | None = None
        self._replica: Replica | None = None
        self._stopped = threading.Event()
        self._backoff = Backoff(pace or Pace(longest_s=2.0), self._stopped)
        self._thread = threading.Thread(target=self._run, name="muster-lease", daemon=True)
        self._hindered = ""
        self._stream: Stream | None = None

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as it was seen; "" for nobody."""
        return self._seen.holder

    def holds(self) -> bool:
        """Whether this replica may act at this very moment; asked before every write."""
        return self._clock() < self._until

    def start(self, replica: Replica) -> None:
        """Begin to watch; ``replica`` stands by until it is told to lead."""
        self._replica = replica
        self._thread.start()

    def stop(self, deadline_s: float) -> None:
        """Watch no more; within ``deadline_s`` seconds. Nothing is told any more."""
        self._stopped.set()
        self._until = float("-inf")
        if (stream := self._stream) is not None:
            stream.stop()
        if self._thread.is_alive():
            self._thread.join(deadline_s)

    # ── inner ──

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._follow(self._read())
            except ClusterError as error:
                self._troubled(str(error))
            except Exception:
                log.exception("following Lease %s failed; it is tried again", self.name)
                self._backoff.wait()
            self._settle()

    def _read(self) -> Lease:
        answer = self._transport.get(self.name.path)
        if answer.status == 404:
            # It is made by the first scheduler that leads.
            self._see(Lease())
            self._settle()
            self._backoff.wait()
            return Lease()
        if not answer.ok:
            raise ClusterError(self._refusal(answer))
        found = lease.read(answer.body)
        self._see(found)
        self._settle()
        return found

    def _refusal(self, answer: Answer) -> str:
        text = f"Lease {self.name} cannot be read, so nobody knows who leads: {answer.text}"
        if answer.status in (401, 403):
            text += "; this account needs get and watch on it"
        return text

    def _follow(self, found: Lease) -> None:
        if not found.version:
            return
        query = {
            "watch": "1",
            "fieldSelector": f"metadata.name={self.name.name}",
            "resourceVersion": found.version,
            "timeoutSeconds": str(WATCH_S),
        }
        try:
            with self._transport.stream(self.name.collection, query, IDLE_S) as stream:
                self._stream = stream
                if self._stopped.is_set():
                    return
                if stream.status != 200:
                    raise ClusterError(f"Lease {self.name} cannot be watched: {stream.status}")
                for line in stream.lines():
                    if self._stopped.is_set() or not self._take(line):
                        return
        except LostReplyError as error:
            # Silence is what an expiring Lease looks like: it is read anew.
            if not error.timed_out and not self._stopped.is_set():
                raise
        finally:
            self._stream = None

    def _take(self, line: bytes) -> bool:
        """One line of the watch; False if the watch is of no more use."""
        change = _line.decode(line)
        if change.type not in ("ADDED", "MODIFIED"):
            return False
        self._see(lease.read(change.object))
        self._settle()
        return True

    def _see(self, found: Lease) -> None:
        if found.holder != self.holder:
            log.info("Lease %s is held by %s", self.name, found.holder or "nobody")
        # What was only read again is no renewal: where the clock was put back, it would never end.
        renewed = found.renewal != self._seen.renewal
        self._seen = found
        if not found.held_by(self.identity):
            self._until = float("-inf")
        elif renewed:
            self._until = self._clock() + found.sure_s(self._wall())
        self._backoff.reset()
        self._hinder("")

    def _settle(self) -> None:
        """Tell the replica what has changed. Another term of the same holder is a change, too."""
        term = self._seen.term if self.holds() else None
        if self._replica is None or term == self._led or self._stopped.is_set():
            return
        if self._led is not None:
            log.info("this replica stands by")
            self._led = None
            self._replica.stand_by()
        if term is not None and self._replica.lead():
            log.info("this replica leads")
            self._led = term

    def _troubled(self, text: str) -> None:
        self._hinder(text)
        self._settle()
        self._backoff.wait()

    def _hinder(self, text: str) -> None:
        if text == self._hindered:
            return
        self._hindered = text
        if text:
            log.warning("%s", text)
        if self._replica is not None:
            self._replica.hindered(text)
