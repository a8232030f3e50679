"""Nodes that are Ready and should be avoided all the same."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from scheduler.core.state import State, Turn
from scheduler.model import Node

STRIKES = 3
"""Pods that a node may reject within ``avoid_s`` before it is avoided: one may be a race."""


def judged(state: State, node: Node) -> Node:
    """The node with our judgement of it."""
    return replace(node, avoid=_reason(state, node))


def _reason(state: State, node: Node) -> str:
    for condition in node.conditions:
        if any(fnmatchcase(condition, wanted) for wanted in state.settings.avoid_conditions):
            return f"condition {condition} is True"
    if len(state.strikes.get(node.name, ())) >= STRIKES:
        return "it keeps rejecting pods"
    return ""


def strike(turn: Turn, name: str) -> None:
    """A pod was rejected by the node it was bound to."""
    turn.state.strikes.setdefault(name, []).append(turn.now + turn.state.settings.avoid_s)
    _judge_again(turn, name)


def forgive(turn: Turn) -> None:
    """Forget strikes whose time is over."""
    strikes = turn.state.strikes
    for name in [name for name, times in strikes.items() if times[0] <= turn.now]:
        strikes[name] = [until for until in strikes[name] if until > turn.now]
        if not strikes[name]:
            del strikes[name]
        _judge_again(turn, name)


def _judge_again(turn: Turn, name: str) -> None:
    node = turn.state.ledger.node(name)
    if node is None:
        return
    fresh = judged(turn.state, node)
    if fresh != node:
        turn.state.ledger.put_node(fresh)
        turn.state.gains += 1
        turn.suspect[name] = None
