"""Where a member that takes the very GPUs chosen for it may go: nodes whose GPUs are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.core import indexing
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.state import Apart, State
from scheduler.model import Pod


def assignable(state: State, kind: Kind, frame: Frame, free: Ints, usable: Bools) -> Bools:
    """Those of the usable rows on which the GPUs of such members can be told apart.

    ``free``: int64 [nodes, resources], what an attempt sees. Where it sees a node empty, it
    does not matter whose GPUs are unknown there now. O(nodes) look-ups, and a closer look at nodes
    that have changed since the last one; nothing for members that do not ask for it, or for no
    accelerators.
    """
    wanted = _wanted(state, kind) if kind.exact else ()
    if not wanted:
        return usable
    found = np.zeros_like(usable)
    column = frame.column.get(wanted[0])
    if len(wanted) > 1 or column is None:
        return found
    empty = free[:, column] == frame.allocatable[:, column]
    rows = np.flatnonzero(usable)
    apart = _apart(state, wanted[0], rows)
    found[rows] = np.where(empty, apart.if_empty, apart.now)[rows]
    return found


def _apart(state: State, resource: str, rows: Ints) -> Apart:
    """What is known of the nodes, with these rows looked at where they have changed."""
    frame, versions = state.ledger.frame(), state.ledger.versions()
    kept = state.apart.get(resource)
    if kept is None or kept.frame is not frame:
        kept = state.apart[resource] = _carried(state, kept, frame)
    changed = rows[kept.versions[rows] != versions[rows]]
    for row in changed.tolist():
        name = frame.names[row]
        kept.nodes[row] = state.node(name)
        kept.if_empty[row] = not indexing.unknown(state, name, resource, empty=True)
        kept.now[row] = kept.if_empty[row] and not indexing.unknown(state, name, resource)
    kept.versions[changed] = versions[changed]
    return kept


def _carried(state: State, before: Apart | None, frame: Frame) -> Apart:
    """What was known of the nodes, when others have come or gone."""
    size = len(frame.names)
    versions, verdicts = np.full(size, -1, np.int64), np.zeros((2, size), np.bool_)
    kept = Apart(frame, [None] * size, versions, *verdicts)
    for row, name in enumerate(frame.names if before else ()):
        at = before.frame.row.get(name) if before else None
        # A node that was made anew may be at the same version again.
        if before and at is not None and before.nodes[at] is state.node(name):
            kept.nodes[row], kept.versions[row] = before.nodes[at], before.versions[at]
            kept.now[row], kept.if_empty[row] = before.now[at], before.if_empty[at]
    return kept


def obstacles(state: State, pods: Sequence[Pod], rows: Bools) -> list[str]:
    """Why members have no place on these rows although there is room: one text for each kind."""
    found: dict[str, None] = {}
    for kind, pod in {kind_of(pod): pod for pod in reversed(pods)}.items():
        wanted = _wanted(state, kind) if kind.exact else ()
        if len(wanted) > 1:
            what = " and ".join(wanted)
            found[f"exact-gpus is for one sort of accelerators, and {pod.key} asks for {what}"] = (
                None
            )
        elif wanted and (text := _unknown_on(state, kind, wanted[0], rows, pod.namespace)):
            found[text] = None
    return list(found)


def _wanted(state: State, kind: Kind) -> tuple[str, ...]:
    return tuple(name for name, amount in kind.requests if amount and state.is_accelerator(name))


def _unknown_on(state: State, kind: Kind, resource: str, rows: Bools, namespace: str) -> str:
    """Of the nodes with room for one member, how many do not say which of their GPUs are free."""
    frame = state.ledger.frame()
    at = frame.columns(kind.resources)
    if at is None:
        return ""
    columns, amounts = at
    roomy = (frame.free[:, columns] >= amounts).all(axis=1)
    asked = np.flatnonzero(roomy & rows & state.ledger.mask(kind.constraints))
    shut = asked[~_apart(state, resource, asked).now[asked]]
    if not shut.size:
        return ""
    name, nodes = frame.names[shut[0]], f"{shut.size} node{'' if shut.size == 1 else 's'} with room"
    cause = indexing.unknown(state, name, resource, namespace=namespace)
    return (
        f"exact-gpus shuts {nodes}: it is not known which GPUs are free, on {name} because {cause}"
    )
