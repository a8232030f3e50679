"""The watch over a whole cluster: nodes, pods, PodGroups and topology objects that are served."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from scheduler import decode
from scheduler.cluster import mirror
from scheduler.cluster.discovery import served_kinds
from scheduler.cluster.keeping import Keeping
from scheduler.cluster.mirror import Mirror
from scheduler.cluster.owners import Owners
from scheduler.cluster.pace import Backoff, Pace
from scheduler.cluster.reflector import AbsentError, Decode, Reflector, RefusedError
from scheduler.cluster.resources import NODES, PODS, Resource
from scheduler.cluster.transport import Transport
from scheduler.core.messages import Event, Synced
from scheduler.errors import ClusterError, DecodeError
from scheduler.model import Chart, GroupKey, Pod
from scheduler.service import Metrics, Recorder

GROUP_TRIES = 5
"""Failed lists of an optional kind after which the first full list no longer waits for it."""

V = TypeVar("V")

log = logging.getLogger(__name__)


class World(Protocol):
    """What the view tells of the cluster to; a Service is one."""

    @property
    def metrics(self) -> Metrics:
        """Where restarts are counted."""

    def post(self, event: Event) -> None:
        """Take in an event."""

    def set_unready_reason(self, reason: str) -> None:
        """Say what stands in the way of the first full list; "" for nothing."""


class View:
    """Feeds the world with what the API server has.

    Posts Synced once nodes, pods and every optional kind that is served were listed. Kinds that
    appear later are picked up within ``Pace.discover_s`` seconds. While ``crowded``, changes of
    pods may be told late.
    """

    def __init__(
        self,
        transport: Transport,
        world: World,
        *,
        pods: Mirror[Pod] | None = None,
        pace: Pace | None = None,
        schedulers: Collection[str] = (),
        recorder: Recorder | None = None,
        keeping: Keeping | None = None,
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transport = transport
        self._crowded = crowded
        self._keeping = keeping
        self._world = world
        self._recorder = recorder
        self._owners = Owners(transport, world.post, schedulers)
        self._pods = mirror.pods() if pods is None else pods
        self._pace = pace or Pace()
        self._stopped = threading.Event()
        self._sync = _Sync(world)
        self._lock = threading.Lock()
        self._running: dict[str, Reflector[Any]] = {}
        self._mirrors: dict[str, Mirror[Any]] = {}
        self._resources: dict[str, Resource] = {}
        self._threads: list[threading.Thread] = []
        self._warned: set[str] = set()

    def start(self) -> None:
        """Begin to list and watch, in threads."""
        self._owners.start()
        self._sync.expect(NODES.name)
        self._sync.expect(PODS.name)
        self._sync.expect("discovery")
        self._watch(NODES, lambda raw, _: decode.node_bytes(raw), mirror.nodes())
        read = decode.pod_bytes if self._keeping is None else self._keeping.noting(decode.pod_bytes)
        self._watch(PODS, read, self._pods)
        self._spawn("discovery", self._discover)

    def stop(self, deadline_s: float = 5.0) -> None:
        """End all watches within ``deadline_s`` seconds."""
        deadline = time.monotonic() + deadline_s
        self._stopped.set()
        with self._lock:
            running, threads = list(self._running.values()), list(self._threads)
        for reflector in running:
            reflector.stop()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._owners.stop(max(0.0, deadline - time.monotonic()))

    def pod_group(self, key: GroupKey) -> str:
        """The uid of a PodGroup; "" for one that is not there, and for what is none."""
        known = self._mirrors.get(f"podgroups.{key.kind.partition('.')[2]}")
        is_one = key.kind.startswith("PodGroup.") and known is not None
        return known.uid_of(key.namespace, key.name) if is_one and known is not None else ""

    def resource_of(self, key: GroupKey) -> Resource | None:
        """Where PodGroups of that kind are, if they are watched."""
        return self._resources.get(f"podgroups.{key.kind.partition('.')[2]}")

    def tell(self) -> None:
        """Tell the world everything once more; for one who has forgotten it."""
        with self._lock:
            known = list(self._mirrors.values())
        self._owners.tell()
        for each in known:
            each.tell(self._world.post)

    # ── inner ──

    def _watch(self, resource: Resource, read: Decode[Any], target: Mirror[Any]) -> None:
        name = resource.name
        if self._recorder is not None:
            read = _kept(self._recorder, resource, read)
        reflector: Reflector[Any] = Reflector(
            self._transport,
            resource,
            read,
            target,
            self._owners.post,
            self._world.metrics,
            self._pace,
            lambda: self._sync.listed(name),
            lambda text: self._troubled(resource, text),
            self._crowded if resource is PODS else lambda: False,
        )
        with self._lock:
            if self._stopped.is_set():
                return
            self._running[name] = reflector
            self._mirrors[name] = target
            self._resources[name] = resource
        self._spawn(name, lambda: self._run(reflector))

    def _spawn(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=f"muster-watch-{name}", daemon=True)
        with self._lock:
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _run(self, reflector: Reflector[Any]) -> None:
        name = reflector.resource.name
        try:
            reflector.run()
        except AbsentError as error:
            self._warn_once(str(error))
            self._sync.listed(name)
        finally:
            with self._lock:
                self._running.pop(name, None)

    def _troubled(self, resource: Resource, text: str) -> None:
        log.warning("%s", text)
        self._sync.failed(resource.name, text, GROUP_TRIES if resource.optional else None)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning("%s", text)

    def _discover(self) -> None:
        backoff = Backoff(self._pace, self._stopped)
        while not self._stopped.is_set():
            try:
                self._watch_served()
            except ClusterError as error:
                self._undiscovered(error)
                backoff.wait()
                continue
            except Exception:
                log.exception("looking for PodGroups failed; it is tried again")
                backoff.wait()
                continue
            backoff.reset()
            self._sync.listed("discovery")
            self._stopped.wait(self._pace.discover_s)

    def _undiscovered(self, error: ClusterError) -> None:
        self._warn_once(f"PodGroups are not looked for: {error}")
        self._sync.failed("discovery", str(error), 1 if isinstance(error, RefusedError) else None)

    def _watch_served(self) -> None:
        for resource in served_kinds(self._transport):
            with self._lock:
                running = resource.name in self._running
            if running:
                continue
            self._sync.expect(resource.name)
            if resource.kind == "PodGroup":
                self._watch(resource, _reader(resource, decode.group), mirror.groups())
            else:
                self._watch(resource, _reader(resource, self._charted), mirror.charts())

    def _charted(self, obj: Mapping[str, Any]) -> Chart | None:
        """A topology object; what of it cannot be used is said once."""
        found = decode.chart(obj)
        if found is not None:
            for text in found.warnings:
                self._warn_once(f"{obj['kind']} {found.key.name}: {text}; it is left out")
        return found


class _Sync:
    """Knows what is still missing for the first full list."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._missing: dict[str, str] = {}
        self._failures: dict[str, int] = {}
        self._done = False

    def expect(self, name: str) -> None:
        """One more thing to be listed; too late once all is listed."""
        with self._lock:
            if not self._done:
                self._missing[name] = ""

    def listed(self, name: str) -> None:
        """It is there."""
        with self._lock:
            self._missing.pop(name, None)
            self._settle()

    def failed(self, name: str, reason: str, tries: int | None) -> None:
        """It cannot be listed now; after ``tries`` failures it is done without."""
        with self._lock:
            if name not in self._missing:
                return
            self._missing[name] = reason
            count = self._failures[name] = self._failures.get(name, 0) + 1
            if tries is not None and count >= tries:
                del self._missing[name]
            self._settle()

    def _settle(self) -> None:
        reasons = [reason for reason in self._missing.values() if reason]
        self._world.set_unready_reason("; ".join(reasons)[:1000])
        if not self._missing and not self._done:
            self._done = True
            self._world.post(Synced())


def _kept(recorder: Recorder, resource: Resource, read: Decode[Any]) -> Decode[Any]:
    """Reads an object and keeps what the API server sent of it."""

    def read_and_keep(raw: bytes, before: Any) -> Any:
        value = read(raw, before)
        recorder.keep(resource.api_version, resource.kind, raw)
        return value

    return read_and_keep


def _reader(resource: Resource, decoded: Callable[[Mapping[str, Any]], V | None]) -> Decode[V]:
    def read(raw: bytes, _: V | None) -> V | None:
        try:
            found = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            raise DecodeError(str(error)) from error
        # The items of a list do not say what they are.
        return decoded({"apiVersion": resource.api_version, "kind": resource.kind, **found})

    return read
