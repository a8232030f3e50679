"""Whole segments on a tree whose nodes are the segments' domains; slices within slices, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from scheduler.core.capacity import Bools, Ints
from scheduler.core.fabric import Fabric
from scheduler.core.ground import Key
from scheduler.core.placement import Ask, NoRoom, Seats, ground_of, place

__all__ = ["Coarse", "Layer", "only", "without"]

MOST_HOSTS = 64
"""Domains that are tried for what is left when members do not divide into whole segments."""


class Layer(NamedTuple):
    """So many consecutive members share one domain of a level of the tree."""

    level: int
    size: int


def only(ask: Ask, count: int, inside: Bools) -> Ask:
    """The same for so many members, inside these rows alone."""
    return replace(ask, count=count, fits=np.where(inside, ask.fits, 0), required=None)


def without(ask: Ask, rows: Sequence[int]) -> Ask:
    """The same when these rows have one member more each."""
    taken = np.bincount(np.asarray(rows, dtype=np.int64), minlength=ask.fits.size)
    free = np.maximum(ask.free - taken * ask.per_member, 0)
    return replace(ask, fits=np.maximum(ask.fits - taken, 0), free=free)


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """The tree down to the segments' level, with its domains as nodes that hold segments."""

    fabric: Fabric
    """The whole tree."""
    ids: Ints
    """int64 [n]: the segments' domain of each row, -1 for none."""
    members: Ask
    """What is asked for members."""
    size: int
    finer: tuple[Layer, ...]
    """The layers that each segment is cut into itself, broadest first."""
    tree: Fabric
    room: Ints
    """int64 [domains]: members that fit, in whole segments of the finer layers."""
    ask: Ask
    """What is asked for whole segments."""

    @classmethod
    def of(cls, fabric: Fabric, layers: Sequence[Layer], ask: Ask) -> Coarse:
        """For the broadest of the layers; the sizes of finer ones divide it."""
        (level, size), *finer = layers
        ids = fabric.domains[level].astype(np.int64)
        inside = ids >= 0 if ask.within is None else (ids >= 0) & ask.within
        fits = np.where(inside, ask.fits, 0)
        domains = int(ids.max(initial=-1)) + 1
        room = np.bincount(ids[inside], _whole(fabric, finer, fits)[inside], domains)
        free = np.bincount(ids[inside], ask.free[inside], domains).astype(np.int64)
        heads = np.zeros(domains, dtype=np.int64)
        known = np.flatnonzero(ids >= 0)
        heads[ids[known]] = known
        tree = Fabric(np.ascontiguousarray(fabric.domains[:level, heads]))
        room = room.astype(np.int64)
        cost = ask.per_member * size
        segments = Ask(1, room // size, free, cost, required=ask.required, work=ask.work)
        members = replace(ask, fits=fits)
        return cls(fabric, ids, members, size, tuple(finer), tree, room, segments)

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
        ask = only(self.members, count, np.asarray(self.ids == domain))
        if self.finer:
            found = Coarse.of(self.fabric, self.finer, ask).rows(count)
            assert not isinstance(found, NoRoom), "room was counted in whole finer segments"
            return found
        seats = place(self.fabric, ask)
        assert isinstance(seats, Seats), "a domain with room for its segments holds their members"
        return seats.by_member()

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
            spare = (found < self.room // self.size) | self._with_rest(rest)
            beside = np.flatnonzero((found > 0) & spare)
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

    def _with_rest(self, rest: int) -> Bools:
        """bool [domains]: which have room for what is left beside all segments that they hold."""
        held = self.room // self.size * self.size
        return _more(self.fabric, self.ids, self.finer, self.members.fits, held, rest)

    def _hosts(self, rest: int) -> list[int]:
        """Domains with room for what is left beside the segments that they hold, one of a kind."""
        able = np.flatnonzero(self._with_rest(rest))
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


def _more(
    fabric: Fabric, ids: Ints, layers: Sequence[Layer], fits: Ints, held: Ints, rest: int
) -> Bools:
    """Which domains have room for so many members more beside those that they hold.

    ``ids``: int64 [n], each row's domain. ``held``: int64 [domains], in whole segments. Of what is
    left, too, all but the last part are whole segments of the finer layers.
    """
    if not layers:
        known = ids >= 0
        return np.asarray(np.bincount(ids[known], fits[known], held.size) >= held + rest)
    (level, size), *finer = layers
    inner = fabric.domains[level].astype(np.int64)
    known = (inner >= 0) & (ids >= 0)
    parts = int(inner[known].max(initial=-1)) + 1
    parent = np.zeros(parts, dtype=np.int64)
    parent[inner[known]] = ids[known]
    room = np.bincount(inner[known], _whole(fabric, finer, fits)[known], parts).astype(np.int64)
    spare = np.bincount(parent, room // size, held.size) - (held + rest) // size
    if not rest % size:
        return np.asarray(spare >= 0)
    full = _more(fabric, inner, finer, fits, room // size * size, rest % size)
    beside = np.bincount(parent, full, held.size) > 0
    return np.asarray((spare > 0) | ((spare == 0) & beside))


def _whole(fabric: Fabric, layers: Sequence[Layer], fits: Ints) -> Ints:
    """int64 [n]: members that fit in whole segments of all these layers, told at the first row of
    each domain of the broadest; as they are without layers."""
    for level, size in reversed(layers):
        ids = fabric.domains[level]
        known = np.flatnonzero(ids >= 0)
        domains, first = np.unique(ids[known], return_index=True)
        sums = np.bincount(ids[known], fits[known]).astype(np.int64)[domains]
        fits = np.zeros_like(fits)
        fits[known[first]] = sums // size * size
    return fits
