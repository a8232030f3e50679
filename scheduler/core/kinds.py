"""Kinds of members, which placement cannot tell apart, and the one that a gang failed for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.core.topology import Topology
from scheduler.model import Constraints, Pod, Resources


@dataclass(frozen=True, slots=True)
class Kind:
    """Members that ask for the same: placement cannot tell them apart."""

    requests: tuple[tuple[str, int], ...]
    constraints: Constraints

    @property
    def resources(self) -> Resources:
        """The requests as a mapping."""
        return dict(self.requests)


def kind_of(pod: Pod, models: tuple[str, ...] = ()) -> Kind:
    """What placement sees of a pod; ``models`` are GPU models for one that names none itself."""
    stated = pod.declaration.options.gpu_required if pod.declaration else ()
    constraints = pod.constraints
    if wanted := stated or models:
        constraints = replace(constraints, models=wanted)
    return Kind(tuple(sorted(pod.requests.items())), constraints)


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
