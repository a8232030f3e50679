"""A gang: its members by status, what is remembered of it, and the table of its life."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduler.core import gates
from scheduler.core.kinds import Bottleneck
from scheduler.model import GangKey, Group, GroupKey, Options, Phase, Pod, Resources


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
    """Its declaration or its requests cannot be read."""
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
    """Its declaration cannot be used; the text says which field."""


class Reason(StrEnum):
    """Why a gang is in its stage, for programs; people read ``Life.text``."""

    NONE = ""
    """All is well."""
    FAULT = "Fault"
    """A member's declaration or request cannot be read; the text names pod and field."""
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
    if pod.fault:
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

    @property
    def priority(self) -> int:
        """The highest member's priority."""
        return max(self.priorities, default=0)

    def is_alive(self) -> bool:
        """Whether any member may still run."""
        return self.count(Status.SEATED, Status.WAITING, Status.GATED) > 0


def merged(gang: Gang, group: Group | None) -> Options:
    """What the members and the group say together.

    The pods' word wins over the group's; where members differ, the largest numbers win, and the
    first in a fixed order for the rest. A minimum that pods state replaces all of the group's.
    """
    if len(gang.declared) == 1 and group is None:
        return next(iter(gang.declared))
    pods = sorted(gang.declared, key=repr)
    stated = [*pods, group.options] if group is not None else pods
    return Options(
        min_available=_most(pods, group, "min_available"),
        size=_most(pods, group, "size"),
        role_min=_first(pods if any(item.min_available for item in pods) else stated, "role_min")
        or (),
        required=_first(stated, "required") or "",
        preferred=_first(stated, "preferred") or "",
        relax_after=_first(stated, "relax_after"),
        segment_size=_first(stated, "segment_size"),
        segment_level=_first(stated, "segment_level") or "",
        communication=_first(stated, "communication"),
        nvlink=_first(stated, "nvlink"),
        gpu_required=_first(stated, "gpu_required") or (),
        gpu_preferred=_first(stated, "gpu_preferred") or (),
        timeout=_first(stated, "timeout"),
        max_runtime=_first(stated, "max_runtime"),
        first=_most(pods, group, "first"),
        partners=_first(stated, "partners") or (),
        start=_first(stated, "start"),
        exact_gpus=_first(stated, "exact_gpus"),
    )


def _first(stated: list[Options], name: str) -> Any:
    values = (getattr(options, name) for options in stated)
    return next((value for value in values if value not in (None, "", ())), None)


def _most(pods: list[Options], group: Group | None, name: str) -> int | None:
    values: list[int] = [value for item in pods if (value := getattr(item, name)) is not None]
    if not values and group is not None:
        values = [value for value in (getattr(group.options, name),) if value is not None]
    return max(values, default=None)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a gang is judged by, beside its members."""

    group_missing: GroupKey | None
    options: Options
    group_fault: str = ""

    min: int = field(init=False)
    """Members that must be there in all."""
    least: int = field(init=False)
    """Members that must be there at once for the first phase."""

    def __post_init__(self) -> None:
        by_role = sum(number for _, number in self.options.role_min)
        least = max(self.options.min_available or self.options.size or 1, by_role)
        object.__setattr__(self, "min", least)
        object.__setattr__(self, "least", min(self.options.first or least, least))

    def lacking(self, gang: Gang, *wanted: Status) -> int:
        """Members missing to the first phase, with only these."""
        role_min = self.options.role_min if self.least == self.min else ()
        return lacking(gang, self.least, role_min, *wanted)


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


def judge(gang: Gang, terms: Terms) -> Life:
    """The gang's place in its life: the one table of states.

    Partial is a reason and no state of its own: a gang some of whose members sit while the rest
    does not is broken, whether it ran before or was never whole.
    """
    stage, reason, text = _stage(gang, terms)
    return Life(stage, reason, text, terms.min, terms.least, terms.options)


def _stage(gang: Gang, terms: Terms) -> tuple[Stage, Reason, str]:
    held, waiting = gang.held, gang.count(Status.WAITING)
    if gang.count(Status.FAULTY) and not held + waiting:
        return Stage.INVALID, Reason.FAULT, "its declaration cannot be used"
    if terms.group_fault and not held:
        return Stage.INVALID, Reason.FAULT, terms.group_fault
    if not gang.is_alive():
        return Stage.DONE, Reason.NONE, ""
    if terms.group_missing is not None and not held:
        return Stage.FORMING, Reason.GROUP_MISSING, _absent(terms.group_missing)
    if not terms.lacking(gang, *HELD):
        return Stage.RUNNING, Reason.NONE, ""
    if gang.reserved:
        return Stage.STARTING, Reason.NONE, ""
    if gang.memory.admitted or gang.count(Status.SEATED):
        return Stage.BROKEN, Reason.PARTIAL, f"partial: {held} of {terms.min} members are bound"
    if not terms.lacking(gang, *HELD, Status.WAITING):
        return _queued(gang)
    return Stage.FORMING, Reason.TOO_FEW, _too_few(gang, terms)


def _absent(key: GroupKey) -> str:
    if key.kind.startswith("PodGroup."):
        return f"{key} does not exist; create it or correct the name"
    return f"{key} is being looked up for the number of its pods"


def _queued(gang: Gang) -> tuple[Stage, Reason, str]:
    refusal = gang.memory.refusal
    if refusal is None:
        return Stage.QUEUED, Reason.NONE, ""
    return Stage.QUEUED, refusal.reason, refusal.text


def _too_few(gang: Gang, terms: Terms) -> str:
    there = gang.held + gang.count(Status.WAITING)
    text = f"{there} of {terms.least} pods exist"
    if there >= terms.least:
        missing = by_role(gang, terms.options.role_min, *HELD, Status.WAITING)
        named = (f"{number} more of role {role or '(none)'}" for role, number in missing.items())
        text += f"; needed: {' and '.join(named)}"
    asides = [
        f"{gang.count(item)} {item.value}"
        for item in (Status.GATED, Status.LEAVING, Status.FAILED, Status.FAULTY)
        if gang.count(item)
    ]
    return f"{text} ({', '.join(asides)})" if asides else text
