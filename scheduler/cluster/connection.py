"""A service, an actuator and a view joined to one API server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from scheduler.cluster import mirror, snapshot
from scheduler.cluster.actuator import ClusterActuator
from scheduler.cluster.credentials import load
from scheduler.cluster.group_status import GroupStatus, StatusActuator
from scheduler.cluster.keeping import Keeping, KeptActuator
from scheduler.cluster.leadership import Leadership
from scheduler.cluster.lease import lease_name
from scheduler.cluster.pace import Pace
from scheduler.cluster.reviews import Reviews
from scheduler.cluster.transport import READ_S, Transport
from scheduler.cluster.view import View
from scheduler.service import Fence, Metrics, Recorder, Service
from scheduler.service.access import Access
from scheduler.settings import Settings

if TYPE_CHECKING:
    from scheduler.service.tracing import Tracing

STOP_S = 5.0
"""Seconds for the watches to end, and as much again for the writes under way."""

ELECTED_READ_S = 4.0
"""Longest wait for an answer where a Lease is followed: the last write of one who leads no more,
sent when two thirds of the Lease's 15 s are over, ends before anybody else may take it."""


class Connection:
    """Everything between a service and an API server; as a context it runs and gives the service.

    Raises ClusterError in the constructor if the credentials cannot be used. An API server that
    does not answer is no error: it is waited for, and the service says so until it is ready.

    With ``lease``, NAMESPACE/NAME, the service acts only while the kube-scheduler of the host
    ``identity`` holds that Lease. With ``tracing``, calls and requests are traced.
    """

    def __init__(
        self,
        settings: Settings,
        kubeconfig: str,
        recorder: Recorder | None = None,
        *,
        lease: str = "",
        identity: str = "",
        tracing: Tracing | None = None,
    ) -> None:
        name = lease_name(lease) if lease else None
        self._transport = Transport(
            load(kubeconfig), read_s=ELECTED_READ_S if name is not None else READ_S
        )
        self._leadership = name and Leadership(self._transport, name, identity)
        leads: Callable[[], bool] = self._leadership.holds if self._leadership else _always
        pods, metrics = mirror.pods(), Metrics()
        make_actuator, make_service = _makers(tracing, lambda uid: self.service.gang_of(uid))
        actuator = make_actuator(
            self._transport,
            pods,
            metrics,
            may_send=leads,
            pod_group=lambda key: self._view.pod_group(key),
        )
        keeping = Keeping(settings.bind_annotations)
        groups = GroupStatus(self._transport, pods, lambda key: self._view.resource_of(key))
        kept = KeptActuator(StatusActuator(actuator, groups), keeping)
        self._fence = Fence(kept, leads)
        self.service: Service = make_service(
            settings,
            self._fence if name else kept,
            metrics=metrics,
            recorder=recorder,
            objects=lambda: snapshot.objects(self._transport),
            leads=name is None,
            on_start=groups.started,
            leader=lambda: self._leadership.holder if self._leadership else "",
        )
        self._view: View = View(
            self._transport,
            self.service,
            pods=pods,
            schedulers=settings.scheduler_names,
            recorder=recorder,
            pace=Pace(discover_s=settings.discover_s),
            keeping=keeping,
            crowded=actuator.crowded,
        )

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._transport.host

    def access(self) -> Access:
        """Who may see what, as the API server says."""
        return Access(Reviews(self._transport))

    def __enter__(self) -> Service:
        self.service.start()
        self._view.start()
        if self._leadership:
            self._leadership.start(Elected(self.service, self._fence, self._view))
        return self.service

    def __exit__(self, *_: object) -> None:
        if self._leadership:
            self._leadership.stop(STOP_S)
        self._view.stop(STOP_S)
        self.service.stop(STOP_S)
        self._transport.close()


class Elected:
    """What one of several replicas does when it comes to lead, and when it does so no more."""

    def __init__(self, service: Service, fence: Fence, view: View) -> None:
        self._service = service
        self._fence = fence
        self._view = view

    def lead(self) -> bool:
        """Begin to act, unless requests of an earlier term may still change what is seen."""
        if not self._fence.wait_idle(0.0):
            return False
        self._service.lead()
        return True

    def stand_by(self) -> None:
        """Cancel what was not sent, and begin again with what is seen of the world."""
        self._fence.withdraw()
        self._service.stand_by()
        self._view.tell()

    def hindered(self, reason: str) -> None:
        """Nobody can say who leads."""
        self._service.hindered(reason)


def _makers(
    tracing: Tracing | None, gang_of: Callable[[str], str]
) -> tuple[Callable[..., ClusterActuator], Callable[..., Service]]:
    """Both as they are, or traced. Without traces nothing of theirs is imported or called."""
    if tracing is None:
        return ClusterActuator, Service
    from scheduler.cluster.traced import TracedActuator
    from scheduler.service.traced import TracedService

    return (
        partial(TracedActuator, tracing=tracing, gang_of=gang_of),
        partial(TracedService, tracing=tracing),
    )


def _always() -> bool:
    return True
