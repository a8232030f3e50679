"""Whether a node takes new pods, resources apart, and which of its changes matter to anyone."""

from __future__ import annotations

from scheduler.core import feasibility
from scheduler.model import Constraints, Node

_PASSING = "node.kubernetes.io/"
"""Taints with this prefix come and go with a node's condition."""


def helps(before: Node | None, node: Node) -> bool:
    """Whether a change of a node may give room to anyone: most heartbeats change nothing."""
    if before is None or gate(before) != gate(node):
        return True
    have = before.allocatable
    return any(amount > have.get(name, 0) for name, amount in node.allocatable.items())


def gate(node: Node) -> tuple[object, ...]:
    """All of a node that verdicts depend on."""
    flags = node.unschedulable, node.ready, node.deleting, node.avoid
    return node.labels, node.taints, flags


def pristine(node: Node) -> Node:
    """The node as it would be when all is well with it."""
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(_PASSING))
    return Node(name=node.name, labels=node.labels, taints=taints)


def usable(constraints: Constraints, node: Node) -> bool:
    """Whether a node may take new pods of these constraints."""
    return not node.deleting and not node.avoid and not feasibility.verdict(constraints, node)
