"""Eight nodes in two racks, as network namespaces of this machine.

Each node has a link to its rack's switch, each rack an uplink to the other's; `tc tbf` holds every
link to its rate in both directions. Nothing outside the namespaces is changed, and they are gone
afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

NODES, RACKS = 8, 2
LINK_MBIT, UPLINK_MBIT = 400, 100


class NotPermittedError(Exception):
    """This process may not make namespaces, links or rates here."""


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    rack: int
    namespace: str
    address: str


@contextmanager
def fabric(count: int = NODES) -> Iterator[list[Node]]:
    """So many nodes, by number: even ones in rack 0, odd ones in rack 1, as they come when racks
    are filled alternately. Raises NotPermittedError with the reason.
    """
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise NotPermittedError(f"the command {tool} (iproute2) is not installed")
    prefix = f"muster{os.getpid()}"
    nodes = [
        Node(number, number % RACKS, f"{prefix}n{number}", f"10.77.0.{number + 1}")
        for number in range(count)
    ]
    made: list[str] = []
    try:
        _build(f"{prefix}sw", nodes, made)
        yield nodes
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _build(switches: str, nodes: list[Node], made: list[str]) -> None:
    for name in (switches, *(node.namespace for node in nodes)):
        _run("ip", "netns", "add", name)
        made.append(name)
    for rack in range(RACKS):
        _run("ip", "-n", switches, "link", "add", f"rack{rack}", "type", "bridge")
        _run("ip", "-n", switches, "link", "set", f"rack{rack}", "up")
    _uplink(switches)
    for node in nodes:
        _attach(switches, node)


def _uplink(switches: str) -> None:
    _run("ip", "-n", switches, "link", "add", "up0", "type", "veth", "peer", "name", "up1")
    for rack in range(RACKS):
        _run("ip", "-n", switches, "link", "set", f"up{rack}", "master", f"rack{rack}", "up")
        _limit(switches, f"up{rack}", UPLINK_MBIT)


def _attach(switches: str, node: Node) -> None:
    port = f"port{node.number}"
    _run(
        "ip", "-n", switches, "link", "add", port, "type", "veth",
        "peer", "name", "eth0", "netns", node.namespace,
    )  # fmt: skip
    _run("ip", "-n", switches, "link", "set", port, "master", f"rack{node.rack}", "up")
    _run("ip", "-n", node.namespace, "addr", "add", f"{node.address}/24", "dev", "eth0")
    for name in ("lo", "eth0"):
        _run("ip", "-n", node.namespace, "link", "set", name, "up")
    _limit(switches, port, LINK_MBIT)
    _limit(node.namespace, "eth0", LINK_MBIT)


def slow_down(node: Node, mbit: int) -> None:
    """The node's own link from now on, in its direction to the switch."""
    _limit(node.namespace, "eth0", mbit)


def cut(node: Node) -> None:
    """The node's link is down from now on."""
    _run("ip", "-n", node.namespace, "link", "set", "eth0", "down")


def _limit(namespace: str, link: str, mbit: int) -> None:
    _run(
        "ip", "netns", "exec", namespace, "tc", "qdisc", "replace", "dev", link, "root",
        "tbf", "rate", f"{mbit}mbit", "burst", "128kb", "latency", "100ms",
    )  # fmt: skip


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise NotPermittedError(f"{' '.join(command)}: {said[0]}")
