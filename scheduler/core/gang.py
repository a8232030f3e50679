"""A gang: its members by status, and what is remembered of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from scheduler.core import gates
from scheduler.core.kinds import Bottleneck
from scheduler.model import GangKey, GroupKey, Options, Phase, Pod, Resources

if TYPE_CHECKING:
    from scheduler.core.terms import Terms


class Status(StrEnum):
    """What one member counts as."""

    SEATED = "seated"
    """Bound and alive."""
    SUCCEEDED = "succeeded"
    WAITING = "waiting"
    """Unbound and free to be placed."""
    GATED = "gated"
    LEAVING = "leaving"
    """Being deleted, bound or not."""
    FAILED = "failed"
    FAULTY = "faulty"
    """Its declaration or its requests cannot be read, or it asks for too much to be compared."""
    STALE = "stale"
    """Belongs to an earlier generation of the gang."""


HELD = (Status.SEATED, Status.SUCCEEDED)
"""What counts towards min now."""


class Stage(StrEnum):
    """The states of a gang's life."""

    FORMING = "forming"
    """Fewer pods exist than must start together."""
    QUEUED = "queued"
    """Complete, but there is no room, or it is not its turn."""
    STARTING = "starting"
    """Planned and reserved; the Bindings are on their way."""
    RUNNING = "running"
    """At least the minimum is bound."""
    BROKEN = "broken"
    """It ran, or began to, and is below its minimum now."""
    DONE = "done"
    """No member is alive any more."""
    INVALID = "invalid"
    """Its declaration cannot be used; `why` says which field."""


class Reason(StrEnum):
    """Why a gang is in its stage, for programs; people read ``Life.text``."""

    NONE = ""
    """All is well."""
    FAULT = "Fault"
    """A member's declaration or request cannot be read; `why` names pod and field."""
    GROUP_MISSING = "GroupMissing"
    """The PodGroup that the pods name does not exist."""
    TOO_FEW = "TooFewPods"
    """Fewer pods exist than must start together; gated and leaving ones do not count."""
    NO_ROOM = "NoRoom"
    """There is no room now; the text says how much is short, and at which level."""
    NEVER = "NeverFits"
    """No waiting helps: it asks for more than there is, or for a level that does not exist."""
    BACKOFF = "BackOff"
    """Its reservations ran out; it is planned anew after a pause."""
    PARTNER = "WaitsForPartner"
    """A gang that must start together with it is not ready."""
    PARTIAL = "Partial"
    """It started, and is below its minimum now."""


def status(pod: Pod) -> Status:
    """What a pod counts as within its gang."""
    if pod.phase is Phase.SUCCEEDED:
        return Status.SUCCEEDED
    if pod.phase is Phase.FAILED:
        return Status.FAILED
    if pod.deleting:
        return Status.LEAVING
    if pod.node:
        return Status.SEATED
    if pod.unplannable:
        return Status.FAULTY
    return Status.WAITING if gates.is_open(pod) else Status.GATED


@dataclass(slots=True)
class Seat:
    """Room of a lost member that is kept for its replacement for a while."""

    node: str
    resources: Resources
    until: float


@dataclass(slots=True)
class Memory:
    """All about a gang that cannot be derived from pods, nodes and groups."""

    complete: int | None = None
    """Order of completion among all gangs."""
    waiting_since: float = 0.0
    """Engine time of the completion, or of the last time it broke."""
    started_at: float | None = None
    """Engine time at which min was bound first in this generation."""
    share: tuple[tuple[float, int], float] | None = None
    """``waiting_since`` and how many wait -> the share of the cluster that they need."""
    tried_at: float | None = None
    """When the last try began in which nodes were kept for the gang; None = there was none."""
    relaxed: int = 0
    """Levels by which the topology requirement has been relaxed."""
    admitted: bool = False
    """Whether min members were bound at once in this generation."""
    generation: str = ""
    ranks: dict[str, int] = field(default_factory=dict)
    """Slot -> rank, as given out."""
    homes: dict[str, str] = field(default_factory=dict)
    """Slot -> node on which it last was."""
    backoff_until: float = 0.0
    backoff_next: float = 0.0
    lost: list[Seat] = field(default_factory=list)
    ahead: list[Seat] = field(default_factory=list)
    """Room for members that the controller makes in a later phase."""
    refusal: Refusal | None = None
    """Why the last plan failed; None after a success or before the first try."""
    told: tuple[Reason, str, float] | None = None
    """The hold text that was given out last, and when: it may not change often."""
    recorded: str = ""
    """The last Event's text, so that each real change is told once."""
    remarked: tuple[str, ...] = ()
    """The remarks about what members say that were told last."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a gang could not be planned."""

    reason: Reason
    text: str
    gains: int
    """The ledger's count of gains at that time: without a new gain it is no use to try again."""
    bottleneck: Bottleneck | None = None
    """What the gang lacked; None = not known in figures, so that only a new try can tell."""


@dataclass(frozen=True, slots=True)
class Life:
    """A gang's state as judged from its members and its memory."""

    stage: Stage
    reason: Reason
    text: str
    min: int
    least: int
    """Members that must be there at once: min, or fewer if more come in a later phase."""
    options: Options


@dataclass(slots=True)
class Gang:
    """One gang's members and memory; only ``core`` changes it."""

    key: GangKey
    by_status: dict[Status, dict[str, None]] = field(
        default_factory=lambda: {item: {} for item in Status}
    )
    declared: Counter[Options] = field(default_factory=Counter)
    roles: dict[str, str] = field(default_factory=dict)
    """Uid -> role, of members that state one."""
    groups: Counter[GroupKey] = field(default_factory=Counter)
    priorities: Counter[int] = field(default_factory=Counter)
    owners: dict[tuple[str, str], str] = field(default_factory=dict)
    """(kind, name) of each top owner -> the uid that is current."""
    latest: float = 0.0
    """Latest creation of a member, seconds since the epoch."""
    joined_at: float = float("-inf")
    """Engine time at which a pod joined last."""
    reserved: dict[str, None] = field(default_factory=dict)
    """Uids of members with an unbound reservation."""
    deadline: float = 0.0
    """When the open reservations run out; only with ``reserved``."""
    retries: dict[str, float] = field(default_factory=dict)
    """Uid -> when its effect is due again."""
    memory: Memory = field(default_factory=Memory)
    life: Life | None = None
    terms: Terms | None = None
    """What members and group say together; None = not worked out since that changed."""
    ask: int | None = None
    """Number of what the gang asks for, shared by gangs alike; None = not worked out."""
    ends_at: float = float("inf")
    """Engine time at which its members will have ended; infinity: they do not say."""
    kept_in_vain: Hashable | None = None
    """How the world was when no nodes could be kept for the gang; None = it is not known."""

    def count(self, *wanted: Status) -> int:
        """How many members have one of these statuses."""
        number = 0
        for item in wanted:
            number += len(self.by_status[item])
        return number

    @property
    def members(self) -> list[str]:
        """Uids of all members of the current generation."""
        return [
            uid for item, uids in self.by_status.items() if item != Status.STALE for uid in uids
        ]

    @property
    def stage(self) -> Stage:
        """The stage as last judged."""
        return self.life.stage if self.life else Stage.FORMING

    @property
    def empty(self) -> bool:
        """Whether no pod of any generation is left."""
        return not any(self.by_status.values())

    @property
    def held(self) -> int:
        """Members that count towards min now."""
        return self.count(*HELD)

    def lacking(self, *wanted: Status, with_reserved: bool = False) -> int:
        """How many more members it takes to make up min, and each role's min, with only these."""
        life = self.life
        least, role_min = (life.least, life.options.role_min) if life else (1, ())
        role_min = role_min if life and life.least == life.min else ()
        return lacking(self, least, role_min, *wanted, with_reserved=with_reserved)

    @property
    def ahead(self) -> int:
        """Members of later phases that do not exist yet."""
        life = self.life
        if life is None or life.least == life.min:
            return 0
        return max(0, life.min - self.held - self.count(Status.WAITING))

    @property
    def partners(self) -> list[GangKey]:
        """The other gangs that it says it is admitted together with, by name."""
        stated = self.life.options.partners if self.life else ()
        named = {self.key._replace(namespace=space, name=name) for space, name in stated}
        return sorted(named - {self.key})

    def names(self, key: GangKey) -> bool:
        """Whether it says that it is admitted together with that gang."""
        stated = self.life.options.partners if self.life else ()
        if (key.namespace, key.name) not in stated or key == self.key:
            return False
        return key == self.key._replace(namespace=key.namespace, name=key.name)

    @property
    def priority(self) -> int:
        """The highest member's priority."""
        return max(self.priorities, default=0)

    def is_alive(self) -> bool:
        """Whether any member may still run."""
        return self.count(Status.SEATED, Status.WAITING, Status.GATED) > 0


def lacking(
    gang: Gang,
    least: int,
    role_min: tuple[tuple[str, int], ...],
    *wanted: Status,
    with_reserved: bool = False,
) -> int:
    """Members that are missing to ``least`` in all and to every role's own minimum."""
    reserved = gang.reserved if with_reserved else {}
    total = least - gang.count(*wanted) - len(reserved)
    if not role_min:
        return max(0, total)
    missing = by_role(gang, role_min, *wanted, with_reserved=with_reserved)
    return max(0, total, sum(missing.values()))


def by_role(
    gang: Gang,
    role_min: tuple[tuple[str, int], ...],
    *wanted: Status,
    with_reserved: bool = False,
) -> dict[str, int]:
    """Role -> members that are missing to its own minimum, of roles that miss any."""
    there = Counter(gang.roles.get(uid, "") for item in wanted for uid in gang.by_status[item])
    there.update(gang.roles.get(uid, "") for uid in (gang.reserved if with_reserved else ()))
    return {role: number - there[role] for role, number in role_min if number > there[role]}
