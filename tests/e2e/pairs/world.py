"""What a family of pairs consists of: nodes, pods that sit there already, and candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.controlplane.client import Object
from tests.e2e.controlplane.objects import node, pod

SITE = "muster.test/site"
"""Node label: the name of the node; what candidates are held to their node by."""
OVERHEAD = {"cpu": "250m", "memory": "120Mi"}
"""What the pods of the runtime class cost besides their containers."""


@dataclass(frozen=True)
class Sitter:
    """A pod that sits on the node before the candidate comes."""

    pod: Object
    status: Mapping[str, Any] | None = None
    """Written to the pod's status; a phase that is final gives its room back."""
    terminating: bool = False
    """Deleted, with nobody to fulfil it."""


@dataclass(frozen=True)
class Pair:
    """A candidate and its node."""

    family: str
    pod: Object
    site: str
    note: str = ""
    """What this pair is about, for people."""

    @property
    def name(self) -> str:
        """The candidate's name."""
        return str(self.pod["metadata"]["name"])


@dataclass
class World:
    """Everything that is to be created, in a namespace and with a runtime class of its own."""

    namespace: str
    runtime_class: str
    nodes: dict[str, Object] = field(default_factory=dict)
    sitters: list[Sitter] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)

    def add_node(
        self, family: str, *, labels: Mapping[str, str] | None = None, **fields: Any
    ) -> str:
        """One more node; its name."""
        name = f"{family}-{len(self.nodes):03d}"
        self.nodes[name] = node(name, labels={SITE: name, **(labels or {})}, **fields)
        return name

    def add_sitter(
        self,
        site: str,
        spec: Mapping[str, Any],
        *,
        status: Mapping[str, Any] | None = None,
        terminating: bool = False,
    ) -> Sitter:
        """One more pod on a node."""
        body = self.pod(f"sitter-{len(self.sitters):03d}", {**spec, "nodeName": site})
        self.sitters.append(Sitter(body, status, terminating))
        return self.sitters[-1]

    def add_pair(
        self, family: str, site: str, spec: Mapping[str, Any], note: str = "", *, held: bool = True
    ) -> Pair:
        """One more candidate for a node; ``held`` by the node's label unless it says so itself."""
        selector = {**spec.get("nodeSelector", {}), **({SITE: site} if held else {})}
        name = f"candidate-{len(self.pairs):03d}"
        body = self.pod(name, {**spec, "nodeSelector": selector})
        self.pairs.append(Pair(family, body, site, note))
        return self.pairs[-1]

    def pod(self, name: str, spec: Mapping[str, Any]) -> Object:
        """A pod of this world's namespace."""
        return pod(name, self.namespace, **spec)

    def room(self, site: str) -> dict[str, str]:
        """The allocatable resources of a node, to be changed in place."""
        allocatable: dict[str, str] = self.nodes[site]["status"]["allocatable"]
        return allocatable


def container(
    name: str,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    *,
    ports: Sequence[Object] = (),
    sidecar: bool = False,
) -> Object:
    """A container; a ``sidecar`` is an init container that goes on."""
    resources = {
        key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value
    }
    more: Object = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "image": "none", "resources": resources, "ports": list(ports), **more}
