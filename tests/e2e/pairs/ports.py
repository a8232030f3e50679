"""Host ports: by ip and protocol, of sidecars and of host networks, of pods that have ended."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.e2e.controlplane.client import Object
from tests.e2e.pairs.world import World, container

_IPS = ("", "", "0.0.0.0", "127.0.0.1", "127.0.0.1", "10.0.0.1", "::", "::1")
_PROTOCOLS = (None, None, "TCP", "TCP", "UDP", "SCTP")
_ENDED = {"phase": "Succeeded"}


def ports(world: World, random: Random) -> None:
    """One node a pair, with one or two pods that have ports."""
    for _ in range(45):
        site = world.add_node("ports")
        number = random.choice((8080, 9000))
        for _ in range(random.choice((1, 2, 2))):
            ended = random.random() < 0.1
            world.add_sitter(
                site,
                drawn(random, number),
                status=_ENDED if ended else None,
                terminating=not ended and random.random() < 0.1,
            )
        world.add_pair("ports", site, drawn(random, number))


def drawn(random: Random, number: int) -> dict[str, Any]:
    """Fields of a pod spec with host ports, most often of that number."""
    shared = random.random() < 0.2
    where = random.choice(("app", "app", "app", "app", "sidecar", "sidecar", "init"))
    ports = [_port(random, number, shared)]
    if random.random() < 0.3:
        ports.append(_port(random, number + 1, shared))
    app = container("app", ports=ports if where == "app" else ())
    spec: dict[str, Any] = {"hostNetwork": shared, "containers": [app]}
    if where != "app":
        first = container("first", ports=ports, sidecar=where == "sidecar")
        spec["initContainers"] = [first]
    return spec


def _port(random: Random, number: int, shared: bool) -> Object:
    number += random.choice((0,) * 7 + (100,))
    port: Object = {"containerPort": number}
    if not shared or random.random() < 0.5:
        port["hostPort"] = number
    if (protocol := random.choice(_PROTOCOLS)) is not None:
        port["protocol"] = protocol
    if "hostPort" in port and (ip := random.choice(_IPS)):
        port["hostIP"] = ip
    return port
