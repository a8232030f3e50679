"""What kube-scheduler knows: nodes, the pods on them, assumed pods and nominations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from scheduler.core.feasibility import ports_clash, verdict
from scheduler.model import Node, Pod


class No(NamedTuple):
    """Why a node is not for a pod, and whether evicting pods there could change that."""

    reason: str
    resolvable: bool


class SchedulerCache:
    """Nodes in order of name, and the pods that take room on them."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._place: dict[str, str] = {}
        self._nominated: dict[str, Pod] = {}

    def set_node(self, node: Node) -> None:
        """A node was added or changed."""
        known = node.name in self.nodes
        self.nodes[node.name] = node
        if not known:
            self.nodes = dict(sorted(self.nodes.items()))

    def drop_node(self, name: str) -> None:
        """A node is gone."""
        self.nodes.pop(name, None)

    def put(self, pod: Pod) -> None:
        """The pod takes room on ``pod.node``, bound or assumed."""
        self.drop(pod.uid)
        self._nominated.pop(pod.uid, None)
        self._place[pod.uid] = pod.node
        self._on_node.setdefault(pod.node, {})[pod.uid] = pod
        self._add(pod, 1)

    def assume(self, pod: Pod, node: str) -> None:
        """Count the pod on the node before the API server says so."""
        self.put(replace(pod, node=node))

    def drop(self, uid: str) -> None:
        """The pod takes no room any more, and is nominated nowhere."""
        self._nominated.pop(uid, None)
        node = self._place.pop(uid, None)
        if node is not None:
            self._add(self._on_node[node].pop(uid), -1)

    def set_nominated(self, pod: Pod) -> None:
        """Note where a waiting pod is nominated, if anywhere."""
        if pod.nominated:
            self._nominated[pod.uid] = pod
        else:
            self._nominated.pop(pod.uid, None)

    def pods_on(self, node: str) -> Iterable[Pod]:
        """The pods that take room on a node."""
        return self._on_node.get(node, {}).values()

    def fits(self, pod: Pod, node: str, without: frozenset[str] = frozenset()) -> No | None:
        """Why the in-tree plugins refuse the node, as if the pods ``without`` were gone."""
        constraint = verdict(pod.constraints, self.nodes[node])
        if constraint:
            return No(f"node(s) unsuitable: {constraint}", resolvable=False)
        occupants = [other for other in self.pods_on(node) if other.uid not in without]
        if any(ports_clash(pod.constraints.ports, other.constraints.ports) for other in occupants):
            return No("node(s) didn't have free ports", resolvable=True)
        lacking = self._lacking(pod, node, without)
        return No(f"Insufficient {lacking}", resolvable=True) if lacking else None

    def free_share(self, pod: Pod, node: str) -> float:
        """LeastAllocated: mean share that stays free of what the pod asks for, 0..1."""
        room, used = self.nodes[node].allocatable, self._used.get(node, {})
        shares = [
            (room[name] - used.get(name, 0) - amount) / room[name]
            for name, amount in pod.requests.items()
            if room.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0

    def _lacking(self, pod: Pod, node: str, without: frozenset[str]) -> str:
        room = self.nodes[node].allocatable
        taken = self._taken(pod, node, without)
        for name, amount in sorted(pod.requests.items()):
            if amount and amount + taken.get(name, 0) > room.get(name, 0):
                return name
        return ""

    def _taken(self, pod: Pod, node: str, without: frozenset[str]) -> Mapping[str, int]:
        """Room taken on the node, nominated pods of equal or higher priority included."""
        taken = dict(self._used.get(node, {}))
        for other in self.pods_on(node):
            if other.uid in without:
                _add(taken, other.requests, -1)
        for other in self._nominated.values():
            if other.nominated == node and other.uid != pod.uid and other.priority >= pod.priority:
                _add(taken, other.requests, 1)
        return taken

    def _add(self, pod: Pod, sign: int) -> None:
        _add(self._used.setdefault(pod.node, {}), pod.requests, sign)


def _add(sums: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        sums[name] = sums.get(name, 0) + sign * amount
