"""The embedded cluster: API server, scheduler, kubelets and Muster's watch on one event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from scheduler import decode
from scheduler.core.messages import (
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
)
from scheduler.simulation.actuator import EmbeddedActuator, WriteTimes
from scheduler.simulation.apiserver import ApiServer
from scheduler.simulation.clock import EventLoop, Timer
from scheduler.simulation.jobs import JobController
from scheduler.simulation.kube_scheduler import KubeScheduler
from scheduler.simulation.kubelet import Kubelet, KubeletTimes
from scheduler.simulation.objects import Change, ChangeType, Object
from scheduler.simulation.readings import Readings
from scheduler.simulation.scheduler_options import SchedulerOptions

Post = Callable[[Event], None]


class LoopTimer:
    """Ticks the service in virtual time."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._fire: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._due: float | None = None

    def start(self, fire: Callable[[], None]) -> None:
        """Begin to call ``fire`` at the times that are set."""
        self._fire = fire
        self._plan()

    def set(self, due: float | None) -> None:
        """Replace the time of the next call; from any thread."""
        if due != self._due:
            self._due = due
            self._loop.call_threadsafe(self._plan)

    def stop(self) -> None:
        """Call no more."""
        self._fire = None

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._due is not None and self._fire is not None:
            self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._timer = self._due = None
        if self._fire is not None:
            self._fire()


class ServiceWatch:
    """Muster's list and watch: tells the service what there is, a moment later."""

    def __init__(self, api: ApiServer, loop: EventLoop, readings: Readings, delay_s: float) -> None:
        self._api = api
        self._loop = loop
        self._readings = readings
        self._delay_s = delay_s
        self._post: Post | None = None
        api.store.watch(self._on_change)

    def start(self, post: Post) -> None:
        """List everything, then follow the changes."""
        for change in self._api.store.listed():
            self._tell(post, change)
        post(Synced())
        self._post = post

    def _on_change(self, change: Change) -> None:
        if self._post is not None:
            self._loop.call_after(self._delay_s, partial(self._tell, self._post, change))

    def _tell(self, post: Post, change: Change) -> None:
        event = self._event(change)
        if event is not None:
            post(event)

    def _event(self, change: Change) -> Event | None:
        gone = change.type is ChangeType.DELETED
        match change.key.kind:
            case "Node":
                name = change.key.name
                return NodeGone(name) if gone else NodeSeen(self._readings.node(change.object))
            case "Pod":
                uid = change.object["metadata"]["uid"]
                return PodGone(uid) if gone else PodSeen(self._readings.pod(change.object))
            case "Event":
                return None
        return self._group_event(change.object, gone)

    def _group_event(self, item: Object, gone: bool) -> Event | None:
        group = decode.group(item)
        if group is None:
            return None
        return GroupGone(group.key) if gone else GroupSeen(group)


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How fast the parts of the cluster are."""

    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)
    kubelet: KubeletTimes = field(default_factory=KubeletTimes)
    writes: WriteTimes = field(default_factory=WriteTimes)
    watch_s: float = 0.001
    """Virtual seconds until Muster sees a change."""


class EmbeddedCluster:
    """A cluster in one process.

    Build it, build the service with its ``actuator``, ``clock`` and ``timer``, serve that over
    HTTP, then ``start`` with the service's ``post`` and its URL, and drive ``loop``.
    """

    def __init__(self, nodes: Iterable[Object], options: ClusterOptions | None = None) -> None:
        self.options = options or ClusterOptions()
        self.loop = EventLoop()
        self.api = ApiServer(self.loop)
        self.readings = Readings()
        self.actuator = EmbeddedActuator(self.api, self.loop, self.options.writes)
        self.timer = LoopTimer(self.loop)
        self.jobs = JobController(self.api, self.loop)
        self.kubelet = Kubelet(self.api, self.loop, self.readings, self.options.kubelet)
        self.scheduler: KubeScheduler | None = None
        self._watch = ServiceWatch(self.api, self.loop, self.readings, self.options.watch_s)
        self._nodes = list(nodes)

    @property
    def clock(self) -> Callable[[], float]:
        """Virtual seconds, for the service."""
        return self.loop.now

    def objects(self) -> Iterator[Object]:
        """What decisions depend on, as the API server has it now. May be called from any thread."""
        listed = self.api.store.listed()
        return (change.object for change in listed if change.key.kind != "Event")

    def start(self, post: Post, url: str) -> None:
        """Create the nodes, let Muster list them, and start the scheduler with its extender."""
        self.scheduler = KubeScheduler(
            self.api,
            self.loop,
            self.readings,
            url,
            self.options.scheduler,
            binding=self.actuator.binds,
        )
        for node in self._nodes:
            self.api.create(node)
        self._watch.start(post)

    def stop(self) -> None:
        """Close connections and threads. The loop must not be driven afterwards."""
        if self.scheduler is not None:
            self.scheduler.close()
