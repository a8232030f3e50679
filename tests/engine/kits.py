"""What one random run is made of: a small cluster, a few gangs, and the settings."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.core.kinds import HOSTNAME
from scheduler.model import (
    AntiTerm,
    Chart,
    ChartLevel,
    ChartMember,
    Communication,
    Declaration,
    GangKey,
    Group,
    GroupKey,
    HostPort,
    Node,
    Options,
    Requirement,
    Resources,
    Start,
    Wish,
)
from scheduler.settings import Settings

GPU = "nvidia.com/gpu"
RACK = "topo/rack"
CLIQUE = "nvidia.com/gpu.clique"
HYPER = "HyperNode.topology.volcano.sh"
APPS = ("a", "b", "c")
GROUP = GroupKey("PodGroup.scheduling.k8s.io", "t", "g3")


@dataclass(frozen=True, slots=True)
class GangKind:
    """One gang of a run: how many members it may have, and what each says and asks for."""

    name: str
    size: int
    gpu: int
    priority: int
    options: Options
    group: GroupKey | None = None
    ports: tuple[HostPort, ...] = ()
    launcher: bool = False
    """Whether member 0 is a launcher without GPUs, which must be there, too."""
    indexed: bool = False
    owned: bool = False
    """Whether a controller owns the members, whose uid may change."""
    namespace: str = "t"
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of each member, as it is made."""
    keeps_off: tuple[AntiTerm, ...] = ()
    """Required anti-affinity of each member."""

    @property
    def key(self) -> GangKey:
        """The gang as the engine calls it."""
        return GangKey(self.namespace, self.name)

    def declaration(self, member: int) -> Declaration:
        """What a member says."""
        options = self.options if self.group is None else Options(start=self.options.start)
        if self.launcher:
            role = "launcher" if member == 0 else "worker"
            options = replace(options, role=role, role_min=(("launcher", 1), ("worker", 1)))
        return Declaration(self.name, "muster", options, self.group)

    def requests(self, member: int) -> Resources:
        """What a member asks for."""
        if self.launcher and member == 0:
            return {"cpu": 2000, "pods": 1}
        return {"cpu": 1000, "pods": 1, GPU: self.gpu}


@dataclass(frozen=True, slots=True)
class Kit:
    """The fixed part of a run; the events are the rest."""

    nodes: tuple[Node, ...]
    gangs: tuple[GangKind, ...]
    settings: Settings
    charts: tuple[Chart, ...] = ()
    """Objects that describe the network; any two of one key are states of one object."""
    apps: tuple[str, ...] = ()
    """Labels between which pods may change; none where nobody keeps off anybody."""
    resizes: bool = False
    """Whether what runs may come to ask for more or less."""
    calm: bool = False
    """Whether all have the same priority, so that nobody takes another's seats."""


def node(name: str, gpu: int, rack: str, cpu: int = 16_000) -> Node:
    """A node; ``rack`` "" = no label."""
    labels = {RACK: rack} if rack else {}
    allocatable = {"cpu": cpu, "pods": 12, GPU: gpu}
    return Node(name, uid=f"uid-{name}", labels=labels, allocatable=allocatable)


def group_of(kind: GangKind, least: int | None = None) -> Group:
    """The group object of a gang that has one."""
    assert kind.group is not None
    options = Options(min_available=least or kind.options.min_available)
    return Group(kind.group, f"uid-{kind.name}", options)


def make(seed: int, *, calm: bool = False) -> Kit:
    """The kit of this seed, the same on every machine."""
    rng = random.Random(f"kit {seed}")
    nodes = tuple(
        node(f"n{number}", rng.choice([0, 2, 4, 8, 8]), rng.choice(["r1", "r1", "r2", ""]))
        for number in range(rng.randint(1, 6))
    )
    settings = Settings(
        levels=(RACK,),
        start=rng.choice(list(Start)),
        timeout_s=rng.choice([20.0, 60.0]),
        grace_s=rng.choice([0.0, 30.0]),
        backfill_wait_s=rng.choice([50.0, 600.0]),
    )
    gangs = [_gang(rng, number) for number in range(4)]
    if rng.random() < 0.2:
        gangs[:2] = _partners(gangs[0], gangs[1])
    more = random.Random(f"more of kit {seed}")
    if more.random() < 0.3:
        nodes, gangs = _with_nvlink(more, nodes, gangs)
    charts: tuple[Chart, ...] = ()
    drawn = random.Random(f"charts of kit {seed}")
    if not calm and drawn.random() < 0.3:
        settings = replace(settings, levels=drawn.choice([(), (), (RACK, "volcano-tier-1")]))
        charts, gangs = _charts(drawn, nodes), [_with_tiers(drawn, kind) for kind in gangs]
        gangs[2] = replace(gangs[2], namespace="u")
    rules = random.Random(f"rules of kit {seed}")
    apps = APPS if not calm and rules.random() < 0.2 else ()
    if apps:
        gangs = [_keeping_off(rules, kind) for kind in gangs]
    if calm:
        gangs = [replace(kind, priority=0) for kind in gangs]
    resizes = not calm and rules.random() < 0.2
    return Kit(nodes, tuple(gangs), settings, charts, apps, resizes, calm)


def _gang(rng: random.Random, number: int) -> GangKind:
    least = rng.randint(1, 4)
    size = least + rng.choice([0, 0, 1, 2])
    options = Options(
        min_available=least,
        size=rng.choice([None, size]),
        required=rng.choice(["", "", "rack"]),
        preferred=rng.choice(["", "", "rack"]),
        relax_after=rng.choice([None, None, None, 30.0]),
        segment_size=rng.choice([None] * 5 + [2]),
        timeout=rng.choice([None, None, 15.0]),
        max_runtime=rng.choice([None, None, 40.0]),
        first=rng.choice([None] * 7 + [1]),
        start=rng.choice([None, None, *Start]),
    )
    port = (HostPort("", "TCP", 29500),) if rng.random() < 0.15 else ()
    return GangKind(
        name=f"g{number}",
        size=size,
        gpu=rng.choice([1, 2, 4, 8]),
        priority=rng.choice([0, 0, 10]),
        options=options,
        group=GROUP if number == 3 else None,
        ports=port,
        launcher=size > 1 and rng.random() < 0.15,
        indexed=rng.random() < 0.5,
        owned=rng.random() < 0.3,
    )


def _with_nvlink(
    rng: random.Random, nodes: tuple[Node, ...], kinds: list[GangKind]
) -> tuple[tuple[Node, ...], list[GangKind]]:
    """The same where some nodes share NVLink domains, across racks, and gangs ask for them."""
    labels = [{CLIQUE: rng.choice(["c1", "c2"])} if rng.random() < 0.7 else {} for _ in nodes]
    pairs = zip(nodes, labels, strict=True)
    linked = tuple(replace(item, labels={**item.labels, **more}) for item, more in pairs)
    wishes = [
        replace(
            kind.options,
            nvlink=rng.choice([None, *Wish]),
            communication=rng.choice([None, None, *Communication]),
            segment_size=rng.choice([None, None, 2]),
            segment_level=rng.choice(["", "rack", "clique"]),
        )
        for kind in kinds
    ]
    return linked, [replace(kind, options=wish) for kind, wish in zip(kinds, wishes, strict=True)]


def _charts(rng: random.Random, nodes: Sequence[Node]) -> tuple[Chart, ...]:
    """Lists of levels of Kueue and KAI, and HyperNodes of two tiers, each in some states."""
    rack, other = ChartLevel(RACK, "rack"), ChartLevel("topo/none")
    lists = [
        Chart(GroupKey(kind, "", "racks"), levels)
        for kind in ("Topology.kueue.x-k8s.io", "Topology.kai.scheduler")
        for levels in ((rack,), (rack, other), ())
    ]
    names = [item.name for item in nodes]
    leaves = [
        Chart(GroupKey(HYPER, "", f"leaf{at}"), tier=1, tier_name="rack", members=members)
        for at in range(2)
        for members in (_some(rng, names), _some(rng, names), ())
    ]
    below = (ChartMember(False, "leaf0"), ChartMember(False, pattern="^leaf"))
    spines = [Chart(GroupKey(HYPER, "", "spine"), tier=2, members=(member,)) for member in below]
    return tuple(lists + leaves + spines)


def _some(rng: random.Random, names: Sequence[str]) -> tuple[ChartMember, ...]:
    return tuple(ChartMember(True, name) for name in names if rng.random() < 0.6)


def _with_tiers(rng: random.Random, kind: GangKind) -> GangKind:
    """The same, whose members may have to share a tier."""
    wanted = kind.options.required and rng.choice(["rack", "volcano-tier-1", "volcano-tier-2"])
    return replace(kind, options=replace(kind.options, required=wanted))


def _keeping_off(rng: random.Random, kind: GangKind) -> GangKind:
    """The same, whose members may be of an app, and may keep off the nodes or racks of one."""
    selector = (Requirement("app", "In", (rng.choice(APPS),)),)
    term = AntiTerm(selector, (), rng.random() < 0.3, rng.choice([HOSTNAME, RACK]))
    terms = rng.choice([(), (), (term,)])
    return replace(kind, labels={"app": rng.choice(APPS)}, keeps_off=terms)


def _partners(*kinds: GangKind) -> list[GangKind]:
    """Gangs that start together or not at all."""
    names = tuple(("t", kind.name) for kind in kinds)
    return [replace(kind, options=replace(kind.options, partners=names)) for kind in kinds]
