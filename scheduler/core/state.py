"""All that the engine knows, and the context of one step over it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from scheduler.core.capacity import Bools, Frame, Ints, Ledger
from scheduler.core.cliques import Cliques
from scheduler.core.devices import Told
from scheduler.core.gang import Gang, Refusal
from scheduler.core.messages import Effect, Reply
from scheduler.core.queue import Queue
from scheduler.core.topology import Topology
from scheduler.core.work import Work
from scheduler.model import AntiTerm, Chart, GangKey, Group, GroupKey, Node, Pod, PodRef, Start
from scheduler.settings import Settings

PASSED_LIMIT = 10_000
"""Plain pods that were passed unseen and whose bind call may follow."""

GONE_LIMIT = 10_000
"""Members that are gone and may still be asked about; a uid is never used twice."""


@dataclass(slots=True)
class Reservation:
    """Room for one pod on one node, until it is bound or the gang gives it back."""

    uid: str
    gang: GangKey
    node: str
    rank: int
    gpus: Told | None = None
    """The GPUs that it will most likely get."""
    how: Start = Start.BURST
    """How its member is started; a nomination must be cleared if the reservation ends."""
    called: bool = False
    """Whether the scheduler has asked since: for this node alone if it was nominated."""
    nominated: bool = False
    """Whether the API server has its nomination."""
    passed_by: bool = False
    """Whether the scheduler has asked about other nodes all the same."""
    tries: int = 0
    uncertain: bool = False
    """Whether a Binding was sent whose outcome was never learnt."""


@dataclass(slots=True)
class Nominations:
    """What the scheduler's calls have shown of whether it follows nominations."""

    proven: bool = False
    """Whether a nominated pod has ever been asked about with its one node."""
    missed: dict[str, int] = field(default_factory=dict)
    """Uid -> calls about a nominated pod that offered other nodes."""
    ignored_until: float | None = None
    """Until when gangs are not nominated; None = no reason not to."""


@dataclass(slots=True)
class OpenEffect:
    """An effect whose outcome is not known yet."""

    kind: str
    ref: PodRef
    node: str = ""
    hint: str = ""
    orphan: bool = False
    """Whether its reservation ended while it was in flight."""
    uncertain: bool = False
    """Whether an earlier try of the same Binding may have landed."""


class Doubt(NamedTuple):
    """What is remembered of a Binding that was given up and whose outcome was never learnt."""

    until: float
    """When it is taken not to have landed."""
    rank: int | None
    """The rank in its hint, which nobody else may have until then."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Nodes that are kept for a gang that has waited long."""

    gang: GangKey
    nodes: frozenset[str]
    until: float | None
    """When what runs there will have ended, if all of it says so."""


@dataclass(frozen=True, slots=True)
class Apart:
    """On which nodes the accelerators of one name can be told apart, as far as was looked."""

    frame: Frame
    """Whose rows these are; all arrays have the shape [nodes]."""
    nodes: list[Node | None]
    versions: Ints
    """Of a node when it was looked at, -1 where it was not."""
    now: Bools
    if_empty: Bools
    """Whether they could be told apart if nobody had any."""


@dataclass(slots=True)
class State:
    """Everything the engine knows. Only ``step`` changes it."""

    settings: Settings
    now: float = 0.0
    """Engine time of the last step, in seconds."""
    synced: bool = False
    ledger: Ledger = field(default_factory=Ledger)
    pods: dict[str, Pod] = field(default_factory=dict)
    by_name: dict[tuple[str, str], str] = field(default_factory=dict)
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    charts: dict[GroupKey, Chart] = field(default_factory=dict)
    host_askers: dict[Hashable, None] = field(default_factory=dict)
    """Pods and groups that ask for one node as a level."""
    users: dict[GroupKey, dict[str, None]] = field(default_factory=dict)
    """Group -> uids of the pods that name it."""
    gangs: dict[GangKey, Gang] = field(default_factory=dict)
    gang_of: dict[str, GangKey] = field(default_factory=dict)
    wanting: Queue = field(default_factory=Queue)
    """Gangs with members to place."""
    choosy: dict[GangKey, None] = field(default_factory=dict)
    """Of these, those with members that take the very GPUs that are chosen for them."""
    broken: dict[GangKey, None] = field(default_factory=dict)
    """Gangs with seats kept for lost members."""
    partnered: dict[GangKey, None] = field(default_factory=dict)
    """Gangs that name others, which they are admitted together with."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    tentative: dict[str, str] = field(default_factory=dict)
    """Uid -> node of members planned already, while their gang's partners are planned."""
    reserved_on: dict[str, dict[str, None]] = field(default_factory=dict)
    """Node -> uids with an unbound reservation there."""
    open: dict[int, OpenEffect] = field(default_factory=dict)
    binding: dict[str, int] = field(default_factory=dict)
    """Uid -> the Bind effect in flight for it."""
    awaited: dict[str, str] = field(default_factory=dict)
    """Uid -> node of a bind call that waits for its answer."""
    doubts: dict[str, dict[str, Doubt]] = field(default_factory=dict)
    """Uid -> node -> its Binding that was given up and whose outcome was never learnt."""
    ending: dict[GangKey, None] = field(default_factory=dict)
    """Gangs of which members have ended while others still hold their room."""
    ending_until: float = 0.0
    """When these are waited for no longer; only with ``ending``."""
    kept: Kept | None = None
    strikes: dict[str, list[float]] = field(default_factory=dict)
    """Node -> until when each of its rejections of a pod is remembered."""
    lost_nodes: dict[str, float] = field(default_factory=dict)
    """Node that is gone while pods are bound to it -> when they are evicted."""
    anti: dict[str, tuple[AntiTerm, ...]] = field(default_factory=dict)
    """Uid -> required anti-affinity of pods that hold a node."""
    turned_away: dict[str, None] = field(default_factory=dict)
    """Plain pods that found no node because room was reserved; woken when it is given back."""
    gated: dict[str, float] = field(default_factory=dict)
    """Plain pods behind Muster's own gate -> when it is to be taken off."""
    stale: dict[str, float] = field(default_factory=dict)
    """Pods whose nomination could not be cleared -> when that is tried again."""
    passed: dict[str, Pod] = field(default_factory=dict)
    """Plain pods that were answered before the watch showed them."""
    gone: dict[str, None] = field(default_factory=dict)
    """Uids of members that went without a node: the scheduler may still ask about them."""
    asks: dict[Hashable, int] = field(default_factory=dict)
    """What gangs ask for -> its number."""
    refused: dict[Hashable, Refusal] = field(default_factory=dict)
    """Gangs alike fail alike: the last refusal by what was asked, and which nodes were shut."""
    gains: int = 0
    """Grows whenever room may have come free."""
    freed: list[str] = field(default_factory=list)
    """Nodes on which a pod's room came free, one for each such gain since ``planned_at``."""
    planned_at: int = -1
    """Value of ``gains`` when all wanting gangs were tried last."""
    outlook: int = 0
    """Grows whenever it may have changed when what runs will end."""
    next_id: int = 1
    next_complete: int = 1
    last_ask: int = 0
    nominations: Nominations = field(default_factory=Nominations)
    expired: int = 0
    """Reservations that ran out, ever."""
    plans: int = 0
    """Placements that were computed, ever."""
    work: Work = field(default_factory=Work)
    """What they have looked at."""
    timers: list[tuple[float, int, GangKey]] = field(default_factory=list)
    due: dict[GangKey, float] = field(default_factory=dict)
    timer_id: int = 0
    topology_at: int = -1
    topology_kept: Topology | None = None
    cliques_kept: tuple[Topology, Cliques | None] | None = None
    apart: dict[str, Apart] = field(default_factory=dict)
    """By resource, for members that take the very devices chosen for them."""
    is_accelerator: Callable[[str], bool] = field(default=lambda _: False)

    def __post_init__(self) -> None:
        self.is_accelerator = matcher(self.settings.accelerators)

    def gang_with(self, uid: str) -> Gang | None:
        """The gang that a pod is of."""
        key = self.gang_of.get(uid)
        return self.gangs[key] if key is not None else None

    def free(self, uid: str) -> bool:
        """Give back the room that a pod takes, for others to have it; whether it took any."""
        node = self.ledger.where(uid)
        if node is None:
            return False
        self.ledger.drop(uid)
        self.gain_on(node)
        return True

    def gain_on(self, node: str) -> None:
        """Room may have come free on this node."""
        self.gains += 1
        self.freed.append(node)

    def newly_free(self) -> tuple[str, ...] | None:
        """The only nodes with gains since ``planned_at``; None if there were others as well."""
        if len(self.freed) != self.gains - self.planned_at:
            return None
        return tuple(dict.fromkeys(self.freed)) if self.freed else ()

    def next_ask(self) -> int:
        """A number that was never given out before, also after ``asks`` was forgotten."""
        self.last_ask += 1
        return self.last_ask

    def accelerators(self, pod: Pod) -> int:
        """Accelerators that a pod asks for, of all kinds."""
        return sum(amount for name, amount in pod.requests.items() if self.is_accelerator(name))

    def seat_by_nomination(self, uid: str) -> Reservation | None:
        """The seat that the pod is nominated to, or is about to be."""
        reservation = self.reservations.get(uid)
        by_nomination = reservation is not None and reservation.how is Start.NOMINATE
        return reservation if by_nomination else None

    def is_ours(self, pod: Pod) -> bool:
        """Whether the pod is for a scheduler that asks us."""
        return not pod.scheduler or pod.scheduler in self.settings.scheduler_names

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        return self.ledger.node(name)

    def topology(self) -> Topology:
        """The tree of domains as the nodes are labelled now."""
        if self.topology_kept is None or self.topology_at != self.ledger.shape_version:
            nodes = list(self.ledger.nodes())
            self.topology_kept = Topology.of(
                nodes, self.settings.levels, self.charts.values(), hosts=bool(self.host_askers)
            )
            self.topology_at = self.ledger.shape_version
        return self.topology_kept

    def cliques(self) -> Cliques | None:
        """The NVLink domains of the nodes; None if there are none."""
        topology = self.topology()
        if self.cliques_kept is None or self.cliques_kept[0] is not topology:
            self.cliques_kept = topology, Cliques.of(topology.fabric, self.ledger.nodes())
        return self.cliques_kept[1]

    def schedule(self, key: GangKey, due: float | None) -> None:
        """Want a Tick for a gang at ``due`` (None: none)."""
        if due is None:
            self.due.pop(key, None)
        elif self.due.get(key) != due:
            self.due[key] = due
            self.timer_id += 1
            heapq.heappush(self.timers, (due, self.timer_id, key))

    def next_due(self) -> float | None:
        """When the next Tick is wanted."""
        while self.timers and self.due.get(self.timers[0][2]) != self.timers[0][0]:
            heapq.heappop(self.timers)
        return self.timers[0][0] if self.timers else None

    def pop_due(self, now: float) -> list[GangKey]:
        """Gangs whose time has come, each once."""
        keys: dict[GangKey, None] = {}
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self.timers)[2]
            self.due.pop(key, None)
            keys[key] = None
        return list(keys)


@dataclass(slots=True)
class Turn:
    """One step: the time, what is to be done, and which gangs to look at again."""

    state: State
    now: float
    effects: list[Effect] = field(default_factory=list)
    touched: dict[GangKey, None] = field(default_factory=dict)
    told: dict[GangKey, None] = field(default_factory=dict)
    """Gangs whose refusal has changed, so that people may have to be told."""
    gave_back: bool = False
    """Whether reserved room came free without any change that the scheduler would see."""
    rejected: list[Pod] = field(default_factory=list)
    """Members that a kubelet has just refused to run."""
    suspect: dict[str, None] = field(default_factory=dict)
    """Nodes that may no longer be good for what is reserved on them."""
    reply: Reply | None = None
    looks_up: bool = False
    """Whether the event only asks; plans are made on changes of the world and of time."""

    def new_id(self) -> int:
        """An id for the next effect."""
        self.state.next_id += 1
        return self.state.next_id - 1

    def open(self, kind: str, ref: PodRef, node: str = "", hint: str = "") -> int:
        """The id of a new effect, whose outcome is waited for."""
        number = self.new_id()
        self.state.open[number] = OpenEffect(kind, ref, node, hint)
        return number

    def touch(self, key: GangKey | None) -> None:
        """Have a gang judged again at the end of the step."""
        if key is not None:
            self.touched[key] = None


@lru_cache(maxsize=64)
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a resource name is one of ``patterns`` (exact, or with one trailing ``*``)."""
    exact = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))

    @lru_cache(maxsize=1024)
    def match(name: str) -> bool:
        return name in exact or name.startswith(prefixes)

    return match
