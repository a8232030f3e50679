"""Required pod anti-affinity: which nodes are shut to a gang by pods there, or by its own wish.

Pods count that hold their nodes, have a seat reserved, or are planned as members of a partner. A
gang is taken as one: where any of its waiting members is kept off, none is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from scheduler.core.capacity import Bools, Frame
from scheduler.core.feasibility import anti_affinity_matches
from scheduler.core.gang import Gang, Status
from scheduler.core.kinds import HOSTNAME
from scheduler.core.state import State
from scheduler.model import AntiTerm, Node, Pod

_Place = tuple[str, str]
"""A label key and the value that all nodes of the place have."""


def shut_rows(state: State, gang: Gang, frame: Frame) -> Bools | None:
    """Per row whether a waiting member must keep off the node; None if there is no such rule.

    O(terms x members + pods) where there are terms that concern the gang, else nothing.
    """
    waiting = [
        state.pods[uid] for uid in gang.by_status[Status.WAITING] if uid not in gang.reserved
    ]
    holders = [*_holders(state)]
    if not holders and not any(pod.anti_affinity for pod in waiting):
        return None
    places = {*_kept_by_others(state, holders, waiting), *_avoided(state, waiting)}
    if not places:
        return None
    by_key: dict[str, set[str]] = {}
    for key, value in places:
        by_key.setdefault(key, set()).add(value)
    nodes = (state.node(name) for name in frame.names)
    return np.array([node is not None and _is_in(node, by_key) for node in nodes], dtype=np.bool_)


def _holders(state: State) -> Iterator[Pod]:
    """Pods with terms of their own that are somewhere or about to be."""
    for uid in state.anti:
        yield state.pods[uid]
    for uid in (*state.reservations, *state.tentative):
        if state.pods[uid].anti_affinity:
            yield state.pods[uid]


def _kept_by_others(
    state: State, holders: Sequence[Pod], waiting: Sequence[Pod]
) -> Iterator[_Place]:
    asking = _distinct(holders, waiting)
    for holder in holders:
        for term in holder.anti_affinity:
            if any(_keeps_off(holder, term, pod) for pod in asking):
                yield from _place(state, holder, term)


def _avoided(state: State, waiting: Sequence[Pod]) -> Iterator[_Place]:
    """Places of pods that the waiting members' own terms name."""
    wishes = {(pod.namespace, pod.anti_affinity): pod for pod in waiting if pod.anti_affinity}
    for asking in wishes.values():
        for term in asking.anti_affinity:
            for other in state.pods.values():
                if _where(state, other) and _keeps_off(asking, term, other):
                    yield from _place(state, other, term)


def _distinct(holders: Iterable[Pod], waiting: Sequence[Pod]) -> list[Pod]:
    """One of the waiting for each set of labels that any term looks at."""
    keys = sorted(
        {
            one.key
            for holder in holders
            for term in holder.anti_affinity
            for one in term.selector or ()
        }
    )
    alike = {(pod.namespace, *(pod.labels.get(key) for key in keys)): pod for pod in waiting}
    return list(alike.values())


def _keeps_off(pod: Pod, term: AntiTerm, other: Pod) -> bool:
    return anti_affinity_matches(term, pod.namespace, other.namespace, other.labels)


def _place(state: State, pod: Pod, term: AntiTerm) -> Iterator[_Place]:
    node = state.node(_where(state, pod))
    value = _value(node, term.topology_key) if node is not None else ""
    if value:
        yield term.topology_key, value


def _where(state: State, pod: Pod) -> str:
    return state.ledger.where(pod.uid) or state.tentative.get(pod.uid, "")


def _value(node: Node, key: str) -> str:
    return node.labels.get(key) or (node.name if key == HOSTNAME else "")


def _is_in(node: Node, places: dict[str, set[str]]) -> bool:
    return any(_value(node, key) in values for key, values in places.items())
