"""Seats for members that ask for different things."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from scheduler.core import feasibility, ranking
from scheduler.core.capacity import Ints
from scheduler.core.effort import Effort, Plan, View
from scheduler.core.kinds import Kind
from scheduler.core.placement import NoRoom, Seats
from scheduler.core.roles import RoleAsk, place_roles
from scheduler.core.rooming import accelerated, usable_rows
from scheduler.model import Pod


def seat_unlike(effort: Effort, kinds: dict[Kind, list[Pod]]) -> Plan | NoRoom:
    """Place several kinds together; each kind's members take its seats in rank order."""
    asks = _asks(effort, list(kinds), [len(pods) for pods in kinds.values()])
    if asks is None:
        return NoRoom(0, None)
    roles, free = asks
    outcome = NoRoom(0, None)
    for view in effort.views():
        found = _place(effort, view, roles, free)
        if not isinstance(found, NoRoom):
            placed: list[tuple[Pod, str]] = []
            for pods, seats in zip(kinds.values(), found, strict=True):
                placed += zip(pods, effort.expand(seats), strict=True)
            return _in_rank_order(placed)
        outcome = effort.translated(view, found)
    return outcome


def _place(
    effort: Effort, view: View, roles: Sequence[RoleAsk], free: Ints
) -> tuple[Seats, ...] | NoRoom:
    state, frame = effort.state, effort.room.frame
    return place_roles(
        view.fabric,
        roles,
        free,
        [at for name, at in frame.column.items() if state.is_accelerator(name)],
        required=view.required,
        preferred=view.preferred,
        within=effort.within,
        near=effort.near,
        accelerated=accelerated(state, frame),
        work=state.work,
    )


def _in_rank_order(placed: list[tuple[Pod, str]]) -> Plan:
    pods = [pod for pod, _ in placed]
    order = {pod.uid: at for at, pod in enumerate(ranking.in_order(pods, len(pods)))}
    placed.sort(key=lambda item: order[item[0].uid])
    return Plan(tuple(pod for pod, _ in placed), tuple(node for _, node in placed))


def _asks(
    effort: Effort, kinds: Sequence[Kind], counts: Sequence[int]
) -> tuple[list[RoleAsk], Ints] | None:
    """The kinds as placement asks for them, and what is free; None if some resource is on no node.

    Two kinds with a host port in common exclude each other as if they asked for a thing of which
    every node has one.
    """
    frame = effort.room.frame
    columns = [frame.columns(kind.resources) for kind in kinds]
    clashes = [pair for pair in combinations(range(len(kinds)), 2) if _clash(kinds, *pair)]
    width = len(frame.column) + len(clashes)
    asks = []
    for number, (kind, at, count) in enumerate(zip(kinds, columns, counts, strict=True)):
        if at is None:
            return None
        request = np.zeros(width, dtype=np.int64)
        request[at[0]] = at[1]
        for clash, pair in enumerate(clashes):
            request[len(frame.column) + clash] = number in pair
        mask = usable_rows(effort.state, kind, effort.room)
        asks.append(RoleAsk(count, request, mask, 1 if kind.one_a_node else None))
    one = np.ones((len(frame.names), len(clashes)), dtype=np.int64)
    return asks, np.concatenate([effort.room.free, one], axis=1)


def _clash(kinds: Sequence[Kind], one: int, other: int) -> bool:
    return feasibility.ports_clash(kinds[one].constraints.ports, kinds[other].constraints.ports)
