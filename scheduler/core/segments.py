"""Segments: so many consecutive members share one domain, and a lost one comes back to its own.

Segments may be parts of larger ones: each sixteen members in one block, each four of these in one
rack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core import cliques, ranking
from scheduler.core.capacity import Bools
from scheduler.core.cutting import cut_members, first_rank, ranks_now
from scheduler.core.effort import Effort, Plan, View
from scheduler.core.gang import Status
from scheduler.core.kinds import Kind
from scheduler.core.placement import Ask, NoRoom, place
from scheduler.core.slices import Coarse, Layer, only, without
from scheduler.core.state import State
from scheduler.model import Pod


def has_segments(effort: Effort) -> bool:
    """Whether the gang is cut into segments that do not share a domain anyway."""
    return _cut(effort) is not None


def seat_segments(effort: Effort, kind: Kind, pods: Sequence[Pod]) -> Plan | NoRoom:
    """Seats for members alike in segments; pods in rank order.

    Segments are placed like members alike on a tree that ends at the segments' level, where a
    domain holds as many as its nodes have room for: exactly, so that fewest domains are used at
    each level down to that one. What is left of a gang that does not divide goes where it costs
    least, see `slices.Coarse`. The members of each domain follow, on the fewest of its nodes.
    Members whose segment lives join it.
    """
    cut = _cut(effort)
    assert cut is not None
    view, layers = cut
    ask = effort.ask(view, kind, len(pods), effort.within)
    found = _Seating(effort, view).of(ask, pods, layers)
    if isinstance(found, NoRoom):
        return found
    names = effort.room.frame.names
    return Plan(tuple(pods), tuple(names[found.rows[pod.uid]] for pod in pods))


def _cut(effort: Effort) -> tuple[View, tuple[Layer, ...]] | None:
    """The tree, and the layers in it, broadest first; None if nothing is cut.

    Left out are layers that hold anyway: those of one member, and those at a level that all members
    or the members of a larger segment share in any case.
    """
    options = effort.options
    found = _view(effort) if options.segment_size else None
    if found is None:
        return None
    view, finest = found
    layers = [(finest, options.segment_size or 1)]
    for size, named in options.segment_within:
        level = effort.state.topology().resolve(named)
        if level is not None:
            layers.append((view.at(level), size))
    kept: list[Layer] = []
    shared = -1 if view.required is None else view.required
    for level, size in reversed(layers):
        if size > 1 and level > shared:
            kept.append(Layer(level, size))
            shared = level
    return (view, tuple(kept)) if kept else None


def _view(effort: Effort) -> tuple[View, int] | None:
    """The tree, and the level in it that a segment shares (the finest if none is stated); None if
    there is no such level."""
    stated = effort.options.segment_level
    topology = effort.state.topology()
    level = topology.resolve(stated) if stated else topology.fabric.levels - 1
    if level is None and stated in cliques.NAMES:
        views = [view for view in effort.views() if view.cliques is not None]
        view = views[0] if views else effort.view_of_cliques()
        return None if view is None or view.cliques is None else (view, view.cliques)
    views = effort.views()
    return (views[0], views[0].at(level)) if views and level is not None and level >= 0 else None


@dataclass(frozen=True, slots=True)
class _Found:
    """The row of each member, by uid, and what is asked for after that."""

    ask: Ask
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Seating:
    """Seats members segment by segment, in one tree."""

    effort: Effort
    view: View

    def of(self, ask: Ask, pods: Sequence[Pod], layers: Sequence[Layer]) -> _Found | NoRoom:
        """Rows for the pods: members of segments that live join these, the others come last."""
        seated: dict[str, int] = {}
        joining, fresh = _by_segment(self.effort, pods, layers[0].size)
        for mates, members in joining:
            found = self._joined(ask, mates, members, layers)
            if isinstance(found, NoRoom):
                return NoRoom(0, None)
            ask = found.ask
            seated |= found.rows
        if not fresh:
            return _Found(ask, seated)
        rows = self._anywhere(ask, len(fresh), layers)
        if isinstance(rows, NoRoom):
            return rows
        return _Found(without(ask, rows), seated | _pairs(fresh, rows))

    def _joined(
        self, ask: Ask, mates: Sequence[int], pods: Sequence[Pod], layers: Sequence[Layer]
    ) -> _Found | NoRoom:
        """Rows in the domain of their segment, which is cut into the finer layers itself."""
        ids = self.view.fabric.domains[layers[0].level]
        home = np.asarray((ids == ids[mates[0]]) & (ids >= 0))
        narrowed = only(ask, len(pods), home)
        if len(layers) > 1:
            inner = self.of(narrowed, pods, layers[1:])
            if isinstance(inner, NoRoom):
                return inner
            rows = [inner.rows[pod.uid] for pod in pods]
        else:
            seats = place(self.view.fabric, narrowed)
            if isinstance(seats, NoRoom):
                return seats
            rows = seats.by_member()
        return _Found(without(ask, rows), _pairs(pods, rows))

    def _anywhere(self, ask: Ask, count: int, layers: Sequence[Layer]) -> list[int] | NoRoom:
        """Rows, one a member, segment by segment; inside one domain of the required level."""
        outcome: list[int] | NoRoom = NoRoom(0, None)
        for inside in _walls(self.effort, self.view):
            walled = ask if inside is None else replace(ask, fits=np.where(inside, ask.fits, 0))
            outcome = Coarse.of(self.view.fabric, layers, walled).rows(count)
            if not isinstance(outcome, NoRoom):
                break
        return outcome


def _pairs(pods: Sequence[Pod], rows: Sequence[int]) -> dict[str, int]:
    return {pod.uid: row for pod, row in zip(pods, rows, strict=True)}


def _walls(effort: Effort, view: View) -> Iterator[Bools | None]:
    """The domains of a required level that the view's tree does not have, one by one."""
    if effort.level is None or view.required is not None:
        yield None
        return
    ids = effort.state.topology().fabric.domains[effort.level]
    for domain in range(int(ids.max(initial=-1)) + 1):
        yield np.asarray(ids == domain)


# ── members whose segment lives ──


def _by_segment(
    effort: Effort, pods: Sequence[Pod], size: int
) -> tuple[list[tuple[list[int], list[Pod]]], list[Pod]]:
    """(rows of the living, members to place) of each segment that lives in part; and the rest."""
    state, gang = effort.state, effort.gang
    seated = [state.pods[uid] for uid in (*gang.by_status[Status.SEATED], *gang.reserved)]
    cut, now = cut_members(state, gang, [*seated, *pods]), ranks_now(state, gang)
    first = first_rank(gang, cut, now)
    living: dict[int, list[int]] = {}
    for pod in cut:
        row = effort.room.frame.row.get(_node_of(state, pod))
        if row is not None and pod.uid in now:
            living.setdefault((now[pod.uid] - first) // size, []).append(row)
    joining: dict[int, list[Pod]] = {}
    fresh = []
    for pod in pods:
        rank = gang.memory.ranks.get(ranking.slot(pod))
        if rank is not None and (rank - first) // size in living:
            joining.setdefault((rank - first) // size, []).append(pod)
        else:
            fresh.append(pod)
    return [(living[segment], joining[segment]) for segment in sorted(joining)], fresh


def _node_of(state: State, pod: Pod) -> str:
    """The node on which a member lives or is about to."""
    reservation = state.reservations.get(pod.uid)
    return reservation.node if reservation is not None else pod.node
