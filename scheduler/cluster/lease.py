"""A Lease of coordination.k8s.io, and for how long its holder can still be sure of it."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec
from msgspec import Struct

from scheduler.cluster.transport import segment
from scheduler.errors import SettingsError

SURE = 2 / 3
"""Share of a Lease's time for which its holder acts after a renewal; kube-scheduler gives up then
too (renewDeadline of 10 s in leaseDuration of 15 s), and nobody else may take it before the end."""

DURATION_S = 15.0
"""Of a Lease that does not say."""


class LeaseName(NamedTuple):
    """Which Lease."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its own path."""
        return f"{self.collection}/{segment(self.name)}"

    @property
    def collection(self) -> str:
        """The path of the Leases of its namespace."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{segment(self.namespace)}/leases"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Term(NamedTuple):
    """One uninterrupted time of one holder."""

    holder: str
    transitions: int


class _Spec(Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""


class Lease(Struct):
    """What is read of it."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)

    @property
    def holder(self) -> str:
        """Who holds it; "" for nobody."""
        return self.spec.holder_identity or ""

    @property
    def term(self) -> Term:
        """What changes whenever another one takes it, or the same one takes it again."""
        return Term(self.holder, self.spec.lease_transitions or 0)

    @property
    def renewal(self) -> object:
        """What changes whenever its holder renews it."""
        return self.term, self.spec.renew_time

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return self.metadata.resource_version

    def held_by(self, identity: str) -> bool:
        """Whether the scheduler of this host holds it: it calls itself HOST_UUID."""
        # A host name may hold an underscore itself; the UUID never does.
        host = self.holder.rpartition("_")[0]
        return bool(identity) and identity in (self.holder, host)

    def sure_s(self, now: float) -> float:
        """Seconds for which its holder may still act, at ``now`` of its own wall clock.

        The holder is this pod's own scheduler, so both look at one clock. Never more than the
        whole share, should that clock have been put back since.
        """
        if self.spec.renew_time is None:
            return 0.0
        lasts = SURE * (self.spec.lease_duration_seconds or DURATION_S)
        return min(lasts, self.spec.renew_time.timestamp() + lasts - now)


def lease_name(text: str) -> LeaseName:
    """``NAMESPACE/NAME``. Raises SettingsError."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise SettingsError(
            f"{text!r} is no NAMESPACE/NAME of a Lease, such as kube-system/muster-kube-scheduler"
        )
    return LeaseName(namespace, name)


read = msgspec.json.Decoder(Lease).decode
