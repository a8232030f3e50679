"""Pods on the node whose resources are being changed while they run."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from tests.e2e.controlplane.client import Object
from tests.e2e.pairs.resources import asked
from tests.e2e.pairs.world import World, container

_CPU, _MEMORY = ("1", "2", "3"), ("1Gi", "2Gi", "3Gi")
_PENDING = (None, None, "Infeasible", "Deferred")


def resizes(world: World, random: Random) -> None:
    """One node a pair; the candidate needs what is left of it, or a little more."""
    for _ in range(30):
        site = world.add_node("resizes")
        spec, status = _drawn(random)
        sitter = world.add_sitter(site, spec, status=status)
        held = asked({**sitter.pod, "status": dict(status)})
        own = random.choice(("cpu", "memory"))
        short = random.random() < 0.5
        room = {name: units + (1000 if name == "cpu" else 2**20) for name, units in held.items()}
        room[own] -= short
        allocatable = world.room(site)
        allocatable["cpu"], allocatable["memory"] = f"{room['cpu']}m", str(room["memory"])
        asking = {"containers": [container("app", {"cpu": "1", "memory": "1Mi"})]}
        world.add_pair("resizes", site, asking, f"one short of {own}" if short else "exactly full")


def _drawn(random: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod of two containers, and its status as a kubelet of 1.33 or newer writes it."""
    names = ["app-0", "app-1"]
    pending = random.choice(_PENDING)
    started = pending is not None or random.random() < 0.8
    spec: dict[str, Any] = {"containers": [container(name, _amounts(random)) for name in names]}
    status: dict[str, Any] = {
        "phase": "Running",
        "containerStatuses": [_container_status(random, name, started) for name in names],
    }
    if pending is not None:
        condition = {"type": "PodResizePending", "status": "True", "reason": pending}
        status["conditions"] = [condition]
    if random.random() < 0.3:
        spec["resources"] = {"requests": {"cpu": "7", "memory": "7Gi"}}
    if random.random() < 0.3:
        status["resources"] = {"requests": {"cpu": random.choice(("6", "8")), "memory": "6Gi"}}
        status["allocatedResources"] = {"cpu": random.choice(("6", "9")), "memory": "6Gi"}
    return spec, status


def _container_status(random: Random, name: str, started: bool) -> Object:
    status: Object = {
        "name": name,
        "image": "none",
        "imageID": "",
        "ready": started,
        "restartCount": 0,
        "state": {"running": {}} if started else {"waiting": {}},
    }
    if started:
        status["allocatedResources"] = _amounts(random)
        status["resources"] = {"requests": _amounts(random)}
    return status


def _amounts(random: Random) -> Mapping[str, str]:
    return {"cpu": random.choice(_CPU), "memory": random.choice(_MEMORY)}
