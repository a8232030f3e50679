"""Kinds of members, which placement cannot tell apart, and the one that a gang failed for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.core.feasibility import anti_affinity_matches, ports_clash
from scheduler.core.topology import Topology
from scheduler.model import Constraints, Pod, Resources

HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Kind:
    """Members that ask for the same: placement cannot tell them apart."""

    requests: tuple[tuple[str, int], ...]
    constraints: Constraints
    keeps_off_itself: bool = False
    """Whether two of them may not share a node, by their own required anti-affinity."""
    exact: bool = False
    """Whether they take the very accelerators that Muster chooses, and no others."""

    @property
    def one_a_node(self) -> bool:
        """Whether a node takes one of them at most, for anti-affinity or a host port of its own."""
        ports = self.constraints.ports
        return self.keeps_off_itself or ports_clash(ports, ports)

    @property
    def resources(self) -> Resources:
        """The requests as a mapping."""
        return dict(self.requests)


def kind_of(pod: Pod, models: tuple[str, ...] = ()) -> Kind:
    """What placement sees of a pod; ``models`` are GPU models for one that names none itself."""
    options = pod.declaration.options if pod.declaration else None
    constraints = pod.constraints
    if wanted := (options.gpu_required if options else ()) or models:
        constraints = replace(constraints, models=wanted)
    exact = bool(options and options.exact_gpus)
    return Kind(tuple(sorted(pod.requests.items())), constraints, _keeps_off_itself(pod), exact)


def _keeps_off_itself(pod: Pod) -> bool:
    return any(
        term.topology_key == HOSTNAME
        and anti_affinity_matches(term, pod.namespace, pod.namespace, pod.labels)
        for term in pod.anti_affinity
    )


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The kind of members for which a gang had the fewest seats, of what it needs."""

    kind: Kind
    need: int
    seats: int
    """No more of these have room: a bound from above, never from below."""
    level: int | None = None
    """All of them inside one domain of this level."""
    topology: Topology | None = None
    """The tree that the level is of; only with ``level``."""
