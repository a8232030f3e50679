"""A service, an actuator and a view joined to one API server."""

from __future__ import annotations

from types import TracebackType

from scheduler.cluster import mirror, snapshot
from scheduler.cluster.actuator import ClusterActuator
from scheduler.cluster.credentials import load
from scheduler.cluster.pace import Pace
from scheduler.cluster.transport import Transport
from scheduler.cluster.view import View
from scheduler.service import Metrics, Recorder, Service
from scheduler.settings import Settings

STOP_S = 5.0
"""Seconds for the watches to end, and as much again for the writes under way."""


class Connection:
    """Everything between a service and an API server; as a context it runs and gives the service.

    Raises ClusterError in the constructor if the credentials cannot be used. An API server that
    does not answer is no error: it is waited for, and the service says so until it is ready.
    """

    def __init__(
        self, settings: Settings, kubeconfig: str, recorder: Recorder | None = None
    ) -> None:
        self._transport = Transport(load(kubeconfig))
        pods, metrics = mirror.pods(), Metrics()
        actuator = ClusterActuator(self._transport, pods, metrics)
        self.service = Service(
            settings,
            actuator,
            metrics=metrics,
            recorder=recorder,
            objects=lambda: snapshot.objects(self._transport),
        )
        self._view = View(
            self._transport,
            self.service,
            pods=pods,
            schedulers=settings.scheduler_names,
            recorder=recorder,
            pace=Pace(discover_s=settings.discover_s),
        )

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._transport.host

    def __enter__(self) -> Service:
        self.service.start()
        self._view.start()
        return self.service

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._view.stop(STOP_S)
        self.service.stop(STOP_S)
        self._transport.close()
