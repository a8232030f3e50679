"""Frozen values that every layer shares: nodes, pods, gang declarations and groups.

Quantities are exact Python integers: ``cpu`` in millicores, everything else in its base unit
(bytes, devices, pods).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Resources = Mapping[str, int]
"""Resource name -> amount. ``cpu`` in millicores, others in base units."""

NO_RESOURCES: Resources = {}


class Phase(StrEnum):
    """``status.phase`` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @property
    def terminal(self) -> bool:
        """Whether the pod has given its resources back for good."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


class Start(StrEnum):
    """How a planned gang is put in place."""

    BURST = "burst"
    NOMINATE = "nominate"
    FOLLOW = "follow"


class Communication(StrEnum):
    """How much the members talk to each other."""

    INTENSIVE = "intensive"
    LIGHT = "light"


class Wish(StrEnum):
    """How much a gang wants something."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class Taint(NamedTuple):
    """A taint of a node; ``effect`` as in the API."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration; an empty key with ``Exists`` means all keys, no effect all effects."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(NamedTuple):
    """One match expression of node affinity or of a label selector."""

    key: str
    operator: str
    values: tuple[str, ...]


class SelectorTerm(NamedTuple):
    """A nodeSelectorTerm: all expressions and fields must match; an empty one matches nothing."""

    expressions: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]


class HostPort(NamedTuple):
    """A host port; an empty or ``0.0.0.0`` ip collides with every ip."""

    ip: str
    protocol: str
    port: int


class AntiTerm(NamedTuple):
    """A required pod anti-affinity term; no namespaces and no ``any_namespace``: its own."""

    selector: tuple[Requirement, ...] | None
    namespaces: tuple[str, ...]
    any_namespace: bool
    topology_key: str


@dataclass(frozen=True, slots=True)
class Constraints:
    """What decides where a pod may go, besides resources. Hashable: verdicts can be cached."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[SelectorTerm, ...] | None = None
    """Required node affinity, terms ORed; None = no requirement, () = matches no node."""
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[HostPort, ...] = ()
    models: tuple[str, ...] = ()
    """GPU models of which the node must have one; () = any."""


class GangKey(NamedTuple):
    """Identity of a gang. ``pod`` is True for the gang of one of a single accelerator pod."""

    namespace: str
    name: str
    pod: bool = False
    kind: str = ""
    """As ``Declaration.kind``: a Job and a PyTorchJob of one name are two gangs."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}#pod" if self.pod else f"{self.namespace}/{self.name}"


class GroupKey(NamedTuple):
    """Identity of a group object, for example ``PodGroup.scheduling.k8s.io``."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class PodRef(NamedTuple):
    """Identity of one pod."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Owner(NamedTuple):
    """The top controller that is known from the pod itself."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Options:
    """What a declaration may ask for beside the gang's name; None or "" = not stated."""

    min_available: int | None = None
    size: int | None = None
    role: str = ""
    role_min: tuple[tuple[str, int], ...] = ()
    required: str = ""
    """Level name or label key that all members must share."""
    preferred: str = ""
    relax_after: float | None = None
    """Seconds of waiting after which the requirement moves one level broader."""
    segment_size: int | None = None
    segment_level: str = ""
    segment_within: tuple[tuple[int, str], ...] = ()
    """Larger segments that these make up, the smallest first: (members, level). Each size divides
    the next."""
    communication: Communication | None = None
    nvlink: Wish | None = None
    """Whether all members shall share one NVLink domain."""
    gpu_required: tuple[str, ...] = ()
    """GPU models that will do."""
    gpu_preferred: tuple[str, ...] = ()
    """GPU models to try one after the other, the best first, before any other."""
    timeout: float | None = None
    """Seconds that a reservation may stay unbound."""
    max_runtime: float | None = None
    first: int | None = None
    """Members that its controller makes at first; the rest come when those run. They start when
    these exist, and room for the rest is kept."""
    partners: tuple[tuple[str, str], ...] = ()
    """(namespace, name) of gangs that are admitted only together with this one, itself included."""
    start: Start | None = None
    exact_gpus: bool | None = None
    """Whether the pod takes the very GPUs that Muster chooses, from an annotation."""

    @property
    def hard_levels(self) -> tuple[str, ...]:
        """Levels that all members, or those of a segment, must share; "" where none is stated."""
        return self.required, self.segment_level, *(level for _, level in self.segment_within)


NO_OPTIONS = Options()


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one pod says of its gang, in whichever dialect."""

    name: str
    dialect: str
    options: Options = NO_OPTIONS
    group: GroupKey | None = None
    """The object that holds the minimum, when the pod itself does not."""
    kind: str = ""
    """``Kind.group`` of what the name belongs to; "" for one that stands by itself."""


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup-like object."""

    key: GroupKey
    uid: str
    options: Options = NO_OPTIONS
    gang: bool = True
    """False for a native ``basic`` policy, which is no gang."""
    fault: str = ""
    warnings: tuple[str, ...] = ()
    """What it asks for and does not get."""


class ChartLevel(NamedTuple):
    """One level of a topology object."""

    label: str
    """Node label key."""
    name: str = ""
    """What requests may call it beside its key, such as the layer ``spine``."""


class ChartMember(NamedTuple):
    """What belongs to a domain: nodes, or domains of lower tiers; one of the last three is set."""

    nodes: bool
    """Whether nodes are meant; else domains."""
    name: str = ""
    pattern: str = ""
    """A regular expression that is found anywhere in the name."""
    selector: tuple[Requirement, ...] | None = None
    """A label selector of nodes."""


@dataclass(frozen=True, slots=True)
class Chart:
    """An object that describes the network: an order of node labels, or one domain of a tier."""

    key: GroupKey
    """Of no namespace."""
    levels: tuple[ChartLevel, ...] = ()
    """Broadest first; empty for a domain."""
    tier: int | None = None
    """Of a domain: counted from the nodes up."""
    tier_name: str = ""
    members: tuple[ChartMember, ...] = ()
    warnings: tuple[str, ...] = ()
    """What could not be read and is left out."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as placement sees it."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    allocatable: Resources = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only keys under ``muster.scheduler/``."""
    deleting: bool = False
    conditions: tuple[str, ...] = ()
    """Types of the conditions that are True, without Ready, sorted."""
    avoid: str = ""
    """Why the node should take nothing new although it is Ready; the engine's own judgement."""
    warnings: tuple[str, ...] = ()
    """What could not be read, for example a malformed quantity."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the engine sees it."""

    namespace: str
    name: str
    uid: str
    scheduler: str = ""
    """``spec.schedulerName``."""
    node: str = ""
    nominated: str = ""
    phase: Phase = Phase.PENDING
    deleting: bool = False
    gates: tuple[str, ...] = ()
    """Names of scheduling gates still set."""
    priority: int = 0
    created: float = 0.0
    """``creationTimestamp``, seconds since the epoch; only orders, never compared with a clock."""
    started: float = 0.0
    """``status.startTime``: when its kubelet accepted it, in seconds since the epoch by the node's
    clock; 0.0 = not yet. Compared only with what the agent of that node says."""
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Resources = field(default_factory=dict)
    """What the pod asks for in all, with ``pods: 1``."""
    constraints: Constraints = Constraints()
    anti_affinity: tuple[AntiTerm, ...] = ()
    nominate_because: str = ""
    """The spec field outside the burst allow-list, such as ``spec.volumes[0].nfs``; "" = none."""
    declaration: Declaration | None = None
    index: int | None = None
    """Rank index within its role, from our key or the controller's label."""
    job: str = ""
    """Name of the Job in which the index counts; "" where it counts in all of the role."""
    owner: Owner | None = None
    rejected: bool = False
    """Whether the kubelet refused to run the pod on its node, such as with ``OutOfcpu``."""
    hint: str = ""
    """The raw ``muster.scheduler/hint`` annotation."""
    fault: str = ""
    """Why this pod's declaration or requests cannot be used; "" = they can."""
    excess: str = ""
    """What it asks for more of than can be planned with; "" = nothing. Harms no plain pod."""
    warnings: tuple[str, ...] = ()
    """What could not be read and does no harm, such as an index that is no number."""
    digest: tuple[int | None, ...] = field(default=(), compare=False, repr=False)
    """Of all that decides how its JSON is read, but for what changes in passing."""

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.namespace, self.name, self.uid)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def unplannable(self) -> str:
        """Why a gang cannot be planned with this pod; "" = it can."""
        return self.fault or self.excess

    @property
    def holds_node(self) -> bool:
        """Whether the pod takes room on its node now; a terminating pod still does."""
        return bool(self.node) and not self.phase.terminal
