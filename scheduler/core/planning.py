"""Placing a whole gang in one decision: what is asked of placement, and what comes of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import capacity, feasibility, ranking
from scheduler.core.capacity import Bools, Frame, Ints
from scheduler.core.gang import Gang, Reason, Refusal, Stage, Status
from scheduler.core.placement import Ask, NoRoom, Seats, place
from scheduler.core.state import State
from scheduler.model import Constraints, GangKey, Node, Pod, Resources


@dataclass(frozen=True, slots=True)
class Kind:
    """Members that ask for the same: placement cannot tell them apart."""

    requests: tuple[tuple[str, int], ...]
    constraints: Constraints

    @property
    def resources(self) -> Resources:
        """The requests as a mapping."""
        return dict(self.requests)


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each member goes; ``pods`` in rank order, ``nodes`` beside it."""

    pods: tuple[Pod, ...]
    nodes: tuple[str, ...]
    taken: tuple[GangKey, ...] = ()
    """Gangs of lower priority whose open reservations stand in the way."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What kept members from being placed, as far as it is known."""

    never: bool
    text: str
    level: str | None = None
    best_domain: tuple[str | None, ...] | None = None
    fits: int | None = None
    short_by: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Room:
    """The arrays that one attempt works on."""

    frame: Frame
    free: Ints
    open: Bools
    """Per row whether the node takes new reservations at all."""


def attempt(state: State, gang: Gang) -> Plan | Refusal:
    """Place what the gang wants placed now, or say why not.

    A fresh gang: all members, else the mandatory part whole. An admitted one: all that wait, else
    the mandatory part, else one.
    """
    waiting = waiting_pods(state, gang)
    signature = _signature(gang, waiting)
    if signature is not None and (known := state.refused.get(signature)) is not None:
        if known.gains == state.gains:
            return known
        del state.refused[signature]
    outcome = _best(state, gang, waiting)
    if isinstance(outcome, Plan):
        return outcome
    reason = Reason.NEVER if outcome.never else Reason.NO_ROOM
    refusal = Refusal(reason, outcome.text, state.gains)
    if signature is not None:
        if len(state.refused) > 4096:
            state.refused.clear()
        state.refused[signature] = refusal
    return refusal


def shortage(state: State, gang: Gang) -> Shortage | None:
    """Why the gang cannot be placed now, in full, for ``why``; None if it can."""
    waiting = waiting_pods(state, gang)
    if not waiting:
        return None
    outcome = _best(state, gang, waiting)
    return outcome if isinstance(outcome, Shortage) else None


def _best(state: State, gang: Gang, waiting: Sequence[Pod]) -> Plan | Shortage:
    """The plan for the largest portion that fits, else why the smallest does not."""
    outcome: Plan | Shortage = Shortage(False, "no pod waits")
    for size in _portions(gang, len(waiting)):
        outcome = _place(state, gang, waiting[:size])
        if isinstance(outcome, Plan):
            break
    return outcome


def waiting_pods(state: State, gang: Gang) -> list[Pod]:
    """Members to be placed, in rank order."""
    pods = [state.pods[uid] for uid in gang.by_status[Status.WAITING] if uid not in gang.reserved]
    return ranking.in_order(pods, gang_size(gang))


def gang_size(gang: Gang) -> int:
    """Members expected in all."""
    stated = gang.life.options.size if gang.life else None
    least = gang.life.min if gang.life else 1
    alive = gang.count(Status.SEATED, Status.SUCCEEDED, Status.WAITING, Status.GATED)
    return max(stated or 0, least, alive)


def missing(gang: Gang) -> int:
    """Members that must still be bound or reserved to make up min."""
    least = gang.life.min if gang.life else 1
    return max(0, least - gang.held - len(gang.reserved))


def _portions(gang: Gang, waiting: int) -> list[int]:
    """How many members to try at once, largest first."""
    needed = missing(gang)
    portions = {waiting}
    if 0 < needed < waiting:
        portions.add(needed)
    if gang.memory.admitted and waiting > 1 and (needed == 0 or gang.stage is Stage.BROKEN):
        portions.add(1)
    return sorted(portions, reverse=True)


def _signature(gang: Gang, waiting: Sequence[Pod]) -> Hashable | None:
    """What a fresh gang asks for; two gangs with the same one fail together."""
    if gang.held or gang.memory.lost or gang.reserved or gang.life is None:
        return None
    counted: dict[Kind, int] = {}
    for pod in waiting:
        kind = kind_of(pod)
        counted[kind] = counted.get(kind, 0) + 1
    options = gang.life.options
    asked = (gang.life.min, options.required, options.preferred, gang.priority)
    return asked, tuple(counted.items())


def kind_of(pod: Pod) -> Kind:
    """What placement sees of a pod."""
    return Kind(tuple(sorted(pod.requests.items())), pod.constraints)


# ── one attempt ──


def _place(state: State, gang: Gang, pods: Sequence[Pod]) -> Plan | Shortage:
    state.plans += 1
    topology = state.topology()
    options = gang.life.options if gang.life else None
    required = options.required if options else ""
    level = topology.resolve(required) if required else None
    if required and level is None:
        known = ", ".join(topology.levels) or "none"
        text = f"never fits: level {required!r} is unknown; known levels: {known}"
        return Shortage(True, text, level=required)
    outcome = _seat(state, gang, pods, level, _room(state, gang, ()))
    if isinstance(outcome, Plan):
        return outcome
    lower = _takeable(state, gang)
    if lower:
        taken = _seat(state, gang, pods, level, _room(state, gang, lower))
        if isinstance(taken, Plan):
            return Plan(taken.pods, taken.nodes, _in_the_way(state, lower, taken.nodes))
    return _explain(state, pods, level, outcome)


def _seat(
    state: State, gang: Gang, pods: Sequence[Pod], level: int | None, room: _Room
) -> Plan | NoRoom:
    kinds: dict[Kind, list[Pod]] = {}
    for pod in pods:
        kinds.setdefault(kind_of(pod), []).append(pod)
    if len(kinds) > 1:
        return _seat_unlike(state, gang, pods, kinds, level, room)
    [(kind, alike)] = kinds.items()
    near = _living(state, gang, room.frame)
    within = _home(state, level, near)
    outcome = NoRoom(0, None)
    for narrowed in _narrowings(state, gang, alike, room.frame, within):
        ask = _ask(state, gang, kind, len(alike), room, level, narrowed, near)
        found = place(state.topology().fabric, ask)
        if isinstance(found, Seats):
            return Plan(tuple(pods), _expand(room.frame, found))
        outcome = found
    return outcome


def _ask(
    state: State,
    gang: Gang,
    kind: Kind,
    count: int,
    room: _Room,
    level: int | None,
    within: Bools | None,
    near: Ints | None,
) -> Ask:
    options = gang.life.options if gang.life else None
    preferred = options.preferred if options else ""
    return Ask(
        count=count,
        fits=_fits(state, kind, room),
        free=room.frame.total(room.free, state.is_accelerator),
        per_member=sum(n for name, n in kind.requests if state.is_accelerator(name)),
        required=level,
        preferred=state.topology().resolve(preferred) if preferred else None,
        within=within,
        near=near,
    )


def _fits(state: State, kind: Kind, room: _Room) -> Ints:
    """Per row how many members of this kind have room."""
    at = room.frame.columns(kind.resources)
    if at is None or not room.frame.names:
        return np.zeros(len(room.frame.names), dtype=np.int64)
    columns, amounts = at
    fits = (room.free[:, columns] // amounts).min(axis=1)
    usable = room.open & state.ledger.mask(kind.constraints)
    ports = kind.constraints.ports
    if ports:
        usable = usable & state.ledger.without_ports(ports)
        if feasibility.ports_clash(ports, ports):
            fits = np.minimum(fits, 1)
    return np.where(usable, fits, 0)


def _expand(frame: Frame, seats: Seats) -> tuple[str, ...]:
    return tuple(
        frame.names[row]
        for row, count in zip(seats.rows.tolist(), seats.counts.tolist(), strict=True)
        for _ in range(count)
    )


# ── rooms ──


def _room(state: State, gang: Gang, lower: Sequence[str]) -> _Room:
    """Free room as this gang sees it: seats kept for others are taken, ``lower`` uids are not."""
    frame = state.ledger.frame()
    free, copied = frame.free, False
    for name, amounts in _kept_seats(state, gang):
        free, copied = (free if copied else free.copy()), True
        _add(frame, free, name, amounts, -1)
    for uid in lower:
        free, copied = (free if copied else free.copy()), True
        reservation = state.reservations[uid]
        _add(frame, free, reservation.node, state.pods[uid].requests, 1)
    np.maximum(free, 0, out=free) if copied else None
    return _Room(frame, free, _open_rows(state, frame))


def _add(frame: Frame, table: Ints, node: str, amounts: Resources, sign: int) -> None:
    row = frame.row.get(node)
    if row is None:
        return
    for name, amount in amounts.items():
        column = frame.column.get(name)
        if column is not None:
            table[row, column] += sign * min(amount, 2**60)


def _kept_seats(state: State, gang: Gang) -> list[tuple[str, Resources]]:
    """Seats of broken gangs of equal or higher priority, which this gang may not take."""
    return [
        (seat.node, seat.resources)
        for key in state.broken
        if key != gang.key and state.gangs[key].priority >= gang.priority
        for seat in state.gangs[key].memory.lost
    ]


def _open_rows(state: State, frame: Frame) -> Bools:
    """Rows without a Binding whose outcome is unknown after its reservation ended."""
    rows = np.ones(len(frame.names), dtype=np.bool_)
    closed = [effect.node for effect in state.open.values() if effect.orphan]
    closed += [node for node, _ in state.doubts.values()]
    for name in closed:
        if name in frame.row:
            rows[frame.row[name]] = False
    return rows


def _takeable(state: State, gang: Gang) -> list[str]:
    """Uids with an open reservation of lower priority and no Binding on its way."""
    return [
        uid
        for uid, reservation in state.reservations.items()
        if uid not in state.binding and state.gangs[reservation.gang].priority < gang.priority
    ]


def _in_the_way(state: State, lower: Sequence[str], nodes: Sequence[str]) -> tuple[GangKey, ...]:
    chosen = set(nodes)
    reservations = [state.reservations[uid] for uid in lower]
    return tuple(dict.fromkeys(item.gang for item in reservations if item.node in chosen))


# ── around living members ──


def _living(state: State, gang: Gang, frame: Frame) -> Ints | None:
    """Per row how many members live or are about to; None if none does."""
    nodes = [state.pods[uid].node for uid in gang.by_status[Status.SEATED]]
    nodes += [state.reservations[uid].node for uid in gang.reserved]
    rows = [frame.row[node] for node in nodes if node in frame.row]
    if not rows:
        return None
    return np.bincount(rows, minlength=len(frame.names)).astype(np.int64)


def _home(state: State, level: int | None, near: Ints | None) -> Bools | None:
    """With a required level: the rows of the domains that living members occupy."""
    if level is None or near is None:
        return None
    domains = state.topology().fabric.domains[level]
    homes = np.unique(domains[near > 0])
    return np.asarray(np.isin(domains, homes[homes >= 0]), dtype=np.bool_)


def _narrowings(
    state: State, gang: Gang, pods: Sequence[Pod], frame: Frame, within: Bools | None
) -> list[Bools | None]:
    """Where to look, first choice first: one replacement goes back to its own slot's domain."""
    home = gang.memory.homes.get(ranking.slot(pods[0])) if len(pods) == 1 else None
    row = frame.row.get(home) if home else None
    domains = state.topology().fabric.domains
    if row is None or not len(domains) or domains[-1, row] < 0:
        return [within]
    own = np.asarray(domains[-1] == domains[-1, row], dtype=np.bool_)
    return [own if within is None else own & within, within]


# ── why not ──


def _explain(state: State, pods: Sequence[Pod], level: int | None, no: NoRoom) -> Shortage:
    topology = state.topology()
    where = topology.levels[level] if level is not None else None
    best = topology.domain_path(*no.best_domain) if no.best_domain else None
    fits = min(no.fits_in_best, len(pods))
    short = _short_by(state, pods[fits:])
    never = _never(state, pods, level)
    text = f"{fits} of {len(pods)} placeable"
    if where is not None:
        text += f" in one {where.rpartition('/')[2]}"
    if short:
        text += ", short by " + " and ".join(f"{amount} {name}" for name, amount in short)
    text = f"{'never fits' if never else 'no room'}: {text}"
    return Shortage(never, text, where, best, no.fits_in_best, short)


def _short_by(state: State, unplaced: Sequence[Pod]) -> tuple[tuple[str, int], ...]:
    totals: dict[str, int] = {}
    for pod in unplaced:
        for name, amount in pod.requests.items():
            if state.is_accelerator(name):
                totals[name] = totals.get(name, 0) + amount
    return tuple(sorted(totals.items()))


def _never(state: State, pods: Sequence[Pod], level: int | None) -> bool:
    """Whether not even an empty cluster of these nodes would hold the pods.

    Readiness, cordons and the taints that go with them pass; labels and other taints stay. Unlike
    kinds are judged one by one, so that a False may be too hopeful but a True never is.
    """
    frame = state.ledger.frame()
    kinds: dict[Kind, int] = {}
    for pod in pods:
        kinds[kind_of(pod)] = kinds.get(kind_of(pod), 0) + 1
    return any(_too_much(state, frame, kind, count, level) for kind, count in kinds.items())


def _too_much(state: State, frame: Frame, kind: Kind, count: int, level: int | None) -> bool:
    at = frame.columns(kind.resources)
    if at is None or not frame.names:
        return True
    columns, amounts = at
    fits = (frame.allocatable[:, columns] // amounts).min(axis=1)
    if feasibility.ports_clash(kind.constraints.ports, kind.constraints.ports):
        fits = np.minimum(fits, 1)
    pristine = (_pristine(state.node(name)) for name in frame.names)
    usable = [node is not None and capacity.usable(kind.constraints, node) for node in pristine]
    fits = np.where(np.array(usable), fits, 0)
    if level is None:
        return int(fits.sum()) < count
    domains = state.topology().fabric.domains[level]
    sums = np.bincount(domains[domains >= 0], weights=fits[domains >= 0])
    return bool(max(sums, default=0) < count)


def _pristine(node: Node | None) -> Node | None:
    """The node as it would be when all is well with it."""
    if node is None:
        return None
    taints = tuple(t for t in node.taints if not t.key.startswith("node.kubernetes.io/"))
    return Node(name=node.name, labels=node.labels, taints=taints)


# ── unlike members ──


def _seat_unlike(
    state: State,
    gang: Gang,
    pods: Sequence[Pod],
    kinds: dict[Kind, list[Pod]],
    level: int | None,
    room: _Room,
) -> Plan | NoRoom:
    raise NotImplementedError
