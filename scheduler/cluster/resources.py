"""What is listed and watched, and where."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object on the API server."""

    name: str
    """For people and metrics, such as ``podgroups.scheduling.k8s.io``."""
    path: str
    """Its list, in all namespaces."""
    api_version: str = "v1"
    kind: str = ""
    optional: bool = False
    """Whether a cluster without it, or without permission to read it, is fine."""


NODES = Resource("nodes", "/api/v1/nodes", kind="Node")
PODS = Resource("pods", "/api/v1/pods", kind="Pod")

POD_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("scheduling.k8s.io", ("v1beta1", "v1alpha3", "v1alpha2")),
    ("scheduling.x-k8s.io", ("v1alpha1",)),
    ("scheduling.sigs.k8s.io", ("v1alpha1",)),
    ("scheduling.volcano.sh", ("v1beta1",)),
    ("scheduling.run.ai", ("v2alpha2",)),
)
"""API groups with PodGroups, and their versions with the preferred one first."""


def pod_groups(group: str, version: str) -> Resource:
    """The PodGroups of one API group."""
    return Resource(
        name=f"podgroups.{group}",
        path=f"/apis/{group}/{version}/podgroups",
        api_version=f"{group}/{version}",
        kind="PodGroup",
        optional=True,
    )


@dataclass(frozen=True, slots=True)
class TopologyKind:
    """A kind of object that describes the network, in some API group."""

    group: str
    plural: str
    kind: str
    versions: tuple[str, ...]
    """The preferred one first."""

    def resource(self, version: str) -> Resource:
        """Its objects, in one version; they are of no namespace."""
        return Resource(
            name=f"{self.plural}.{self.group}",
            path=f"/apis/{self.group}/{version}/{self.plural}",
            api_version=f"{self.group}/{version}",
            kind=self.kind,
            optional=True,
        )


TOPOLOGIES = (
    TopologyKind("kueue.x-k8s.io", "topologies", "Topology", ("v1beta2", "v1beta1", "v1alpha1")),
    TopologyKind("kai.scheduler", "topologies", "Topology", ("v1alpha1",)),
    TopologyKind(
        "scheduling.koordinator.sh",
        "clusternetworktopologies",
        "ClusterNetworkTopology",
        ("v1alpha1",),
    ),
    TopologyKind("topology.volcano.sh", "hypernodes", "HyperNode", ("v1alpha1",)),
)


class Meta(Struct, rename="camel"):
    """The part of an object's metadata that says which object it is."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def slot(self) -> tuple[str, str]:
        """Where in the cluster the object is; another uid may come to sit there."""
        return self.namespace, self.name
