"""Objects that describe the network, as the projects that define them write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

BLOCK, RACK, HOST = (
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
    "kubernetes.io/hostname",
)


def _object(kind: str, version: str, name: str, spec: Json) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def levels(labels: Sequence[object], name: str = "default", version: str = "v1beta2") -> Json:
    """A Topology of Kueue."""
    found = [{"nodeLabel": label} for label in labels]
    return _object("Topology", f"kueue.x-k8s.io/{version}", name, {"levels": found})


def kai_levels(labels: Sequence[object], name: str = "cluster-topology") -> Json:
    """A Topology of KAI."""
    found = [{"nodeLabel": label} for label in labels]
    return _object("Topology", "kai.scheduler/v1alpha1", name, {"levels": found})


def layers(*found: tuple[str, str, Sequence[object]], name: str = "default") -> Json:
    """A ClusterNetworkTopology of Koordinator; (layer, parent, labels), in any order."""
    spec = [
        {"topologyLayer": layer}
        | ({"parentTopologyLayer": parent} if parent else {})
        | ({"labelKey": list(labels)} if labels else {})
        for layer, parent, labels in found
    ]
    version = "scheduling.koordinator.sh/v1alpha1"
    return _object("ClusterNetworkTopology", version, name, {"networkTopologySpec": spec})


def hypernode(name: str, tier: object, *members: Json, tier_name: str = "") -> Json:
    """A HyperNode of Volcano."""
    spec = {"tier": tier, "members": list(members)}
    named = {"tierName": tier_name} if tier_name else {}
    return _object("HyperNode", "topology.volcano.sh/v1alpha1", name, spec | named)


def member(kind: str = "Node", **selector: Json) -> Json:
    """One member; ``exactMatch={"name": …}`` and so on."""
    return {"type": kind, "selector": selector}


def nodes(*names: str) -> list[Json]:
    """Members that are nodes, each by its name."""
    return [member(exactMatch={"name": name}) for name in names]


def domains(*names: str) -> list[Json]:
    """Members that are HyperNodes, each by its name."""
    return [member("HyperNode", exactMatch={"name": name}) for name in names]
