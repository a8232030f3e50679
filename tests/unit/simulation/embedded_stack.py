"""The whole stack in one process: embedded cluster, real service, real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from scheduler.api import ServerThread, create_app
from scheduler.service import Service
from scheduler.settings import Settings
from scheduler.simulation.apiserver import pod_key
from scheduler.simulation.cluster import ClusterOptions, EmbeddedCluster
from scheduler.simulation.fleet import LEVELS
from scheduler.simulation.jobs import GangJob
from scheduler.simulation.objects import Object
from scheduler.simulation.observer import HINT, Observer


@dataclass(slots=True)
class Stack:
    """What a test drives."""

    cluster: EmbeddedCluster
    service: Service
    url: str
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self.observer = Observer(self.cluster)

    def submit(self, name: str, pods: Sequence[int], **options: Any) -> GangJob:
        """A gang of pods with that many GPUs each, which runs until it is deleted."""
        options = {"arrival_s": self.cluster.loop.now(), "run_s": None, **options}
        job = GangJob(name, tuple(pods), namespace="t", **options)
        self.cluster.jobs.submit(job)
        return job

    def run(self, seconds: float) -> None:
        """Let virtual time pass, with a look at all gangs after every instant."""
        loop = self.cluster.loop
        end = loop.now() + seconds
        while (due := loop.next_time()) is not None and due <= end:
            loop.run_instant()
            self.observer.check()
        loop.run_until(end)

    def pod(self, name: str) -> Object:
        """The pod as the API server has it."""
        found = self.cluster.api.store.get(pod_key("t", name))
        assert found is not None, f"pod t/{name} is gone"
        return found

    def node_of(self, name: str) -> str:
        """Where the pod is bound; "" if it is not."""
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def hint_of(self, name: str) -> dict[str, Any]:
        """The hint that the pod got with its Binding."""
        found: dict[str, Any] = json.loads(self.pod(name)["metadata"]["annotations"][HINT])
        return found

    def calls(self, verb: str) -> int:
        """How often the scheduler called a verb."""
        assert self.cluster.scheduler is not None
        return self.cluster.scheduler.calls[verb]


@contextmanager
def stack(nodes: Sequence[Object], options: ClusterOptions | None = None) -> Iterator[Stack]:
    """A running stack; everything is stopped at the end."""
    cluster = EmbeddedCluster(nodes, options)
    settings = Settings(levels=LEVELS)
    service = Service(settings, cluster.actuator, clock=cluster.clock, timer=cluster.timer)
    with ServerThread(create_app(service)) as server:
        service.start()
        try:
            running = Stack(cluster, service, server.url)
            cluster.start(service.post, server.url)
            yield running
        finally:
            cluster.stop()
            service.stop()
