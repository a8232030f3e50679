"""Where a member that takes the very GPUs chosen for it may go: nodes whose GPUs are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.core import indexing
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.state import State
from scheduler.model import Pod


def assignable(state: State, kind: Kind, frame: Frame, free: Ints, usable: Bools) -> Bools:
    """Those of the usable rows on which the GPUs of such members can be told apart.

    ``free``: int64 [nodes, resources], what an attempt sees. Where it sees a node empty, it
    does not matter whose GPUs are unknown there now. O(nodes) look-ups; nothing for members that
    do not ask for it, or for no accelerators.
    """
    wanted = _wanted(state, kind) if kind.exact else ()
    if not wanted:
        return usable
    found = np.zeros_like(usable)
    column = frame.column.get(wanted[0])
    if len(wanted) > 1 or column is None:
        return found
    empty = free[:, column] == frame.allocatable[:, column]
    for row in np.flatnonzero(usable).tolist():
        name = frame.names[row]
        found[row] = not indexing.unknown(state, name, wanted[0], empty=bool(empty[row]))
    return found


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
        elif wanted and (text := _unknown_on(state, kind, wanted[0], rows)):
            found[text] = None
    return list(found)


def _wanted(state: State, kind: Kind) -> tuple[str, ...]:
    return tuple(name for name, amount in kind.requests if amount and state.is_accelerator(name))


def _unknown_on(state: State, kind: Kind, resource: str, rows: Bools) -> str:
    """Of the nodes with room for one member, how many do not say which of their GPUs are free."""
    frame = state.ledger.frame()
    at = frame.columns(kind.resources)
    if at is None:
        return ""
    columns, amounts = at
    roomy = (frame.free[:, columns] >= amounts).all(axis=1)
    names = [
        frame.names[row]
        for row in np.flatnonzero(roomy & rows & state.ledger.mask(kind.constraints))
    ]
    causes = {name: cause for name in names if (cause := indexing.unknown(state, name, resource))}
    if not causes:
        return ""
    name, cause = next(iter(causes.items()))
    nodes = f"{len(causes)} node{'' if len(causes) == 1 else 's'} with room"
    return (
        f"exact-gpus shuts {nodes}: it is not known which GPUs are free, on {name} because {cause}"
    )
