"""Segments: so many consecutive members share one domain, and a lost one comes back to its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core import cliques, hints, ranking
from scheduler.core.capacity import Bools, Ints
from scheduler.core.effort import Effort, Plan, View
from scheduler.core.fabric import Fabric
from scheduler.core.gang import Status
from scheduler.core.ground import Key
from scheduler.core.kinds import Kind
from scheduler.core.placement import Ask, NoRoom, Seats, ground_of, place
from scheduler.model import Pod

MOST_HOSTS = 64
"""Domains that are tried for what is left when members do not divide into whole segments."""


def has_segments(effort: Effort) -> bool:
    """Whether the gang is cut into segments that do not share a domain anyway."""
    size = effort.options.segment_size
    if size is None or size == 1 or (found := _view(effort)) is None:
        return False
    view, level = found
    return view.required is None or view.required < level


def seat_segments(effort: Effort, kind: Kind, pods: Sequence[Pod]) -> Plan | NoRoom:
    """Seats for members alike in segments; pods in rank order.

    Segments are placed like members alike on a tree that ends at the segments' level, where a
    domain holds as many as its nodes have room for: exactly, so that fewest domains are used at
    each level down to that one. What is left of a gang that does not divide goes where it costs
    least, see `_placed`. The members of each domain follow, on the fewest of its nodes. Members
    whose segment lives join it.
    """
    view = _view(effort)
    size = effort.options.segment_size
    assert view is not None
    assert size is not None
    ask = effort.ask(view[0], kind, len(pods), effort.within)
    joining, fresh = _by_segment(effort, pods, size)
    seated: dict[str, int] = {}
    for mates, members in joining:
        ask, rows = _join(view, ask, mates, len(members))
        if not rows:
            return NoRoom(0, None)
        seated.update({pod.uid: row for pod, row in zip(members, rows, strict=True)})
    placed = _place_anywhere(effort, view, ask, len(fresh), size) if fresh else []
    if isinstance(placed, NoRoom):
        return placed
    seated.update({pod.uid: row for pod, row in zip(fresh, placed, strict=True)})
    names = effort.room.frame.names
    return Plan(tuple(pods), tuple(names[seated[pod.uid]] for pod in pods))


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


# ── members whose segment lives ──


def _by_segment(
    effort: Effort, pods: Sequence[Pod], size: int
) -> tuple[list[tuple[list[int], list[Pod]]], list[Pod]]:
    """(rows of the living, members to place) of each segment that lives in part; and the rest."""
    ranks = effort.gang.memory.ranks
    living = _living(effort, size)
    joining: dict[int, list[Pod]] = {}
    fresh = []
    for pod in pods:
        rank = ranks.get(ranking.slot(pod))
        if rank is not None and rank // size in living:
            joining.setdefault(rank // size, []).append(pod)
        else:
            fresh.append(pod)
    return [(living[segment], joining[segment]) for segment in sorted(joining)], fresh


def _living(effort: Effort, size: int) -> dict[int, list[int]]:
    """Segment -> rows on which its members live or are about to."""
    state, gang = effort.state, effort.gang
    seats = [
        (state.pods[uid].node, hints.rank_of(state.pods[uid].hint))
        for uid in gang.by_status[Status.SEATED]
    ]
    seats += [(state.reservations[uid].node, state.reservations[uid].rank) for uid in gang.reserved]
    found: dict[int, list[int]] = {}
    for node, rank in seats:
        row = effort.room.frame.row.get(node)
        if row is not None and rank is not None:
            found.setdefault(rank // size, []).append(row)
    return found


def _join(
    view: tuple[View, int], ask: Ask, mates: Sequence[int], count: int
) -> tuple[Ask, list[int]]:
    """Rows for members in the domain of their segment, and what is asked for after that."""
    ids = view[0].fabric.domains[view[1]]
    domain = int(ids[mates[0]])
    inside = np.asarray((ids == domain) & (ids >= 0))
    seats = place(view[0].fabric, _only(ask, count, inside))
    if isinstance(seats, NoRoom):
        return ask, []
    return _without(ask, seats), np.repeat(seats.rows, seats.counts).tolist()


def _only(ask: Ask, count: int, inside: Bools) -> Ask:
    return replace(ask, count=count, fits=np.where(inside, ask.fits, 0), required=None)


def _without(ask: Ask, seats: Seats) -> Ask:
    """The same ask when these seats are taken."""
    taken = np.zeros_like(ask.fits)
    taken[seats.rows] = seats.counts
    free = np.maximum(ask.free - taken * ask.per_member, 0)
    return replace(ask, fits=np.maximum(ask.fits - taken, 0), free=free)


# ── whole segments ──


def _place_anywhere(
    effort: Effort, view: tuple[View, int], ask: Ask, count: int, size: int
) -> list[int] | NoRoom:
    """Rows, one a member, segment by segment; inside one domain of the required level."""
    outcome: list[int] | NoRoom = NoRoom(0, None)
    for inside in _walls(effort, view[0]):
        walled = ask if inside is None else replace(ask, fits=np.where(inside, ask.fits, 0))
        outcome = _Coarse.of(view, walled, size).rows(count)
        if not isinstance(outcome, NoRoom):
            break
    return outcome


def _walls(effort: Effort, view: View) -> Iterator[Bools | None]:
    """The domains of a required level that the view's tree does not have, one by one."""
    if effort.level is None or view.required is not None:
        yield None
        return
    ids = effort.state.topology().fabric.domains[effort.level]
    for domain in range(int(ids.max(initial=-1)) + 1):
        yield np.asarray(ids == domain)


@dataclass(frozen=True, slots=True, eq=False)
class _Coarse:
    """The tree down to the segments' level, with its domains as nodes that hold segments."""

    fabric: Fabric
    """The whole tree."""
    ids: Ints
    """int64 [n]: the segments' domain of each row, -1 for none."""
    members: Ask
    """What is asked for members."""
    size: int
    tree: Fabric
    room: Ints
    """int64 [domains]: members that fit."""
    ask: Ask
    """What is asked for whole segments."""

    @classmethod
    def of(cls, view: tuple[View, int], ask: Ask, size: int) -> _Coarse:
        whole, level = view
        ids = whole.fabric.domains[level].astype(np.int64)
        inside = ids >= 0 if ask.within is None else (ids >= 0) & ask.within
        fits = np.where(inside, ask.fits, 0)
        domains = int(ids.max(initial=-1)) + 1
        room = np.bincount(ids[inside], fits[inside], domains).astype(np.int64)
        free = np.bincount(ids[inside], ask.free[inside], domains).astype(np.int64)
        heads = np.zeros(domains, dtype=np.int64)
        known = np.flatnonzero(ids >= 0)
        heads[ids[known]] = known
        tree = Fabric(np.ascontiguousarray(whole.fabric.domains[:level, heads]))
        segments = Ask(1, room // size, free, ask.per_member * size, required=ask.required)
        return cls(whole.fabric, ids, replace(ask, fits=fits), size, tree, room, segments)

    def rows(self, count: int) -> list[int] | NoRoom:
        """Rows for so many members, one a member, whole segments first."""
        whole, rest = divmod(count, self.size)
        found = self._placed(whole, rest)
        if isinstance(found, NoRoom):
            return NoRoom(min(count, found.fits_in_best * self.size), None)
        segments, host = found
        rows: list[int] = []
        last: list[int] = []
        for domain in np.flatnonzero(segments).tolist():
            number = int(segments[domain]) * self.size
            inner = self._inside(domain, number + (rest if domain == host else 0))
            rows += inner[:number]
            last += inner[number:]
        return rows + (last or (self._inside(host, rest) if rest else []))

    def _inside(self, domain: int, count: int) -> list[int]:
        """Rows for members of one domain."""
        seats = place(self.fabric, _only(self.members, count, np.asarray(self.ids == domain)))
        assert isinstance(seats, Seats), "a domain with room for its segments holds their members"
        rows: list[int] = np.repeat(seats.rows, seats.counts).tolist()
        return rows

    def _placed(self, whole: int, rest: int) -> tuple[Ints, int] | NoRoom:
        """Segments for each domain and the domain of what is left (-1: nothing is), at the least
        `Ground.key` of the domains used.

        What is left goes beside the whole segments where their domains have room for it, as if it
        were a whole one, or into a domain that has room for it beside all segments that it holds:
        of those, each that differs from the others (at most MOST_HOSTS) is tried.
        """
        if not rest:
            found = self._counts(whole)
            return found if isinstance(found, NoRoom) else (found, -1)
        tried = [way for way in self._ways(whole, rest) if way is not None]
        if not tried:
            return NoRoom(max(0, int((self.room // self.size).sum()) - 1), None)
        _, counts, host = min(tried, key=lambda way: way[0])
        return counts, host

    def _ways(self, whole: int, rest: int) -> Iterator[tuple[Key, Ints, int] | None]:
        if whole and not isinstance(found := self._counts(whole), NoRoom):
            beside = np.flatnonzero((found > 0) & (self.room - found * self.size >= rest))
            if beside.size:
                yield self._way(found, int(beside[0]))
                return
        if not isinstance(found := self._counts(whole + 1), NoRoom):
            last = int(np.flatnonzero(found)[-1])
            found[last] -= 1
            yield self._way(found, last)
        for host in self._hosts(rest):
            counts = self._counts(whole, host) if whole else np.zeros_like(self.room)
            yield None if isinstance(counts, NoRoom) else self._way(counts, host)

    def _hosts(self, rest: int) -> list[int]:
        """Domains with room for what is left beside the segments that they hold, one of a kind."""
        able = np.flatnonzero(self.room % self.size >= rest)
        parent = self.tree.domains[-1, able] if self.tree.levels else np.zeros_like(able)
        kinds = np.stack([parent, self.room[able] // self.size, self.ask.free[able]])
        _, first = np.unique(kinds, axis=1, return_index=True)
        hosts: list[int] = able[np.sort(first)[:MOST_HOSTS]].tolist()
        return hosts

    def _counts(self, count: int, host: int | None = None) -> Ints | NoRoom:
        """Segments for each domain; those of a host's path cost nothing."""
        ask = replace(self.ask, count=count)
        if host is not None:
            near = np.zeros(self.room.size, dtype=np.int64)
            near[host] = 1
            ask = replace(ask, near=near, within=self._shared_with(host))
        found = place(self.tree, ask)
        if isinstance(found, NoRoom):
            return found
        counts = np.zeros(self.room.size, dtype=np.int64)
        counts[found.rows] = found.counts
        return counts

    def _shared_with(self, host: int) -> Bools | None:
        """With a required level: the domains that may be used together with this one."""
        if self.ask.required is None:
            return None
        ids = self.tree.domains[self.ask.required]
        return np.asarray(ids == ids[host])

    def _way(self, counts: Ints, host: int) -> tuple[Key, Ints, int]:
        used = counts > 0
        used[host] = True
        chosen = np.flatnonzero(used[self.tree.order])
        return ground_of(self.tree, self.ask).key(chosen), counts, host
