"""Watches gangs in the API server's store, from outside: who is whole, who is partial, and where.

It knows nothing of what Muster believes: it counts pods as the store has them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from scheduler.simulation.cluster import EmbeddedCluster
from scheduler.simulation.fleet import BLOCK, RACK
from scheduler.simulation.jobs import GANG, MIN_AVAILABLE
from scheduler.simulation.objects import Change, ChangeType, Key, Object

GPU = "nvidia.com/gpu"
HINT = "muster.scheduler/hint"

Seating = dict[str, dict[str, int]]
"""Node name -> gang -> GPUs that its pods hold there."""


@dataclass(slots=True)
class Member:
    """One pod of a gang as last seen."""

    node: str
    gpus: int
    holds: bool
    """Takes GPUs on its node now."""
    counts: bool
    """Counts towards the gang's minimum: bound and alive, or succeeded."""
    hint: str
    uid: str


@dataclass(slots=True)
class GangSeen:
    """One gang as the store has it."""

    name: str
    """``namespace/name``."""
    min: int
    arrived: float
    members: dict[str, Member] = field(default_factory=dict)
    """By pod name."""
    started: float | None = None
    """Virtual second at which its minimum was bound for the first time."""
    nodes: tuple[str, ...] = ()
    """Nodes of its members when it started, in order of pod name."""
    racks: int = 0
    """Racks that those nodes lie in."""

    @property
    def bound(self) -> int:
        """Members that count towards the minimum."""
        return sum(member.counts for member in self.members.values())

    def hints(self) -> list[str]:
        """The members' hints, in order of pod name."""
        return [self.members[name].hint for name in sorted(self.members)]


class Observer:
    """Call ``check`` after every instant of the loop."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._changed: set[str] = set()
        self._partial: set[str] = set()
        self._used = 0
        self._most_used = 0
        self.gangs: dict[str, GangSeen] = {}
        self.seating: Seating = {}
        self.busiest: Seating = {}
        """The seating when the most GPUs were in use, the first time."""
        self.busiest_at = 0.0
        self.partial_moments = 0
        """(gang, moment) pairs in which a gang had 0 < bound < min with no Binding on its way."""
        self.pods_bound = 0
        cluster.api.store.watch(self._on_change)

    @property
    def gpus_used(self) -> int:
        """GPUs that pods hold now."""
        return self._used

    def waiting(self) -> list[GangSeen]:
        """Gangs that have not started, in order of arrival."""
        return [gang for gang in self.gangs.values() if gang.started is None]

    def started(self) -> list[GangSeen]:
        """Gangs that have started, finished ones included."""
        return [gang for gang in self.gangs.values() if gang.started is not None]

    def running(self) -> list[GangSeen]:
        """Gangs of which pods hold GPUs now."""
        return [
            gang
            for gang in self.gangs.values()
            if any(member.holds for member in gang.members.values())
        ]

    def racks_used(self) -> int:
        """Racks in which pods hold GPUs now."""
        return len({self._rack(node) for node, held in self.seating.items() if held})

    def mean_racks(self) -> float:
        """Racks a gang, over the started gangs that need more than one pod; 0.0 without any."""
        racks = [gang.racks for gang in self.started() if gang.min > 1]
        return sum(racks) / len(racks) if racks else 0.0

    def check(self) -> None:
        """Look at every gang that changed and is settled; count those that are partial."""
        self._changed = {name for name in self._changed if not self._settled(name)}
        self.partial_moments += len(self._partial)
        if self._used > self._most_used:
            self._most_used = self._used
            self.busiest = {node: dict(held) for node, held in self.seating.items()}
            self.busiest_at = self._cluster.loop.now()

    def _settled(self, name: str) -> bool:
        """Judge a gang unless one of its Bindings is on its way; returns whether it was judged."""
        gang = self.gangs[name]
        if any(member.uid in self._cluster.actuator.binding for member in gang.members.values()):
            return False
        bound = gang.bound
        if bound >= gang.min and gang.started is None:
            self._start(gang)
        if 0 < bound < gang.min:
            self._partial.add(name)
        else:
            self._partial.discard(name)
        return True

    def _start(self, gang: GangSeen) -> None:
        gang.started = self._cluster.loop.now()
        gang.nodes = tuple(gang.members[name].node for name in sorted(gang.members))
        gang.racks = len({self._rack(node) for node in gang.nodes})

    def _rack(self, node: str) -> tuple[str, str]:
        item = self._cluster.api.store.get(Key("Node", "", node))
        labels = item["metadata"]["labels"] if item else {}
        return labels.get(BLOCK, ""), labels.get(RACK, "")

    def _on_change(self, change: Change) -> None:
        annotations = change.object["metadata"].get("annotations", {})
        if change.key.kind != "Pod" or GANG not in annotations:
            return
        name = f"{change.key.namespace}/{annotations[GANG]}"
        gang = self.gangs.get(name)
        if gang is None:
            now = self._cluster.loop.now()
            gang = self.gangs[name] = GangSeen(name, int(annotations[MIN_AVAILABLE]), now)
        self._changed.add(name)
        self._move(gang, change)

    def _move(self, gang: GangSeen, change: Change) -> None:
        before = gang.members.pop(change.key.name, None)
        if before is not None:
            self._hold(gang.name, before, -1)
        if change.type is ChangeType.DELETED:
            return
        after = gang.members[change.key.name] = self._member(change.object)
        self._hold(gang.name, after, 1)
        if after.node and (before is None or not before.node):
            self.pods_bound += 1

    def _member(self, item: Object) -> Member:
        pod = self._cluster.readings.pod(item)
        alive = bool(pod.node) and not pod.phase.terminal and not pod.deleting
        return Member(
            node=pod.node,
            gpus=pod.requests.get(GPU, 0),
            holds=pod.holds_node,
            counts=alive or pod.phase == "Succeeded",
            hint=item["metadata"]["annotations"].get(HINT, ""),
            uid=pod.uid,
        )

    def _hold(self, gang: str, member: Member, sign: int) -> None:
        if not member.holds:
            return
        held = Counter(self.seating.get(member.node, {}))
        held[gang] += sign * member.gpus
        self.seating[member.node] = {name: gpus for name, gpus in held.items() if gpus}
        self._used += sign * member.gpus
