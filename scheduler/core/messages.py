"""What goes into the engine (events) and what comes out of it (replies and effects)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model import Chart, GangKey, Group, GroupKey, Node, Pod, PodRef

# ── Events ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node was added or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod was added or changed."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted; only its uid counts."""

    uid: str


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A PodGroup-like object was added or changed."""

    group: Group


@dataclass(frozen=True, slots=True)
class GroupGone:
    """A PodGroup-like object was deleted."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class ChartSeen:
    """An object that describes the network was added or changed."""

    chart: Chart


@dataclass(frozen=True, slots=True)
class ChartGone:
    """An object that describes the network was deleted."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class Filter:
    """The scheduler asks which of the offered nodes a pod may use."""

    ref: PodRef
    names: Sequence[str]
    pod: Pod | None = None
    """The pod as the request has it; needed only where the engine has not seen it yet."""


@dataclass(frozen=True, slots=True)
class Prioritize:
    """The scheduler asks for scores of the offered nodes."""

    ref: PodRef
    names: Sequence[str]
    pod: Pod | None = None


@dataclass(frozen=True, slots=True)
class BindCall:
    """The scheduler asks to bind a pod. The reply may come with a later EffectDone."""

    ref: PodRef
    node: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """The scheduler asks which of its candidate evictions may go ahead."""

    ref: PodRef
    victims: Mapping[str, Sequence[str]]
    """Node name -> pod uids."""
    pod: Pod | None = None


class Outcome(StrEnum):
    """How an effect ended."""

    OK = "ok"
    CONFLICT = "conflict"
    GONE = "gone"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class EffectDone:
    """An effect was carried out, failed, or was cancelled before it was sent."""

    id: int
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The first full list of nodes, pods and groups is in."""


Event = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | GroupSeen
    | GroupGone
    | ChartSeen
    | ChartGone
    | Filter
    | Prioritize
    | BindCall
    | Preempt
    | EffectDone
    | Tick
    | Synced
)

# ── Replies ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FilterReply:
    """Answer to Filter: nodes the pod may use, and why not the others."""

    nodes: Sequence[str]
    failed: Mapping[str, str]
    """Node name -> reason; preemption may help."""
    unresolvable: Mapping[str, str]
    """Node name (or the one made-up key ``muster``) -> reason; preemption does not help."""
    unsettled: bool = False
    """Whether the answer will most likely be another in a moment, so that who can wait should."""


@dataclass(frozen=True, slots=True)
class PrioritizeReply:
    """Answer to Prioritize: an integer score 0..10 for every offered node."""

    scores: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BindReply:
    """Answer to a BindCall; an empty error is success."""

    ref: PodRef
    node: str
    error: str


@dataclass(frozen=True, slots=True)
class PreemptReply:
    """Answer to Preempt: node name -> uids that may be evicted; empty = none."""

    victims: Mapping[str, Sequence[str]]


Reply = FilterReply | PrioritizeReply | BindReply | PreemptReply

# ── Effects ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Bind:
    """POST the pod's Binding, with these annotations merged into the pod."""

    id: int
    ref: PodRef
    node: str
    annotations: Mapping[str, str]
    gang: GangKey
    note: str
    """Text of the ``Scheduled`` Event that follows a success."""
    lift: bool = False
    """Whether Muster's own scheduling gate has to be taken off first."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Write ``status.nominatedNodeName``."""

    id: int
    ref: PodRef
    node: str
    lift: bool = False
    """Whether Muster's own scheduling gate has to be taken off afterwards."""


@dataclass(frozen=True, slots=True)
class ClearNomination:
    """Empty ``status.nominatedNodeName``."""

    id: int
    ref: PodRef


@dataclass(frozen=True, slots=True)
class Wake:
    """Patch an annotation, so that the scheduler looks at the pod again."""

    id: int
    ref: PodRef
    lift: bool = False
    """Whether Muster's own scheduling gate is taken off as well."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict the pod."""

    id: int
    ref: PodRef
    reason: str


@dataclass(frozen=True, slots=True)
class Record:
    """Write an Event on the gang's pods."""

    id: int
    gang: GangKey
    refs: tuple[PodRef, ...]
    reason: str
    """CamelCase reason of the Event."""
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Do not send the effect ``target`` if it was not sent yet. Has no outcome of its own."""

    id: int
    target: int


Effect = Bind | Nominate | ClearNomination | Wake | Evict | Record | Cancel
