"""The arms that are compared: how each declares a gang and who schedules it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.cluster_fleet import TOLERATION
from benchmarks.cluster_loads import MEMBER_GPUS, Arrival
from scheduler.core.gates import OWN as GATE
from tests.e2e.controlplane.objects import BLOCK, RACK, pod
from tests.e2e.muster import SCHEDULER_FLAGS

Json = dict[str, Any]

GROUP_VERSION = "scheduling.k8s.io/v1beta1"
GROUP = f"{GROUP_VERSION}/PodGroup"
GANG_GATE = "GenericWorkload"
TOPOLOGY_GATE = "TopologyAwareWorkloadScheduling"
API_SERVER_FLAGS = (
    f"--feature-gates={GANG_GATE}=true,{TOPOLOGY_GATE}=true",
    f"--runtime-config={GROUP_VERSION}=true",
)
"""What the native arms need of the API server; the other arms do not mind."""

STOCK = "bench-stock"
NOBODY = "bench-nobody"
RUN_SECONDS = "muster.bench/run-seconds"
RACK_PODS = 64
"""Members of 2 GPUs that a rack of 16 nodes of 8 GPUs holds."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to start gangs."""

    name: str
    scheduler_name: str = STOCK
    gates: Sequence[str] = ()
    """Feature gates of kube-scheduler that are turned on."""
    start: str = ""
    """How Muster starts gangs; "" where there is no Muster."""
    flags: Sequence[str] = SCHEDULER_FLAGS
    """Of the kube-scheduler that asks Muster."""
    options: Sequence[str] = ()
    """Further ones of `muster kube-config`."""
    gated: bool = False
    """Whether pods are made behind Muster's own scheduling gate, as at admission."""

    @property
    def native(self) -> bool:
        """Whether gangs are Kubernetes' own PodGroups."""
        return GANG_GATE in self.gates

    @property
    def raw(self) -> bool:
        """Whether the benchmark's client binds the pods, as fast as the API server takes it."""
        return self.scheduler_name == NOBODY

    def groups(self, arrival: Arrival, namespace: str) -> list[Json]:
        """Objects that have to exist before the arrival's pods."""
        if not self.native or not arrival.size:
            return []
        spec: Json = {"schedulingPolicy": {"gang": {"minCount": arrival.size}}}
        if TOPOLOGY_GATE in self.gates:
            key = RACK if arrival.size <= RACK_PODS else BLOCK
            spec["schedulingConstraints"] = {"topology": [{"key": key}]}
        metadata = {"name": arrival.name, "namespace": namespace}
        return [
            {"apiVersion": GROUP_VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        ]

    def pods(self, arrival: Arrival, namespace: str) -> list[Json]:
        """The arrival's pods, in the order in which they are created."""
        group = {"podGroupName": arrival.name}
        fields: Json = {"schedulingGroup": group} if self.native and arrival.size else {}
        if self.gated:
            fields["schedulingGates"] = [{"name": GATE}]
        return [
            pod(
                name,
                namespace,
                annotations=self._annotations(arrival),
                gpus=MEMBER_GPUS,
                scheduler=self.scheduler_name,
                tolerations=[TOLERATION],
                terminationGracePeriodSeconds=0,
                **fields,
            )
            for name in arrival.pod_names()
        ]

    def _annotations(self, arrival: Arrival) -> dict[str, str]:
        noted = {} if arrival.run_s is None else {RUN_SECONDS: f"{arrival.run_s:.2f}s"}
        if not self.start:
            return noted
        noted["muster.scheduler/start"] = self.start
        if arrival.size:
            noted["muster.scheduler/gang"] = arrival.name
            noted["muster.scheduler/min-available"] = str(arrival.size)
        return noted


ARMS = {
    arm.name: arm
    for arm in (
        Arm("stock"),
        Arm("native", gates=(GANG_GATE,)),
        Arm("native-topology", gates=(GANG_GATE, TOPOLOGY_GATE)),
        Arm("burst", "muster", start="burst"),
        Arm("burst-gated", "muster", start="burst", gated=True),
        Arm("nominate", "muster", start="nominate"),
        Arm("follow", "muster", start="follow"),
        Arm("raw", NOBODY),
    )
}
"""In the order of the tables. ``raw`` tells what the API server takes; a scheduler only watches."""
