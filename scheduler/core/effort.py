"""One attempt to seat members of a gang: the room that it sees, and the trees that it may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core import cliques
from scheduler.core.capacity import Bools, Ints
from scheduler.core.fabric import Fabric
from scheduler.core.feasibility import ports_clash
from scheduler.core.gang import Gang
from scheduler.core.kinds import Kind
from scheduler.core.models import is_one_of
from scheduler.core.placement import Ask, NoRoom, Seats
from scheduler.core.rooming import Room, accelerated, fits_of, home, living
from scheduler.core.state import State
from scheduler.model import Communication, GangKey, Options, Pod, Wish

_NOTHING_STATED = Options()


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes; ``pods`` and then ``ghosts`` in rank order, ``nodes`` beside them."""

    pods: tuple[Pod, ...]
    nodes: tuple[str, ...]
    ghosts: tuple[Pod, ...] = ()
    """Members of later phases that do not exist yet."""
    taken: tuple[GangKey, ...] = ()
    """Gangs of lower priority whose open reservations stand in the way."""


@dataclass(frozen=True, slots=True)
class View:
    """A tree to place in; levels are numbered as in that tree."""

    fabric: Fabric
    required: int | None = None
    """All members inside one domain of this level."""
    preferred: int | None = None
    """The level whose unlabelled nodes are a last resort."""
    cliques: int | None = None
    """The level of the NVLink domains, where they are one."""
    one_clique: bool = False
    """Whether the required level keeps all members in one NVLink domain."""

    def at(self, level: int) -> int:
        """The number that a level of the topology has here."""
        return level if self.cliques is None else level + (level >= self.cliques)


@dataclass(frozen=True, slots=True)
class Effort:
    """One attempt to seat members of a gang in the room that it sees."""

    state: State
    gang: Gang
    level: int | None
    """All members inside one domain of this level of the topology."""
    room: Room
    planned: tuple[int, ...] = ()
    """Rows of members that have their place in this attempt already; the room is without them."""

    @property
    def options(self) -> Options:
        """What the gang asks for."""
        return self.gang.life.options if self.gang.life else _NOTHING_STATED

    @property
    def light(self) -> bool:
        """Whether the members talk little, so that they may lie wherever room is left over."""
        return self.options.communication is Communication.LIGHT

    @property
    def near(self) -> Ints | None:
        """Per row how many members live or are about to."""
        found = living(self.state, self.gang, self.room.frame)
        if not self.planned:
            return found
        beside = np.bincount(self.planned, minlength=len(self.room.frame.names)).astype(np.int64)
        return beside if found is None else found + beside

    @property
    def within(self) -> Bools | None:
        """The rows of the domains, and of the NVLink domain, that living members may not leave."""
        walls = [
            wall
            for ids in shared_domains(self.state, self.gang, self.level)
            if (wall := self._wall(ids)) is not None
        ]
        return np.logical_and.reduce(walls) if walls else None

    def _wall(self, ids: Ints) -> Bools | None:
        found = home(self.state, self.gang, self.room.frame, ids)
        if found is not None or not self.planned:
            return found
        return np.asarray(np.isin(ids, np.unique(ids[list(self.planned)])) & (ids >= 0))

    def beside(self, kind: Kind, nodes: Sequence[str], others: Iterable[Kind]) -> Effort:
        """This attempt for other kinds, once members of a kind have these nodes, one each."""
        frame, room = self.room.frame, self.room
        rows = np.array([frame.row[name] for name in nodes], dtype=np.int64)
        free, open_rows = room.free.copy(), room.open.copy()
        found = frame.columns(kind.resources)
        assert found is not None, "they have been placed"
        columns, amounts = found
        np.subtract.at(free, (rows[:, None], np.array(columns)[None]), amounts[None])
        ports = kind.constraints.ports
        if any(ports_clash(ports, other.constraints.ports) for other in others):
            open_rows[rows] = False
        planned = (*self.planned, *rows.tolist())
        return replace(self, room=replace(room, free=free, open=open_rows), planned=planned)

    def view_of_cliques(self) -> View | None:
        """A tree that has the NVLink domains as a level; None if there are none. Where they cross
        the levels, no required level is in it."""
        known = self.state.cliques()
        if known is None:
            return None
        plain = View(self.state.topology().fabric, self.level)
        if known.nested is not None:
            return _woven(plain, *known.nested)
        return View(known.first, cliques=0)

    def views(self) -> list[View]:
        """The trees to try, first choice first; none if there is no NVLink domain to share."""
        preferred = self._resolved(self.options.preferred)
        plain = View(self.state.topology().fabric, self.level, preferred)
        wish = wish_for_nvlink(self.options)
        known = self.state.cliques()
        if known is None:
            return [] if wish is Wish.REQUIRED else [plain]
        if self.light and wish is None:
            return [plain]
        return _views(plain, known, wish)

    def _resolved(self, stated: str) -> int | None:
        return self.state.topology().resolve(stated) if stated else None

    def ask(self, view: View, kind: Kind, count: int, within: Bools | None) -> Ask:
        """What is asked of placement for members of one kind."""
        return Ask(
            count=count,
            fits=fits_of(self.state, kind, self.room),
            free=self.room.frame.total(self.room.free, self.state.is_accelerator),
            per_member=sum(n for name, n in kind.requests if self.state.is_accelerator(name)),
            required=view.required,
            preferred=view.preferred,
            within=within,
            near=self.near,
            accelerated=accelerated(self.state, self.room.frame),
            work=self.state.work,
        )

    def expand(self, seats: Seats) -> tuple[str, ...]:
        """Node names, one entry a member."""
        names = self.room.frame.names
        pairs = zip(seats.rows.tolist(), seats.counts.tolist(), strict=True)
        return tuple(names[row] for row, count in pairs for _ in range(count))

    def by_model(self) -> Iterator[Effort]:
        """This attempt on the nodes of each GPU model that is preferred, then on all nodes.

        Nodes without accelerators take part in all of them.
        """
        for model in self.options.gpu_preferred:
            nodes = (self.state.node(name) for name in self.room.frame.names)
            right = [node is not None and is_one_of(node.labels, (model,)) for node in nodes]
            mask = np.array(right, np.bool_) | ~accelerated(self.state, self.room.frame)
            yield replace(self, room=replace(self.room, open=self.room.open & mask))
        yield self

    def translated(self, view: View, no: NoRoom) -> NoRoom:
        """A refusal in a view's tree, in the terms of the topology."""
        if no.best_domain is None:
            return no
        level, domain = no.best_domain
        known = self.state.cliques()
        if view.one_clique and known is not None:
            inside = np.flatnonzero(view.fabric.domains[level] == domain)
            return NoRoom(no.fits_in_best, None, int(known.ids[inside[0]]))
        assert self.level is not None, "only a required level has a best domain"
        return NoRoom(no.fits_in_best, (self.level, domain))


def wish_for_nvlink(options: Options) -> Wish | None:
    """Whether the gang wants one NVLink domain; other systems say it where a level is asked for."""
    if options.nvlink is Wish.REQUIRED or options.required in cliques.NAMES:
        return Wish.REQUIRED
    return Wish.PREFERRED if options.preferred in cliques.NAMES else options.nvlink


def wants_cliques(options: Options) -> bool:
    """Whether the gang cannot be placed on nodes of which none is in an NVLink domain."""
    segments = options.segment_size is not None and options.segment_level in cliques.NAMES
    return segments or wish_for_nvlink(options) is Wish.REQUIRED


def shared_domains(state: State, gang: Gang, level: int | None) -> list[Ints]:
    """Per axis on which all members must share one domain: int [n], each row's domain or -1."""
    found: list[Ints] = []
    if level is not None:
        found.append(state.topology().fabric.domains[level].astype(np.int64))
    known = state.cliques()
    options = gang.life.options if gang.life else _NOTHING_STATED
    if known is not None and wish_for_nvlink(options) is Wish.REQUIRED:
        found.append(known.ids.astype(np.int64))
    return found


def _views(plain: View, known: cliques.Cliques, wish: Wish | None) -> list[View]:
    """With NVLink domains that nest, they are one more level. With such that cross the levels, a
    gang that prefers one gets one if it fits, and they are not counted otherwise."""
    if known.nested is not None:
        woven = _woven(plain, *known.nested)
        return [_in_one(woven) if wish is Wish.REQUIRED else woven]
    one = _in_one(_woven(plain, known.first, 0))
    return {Wish.REQUIRED: [one], Wish.PREFERRED: [one, plain], None: [plain]}[wish]


def _woven(plain: View, fabric: Fabric, at: int) -> View:
    """A view of the tree in which NVLink domains are level ``at``."""
    required, preferred = (
        None if level is None else level + (level >= at)
        for level in (plain.required, plain.preferred)
    )
    return View(fabric, required, preferred, at)


def _in_one(view: View) -> View:
    """All members in one NVLink domain, and in one of the required level if that is finer."""
    assert view.cliques is not None
    level = view.cliques if view.required is None else max(view.cliques, view.required)
    return replace(view, required=level, one_clique=True)
