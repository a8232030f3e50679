"""What pods ask for, on nodes that are exactly full then, or one unit short of it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from scheduler import decode
from tests.e2e.controlplane.client import Object
from tests.e2e.controlplane.objects import GPU
from tests.e2e.pairs import ports, rules
from tests.e2e.pairs.world import OVERHEAD, World, container

NIC = "example.com/nic"
HUGE = "hugepages-2Mi"
_CPU = ("100m", "250m", "1", "1.5", "1e0")
# No fractions of a byte: Muster rounds each container up, the scheduler their sum.
_MEMORY = ("64Mi", "1Gi", "500M", "1e9", "128974848", "2000m")
_EXTENDED = ("0", "1", "2", "4")
_PLENTY = {"cpu": 10**6, "memory": 2**44, "ephemeral-storage": 2**44, "pods": 110}
_FIT, _SHORT, _MISSING = "exactly full", "one short of", "without"


def resources(world: World, random: Random) -> None:
    """One node a pair: containers of every kind, sitters that count and sitters that do not."""
    for _ in range(90):
        site = world.add_node("resources")
        _pair(world, random, "resources", site, drawn(world, random))


def mixed(world: World, random: Random) -> None:
    """Resources, affinity, taints and host ports in one."""
    for _ in range(40):
        site = world.add_node("mixed", labels={rules.ZONE: "a", rules.SIZE: "5"})
        spec = drawn(world, random)
        if random.random() < 0.4:
            spec = _joined(spec, ports.drawn(random, 8080))
            world.add_sitter(site, ports.drawn(random, 8080))
        tainted = world.nodes[site]["spec"]
        if random.random() < 0.6:
            tainted["taints"] = [{"key": "colour", "value": "red", "effect": "NoSchedule"}]
            spec["tolerations"] = rules.tolerated(random, tainted["taints"])
        if random.random() < 0.3:
            spec |= rules.required(random, site)
        _pair(world, random, "mixed", site, spec)


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """One pod of the containers of two."""
    lists = {
        key: [*one.get(key, ()), *other.get(key, ())] for key in ("containers", "initContainers")
    }
    return {**one, **other, **lists}


def _pair(world: World, random: Random, family: str, site: str, spec: Mapping[str, Any]) -> None:
    """A candidate, sitters, and room that is just enough or just not."""
    for _ in range(random.choice((0, 1, 1, 2))):
        _add_sitter(world, random, site)
    need = _needed(world, site)
    own = asked(world.pod("candidate", spec))
    for name, units in own.items():
        need[name] = need.get(name, 0) + units
    note = _fill(world, random, site, need, own)
    world.add_pair(family, site, spec, note)


def _add_sitter(world: World, random: Random, site: str) -> None:
    status, terminating = random.choice(
        (
            (None, False),
            (None, False),
            (None, True),
            ({"phase": "Succeeded"}, False),
            ({"phase": "Failed"}, False),
        )
    )
    world.add_sitter(site, drawn(world, random), status=status, terminating=terminating)


def _needed(world: World, site: str) -> dict[str, int]:
    """What the sitters of a node hold."""
    need: dict[str, int] = {}
    for sitter in world.sitters:
        if sitter.pod["spec"]["nodeName"] == site and not sitter.status:
            for name, units in asked(sitter.pod).items():
                need[name] = need.get(name, 0) + units
    return need


def _fill(
    world: World, random: Random, site: str, need: Mapping[str, int], own: Mapping[str, int]
) -> str:
    """Give a node the room; what about it is special."""
    tight = random.random() < 0.6
    room = dict(need) if tight else {**_PLENTY, **{key: need[key] for key in need}}
    how = random.choices((_FIT, _SHORT, _MISSING), (5, 4, 1))[0]
    which = random.choice(sorted(own))
    if how == _SHORT:
        room[which] -= 1
    elif how == _MISSING:
        del room[which]
    allocatable = world.room(site)
    allocatable.clear()
    allocatable.update(
        {key: f"{value}m" if key == "cpu" else str(value) for key, value in room.items()}
    )
    return how if how == _FIT else f"{how} {which}"


def asked(pod: Object) -> dict[str, int]:
    """What Muster says the pod asks for in all: if it were wrong, the boundary would tell."""
    read = decode.pod(pod)
    assert not read.fault, read.fault
    return dict(read.requests)


def drawn(world: World, random: Random) -> dict[str, Any]:
    """Fields of a pod spec: containers, init containers, sidecars, overhead, pod level."""
    apps = [_drawn_container(random, f"app-{at}") for at in range(random.randint(1, 3))]
    inits = [
        _drawn_container(random, f"init-{at}", sidecar=random.random() < 0.5)
        for at in range(random.choice((0, 0, 1, 2, 3)))
    ]
    spec: dict[str, Any] = {"containers": apps, "initContainers": inits}
    if random.random() < 0.3:
        spec["resources"] = _pod_level(world, random, spec)
    if random.random() < 0.3:
        spec |= {"runtimeClassName": world.runtime_class, "overhead": dict(OVERHEAD)}
    return spec


def _drawn_container(random: Random, name: str, *, sidecar: bool = False) -> Object:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for key, values in (("cpu", _CPU), ("memory", _MEMORY), ("ephemeral-storage", _MEMORY)):
        if random.random() < (0.3 if key == "ephemeral-storage" else 0.7):
            # Limits alone are requests as well.
            where = random.choice((requests, requests, limits))
            where[key] = random.choice(values)
    for key in (GPU, NIC):
        if random.random() < 0.4:
            limits[key] = random.choice(_EXTENDED)
            if random.random() < 0.5:
                requests[key] = limits[key]
    if random.random() < 0.15 and ("cpu" in requests or "cpu" in limits):
        limits[HUGE] = random.choice(("2Mi", "4Mi"))
    return container(name, requests, limits, sidecar=sidecar)


def _pod_level(world: World, random: Random, spec: Mapping[str, Any]) -> Object:
    """Requests of the whole pod, at least what the containers ask for together, or limits alone."""
    sums = asked(world.pod("sums", spec))
    cpu = sums.get("cpu", 0) + random.choice((0, 1, 500))
    memory = sums.get("memory", 0) + random.choice((0, 1, 500_000))
    stated = {"cpu": f"{cpu}m", "memory": str(memory)}
    chosen = {key: stated[key] for key in random.sample(("cpu", "memory"), random.randint(1, 2))}
    return {random.choice(("requests", "requests", "limits")): chosen}
