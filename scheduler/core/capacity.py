"""How much room every node has: exact sums by claim, and the same as arrays for placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from scheduler.core import feasibility
from scheduler.core.frame import NODE_LIMIT, REQUEST_LIMIT, Bools, Frame, Ints
from scheduler.core.usability import gate, pristine, usable
from scheduler.model import NO_RESOURCES, Constraints, HostPort, Node, Resources

__all__ = [
    "REQUEST_LIMIT",
    "Bools",
    "Claim",
    "Frame",
    "Ints",
    "Ledger",
]

MASKS_KEPT = 256
"""Verdicts by constraints that are kept; a cluster rarely sees more kinds of pod at once."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that one pod (or one seat that is kept) takes on a node."""

    resources: Resources
    ports: tuple[HostPort, ...] = ()


@dataclass(slots=True)
class _Room:
    node: Node | None = None
    claims: dict[str, Claim] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    version: int = 0
    """Changes with the node and with every claim."""


class Ledger:
    """The rooms of all nodes.

    A claim has a key (a pod's uid, or a seat's); putting it again moves it, so a pod is never
    counted twice. Nodes may be known later than the pods on them.
    """

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._where: dict[str, str] = {}
        self._frame: Frame | None = None
        self._stale: set[str] = set()
        self._versions: Ints = np.zeros(0, dtype=np.int64)
        self._masks: dict[Constraints, Bools] = {}
        self._pristine: dict[Constraints, Bools] = {}
        self.shape_version = 0
        """Changes when a node comes, goes or is relabelled."""
        self.changes = 0
        """Grows with every change of a node and of a claim."""

    # ── nodes ──

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        room = self._rooms.get(name)
        return room.node if room else None

    def nodes(self) -> Iterable[Node]:
        """All known nodes, in no order."""
        return (room.node for room in self._rooms.values() if room.node is not None)

    def put_node(self, node: Node) -> None:
        """A node that is new or has changed."""
        room = self._rooms.setdefault(node.name, _Room())
        before, room.node = room.node, node
        room.version += 1
        self.changes += 1
        if before is None or before.labels != node.labels:
            self.shape_version += 1
        if before is None or set(node.allocatable) - set(self._columns()):
            self._forget_frame()
            return
        self._stale.add(node.name)
        if gate(before) != gate(node):
            self._remask(node)

    def drop_node(self, name: str) -> None:
        """A node that is gone; claims on it stay, for it may come back."""
        room = self._rooms.get(name)
        if room is None or room.node is None:
            return
        room.node = None
        self.changes += 1
        self.shape_version += 1
        self._forget_frame()
        self._sweep(name)

    # ── claims ──

    def put(self, key: str, node: str, resources: Resources, ports: tuple[HostPort, ...]) -> None:
        """Claim room on a node, giving back what the same key claimed before."""
        self.drop(key)
        room = self._rooms.setdefault(node, _Room())
        room.claims[key] = Claim(resources, ports)
        room.version += 1
        self.changes += 1
        for name, amount in resources.items():
            room.used[name] = room.used.get(name, 0) + amount
        self._where[key] = node
        self._stale.add(node)

    def drop(self, key: str) -> bool:
        """Give a claim back; whether there was one."""
        node = self._where.pop(key, None)
        if node is None:
            return False
        room = self._rooms[node]
        claim = room.claims.pop(key)
        room.version += 1
        self.changes += 1
        for name, amount in claim.resources.items():
            left = room.used[name] - amount
            if left:
                room.used[name] = left
            else:
                del room.used[name]
        self._stale.add(node)
        self._sweep(node)
        return True

    def where(self, key: str) -> str | None:
        """The node that a claim is on."""
        return self._where.get(key)

    def claims(self, node: str) -> Mapping[str, Claim]:
        """All claims on a node by key."""
        room = self._rooms.get(node)
        return room.claims if room else {}

    def version(self, node: str) -> int:
        """A number that changes whenever the node or a claim on it does."""
        room = self._rooms.get(node)
        return room.version if room else -1

    def versions(self) -> Ints:
        """The version of each row's node, int64 [nodes]; not to be kept over a change."""
        self.frame()
        return self._versions

    def touch(self, node: str) -> None:
        """Something else has changed about a claim on the node: its version does, too."""
        if (room := self._rooms.get(node)) is not None:
            room.version += 1
            self._stale.add(node)

    def used(self, node: str) -> Mapping[str, int]:
        """Exact sums of the claims on a node."""
        room = self._rooms.get(node)
        return room.used if room else {}

    def free(self, name: str, back: Resources = NO_RESOURCES) -> dict[str, int]:
        """Exact free room of a node, never negative: a node may report less than is in use.

        ``back`` is counted as if it were given back.
        """
        room = self._rooms[name]
        if room.node is None:
            return {}
        return {
            resource: max(0, amount - room.used.get(resource, 0) + back.get(resource, 0))
            for resource, amount in room.node.allocatable.items()
        }

    def row(self, name: str, given_back: Mapping[str, int]) -> list[int]:
        """A node's free row in the frame's columns, as if these sums were given back there."""
        room = self._rooms[name]
        have = room.node.allocatable if room.node else {}
        return [
            min(
                max(0, have.get(key, 0) - room.used.get(key, 0) + given_back.get(key, 0)),
                NODE_LIMIT,
            )
            for key in self.frame().column
        ]

    def over(self, name: str) -> bool:
        """Whether more is claimed on a node than it has, of any resource."""
        room = self._rooms.get(name)
        if room is None or room.node is None:
            return False
        have = room.node.allocatable
        return any(amount > have.get(resource, 0) for resource, amount in room.used.items())

    def has_room(self, name: str, requests: Resources, ports: tuple[HostPort, ...] = ()) -> bool:
        """Whether one more such pod has room on a node, resources and host ports alone."""
        room = self._rooms.get(name)
        if room is None or room.node is None:
            return False
        have, used = room.node.allocatable, room.used
        fits = all(have.get(key, 0) - used.get(key, 0) >= want for key, want in requests.items())
        return fits and not (ports and self._ports_taken(room, ports))

    def lost(self) -> list[str]:
        """Names of nodes that are claimed but not known, sorted."""
        return sorted(name for name, room in self._rooms.items() if room.node is None)

    # ── arrays ──

    def frame(self) -> Frame:
        """The current arrays; do not keep them over a change."""
        if self._frame is None:
            self._frame = Frame(self.nodes())
            self._stale = set(self._frame.names)
            self._versions = np.zeros(len(self._frame.names), dtype=np.int64)
        for name in self._stale:
            self._fill(self._frame, name)
        self._stale.clear()
        return self._frame

    def mask(self, constraints: Constraints) -> Bools:
        """Per row whether the node may take a pod of these constraints; ports excluded."""
        frame = self.frame()
        found = self._masks.get(constraints)
        if found is None:
            if len(self._masks) >= MASKS_KEPT:
                self._masks.pop(next(iter(self._masks)))
            rooms = (self._rooms[name].node for name in frame.names)
            found = np.array(
                [node is not None and usable(constraints, node) for node in rooms], dtype=np.bool_
            )
            self._masks[constraints] = found
        return found

    def pristine_mask(self, constraints: Constraints) -> Bools:
        """Per row whether the node could take such pods if all were well with it.

        Readiness, cordons and the taints that go with them pass; labels and other taints stay.
        """
        frame = self.frame()
        found = self._pristine.get(constraints)
        if found is None:
            if len(self._pristine) >= MASKS_KEPT:
                self._pristine.pop(next(iter(self._pristine)))
            nodes = (self._rooms[name].node for name in frame.names)
            verdicts = [node is not None and usable(constraints, pristine(node)) for node in nodes]
            found = self._pristine[constraints] = np.array(verdicts, dtype=np.bool_)
        return found

    def without_ports(self, ports: tuple[HostPort, ...]) -> Bools:
        """Per row whether none of these host ports is taken there."""
        names = self.frame().names
        return np.array(
            [not self._ports_taken(self._rooms[name], ports) for name in names], dtype=np.bool_
        )

    # ── inner ──

    def _columns(self) -> Iterable[str]:
        return self._frame.column if self._frame else ()

    def _forget_frame(self) -> None:
        self._frame = None
        self._masks.clear()
        self._pristine.clear()

    def _sweep(self, name: str) -> None:
        room = self._rooms[name]
        if room.node is None and not room.claims:
            del self._rooms[name]

    def _fill(self, frame: Frame, name: str) -> None:
        row = frame.row.get(name)
        if row is None:
            return
        room = self._rooms[name]
        self._versions[row] = room.version
        have = room.node.allocatable if room.node else {}
        for resource, column in frame.column.items():
            amount = have.get(resource, 0)
            frame.allocatable[row, column] = min(amount, NODE_LIMIT)
            left = amount - room.used.get(resource, 0)
            frame.free[row, column] = min(max(0, left), NODE_LIMIT)

    def _remask(self, node: Node) -> None:
        if self._frame is None:
            return
        row = self._frame.row[node.name]
        for constraints, mask in self._masks.items():
            mask[row] = usable(constraints, node)
        for constraints, mask in self._pristine.items():
            mask[row] = usable(constraints, pristine(node))

    def _ports_taken(self, room: _Room, ports: tuple[HostPort, ...]) -> bool:
        return any(
            feasibility.ports_clash(claim.ports, ports)
            for claim in room.claims.values()
            if claim.ports
        )
