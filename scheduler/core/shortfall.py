"""Why a gang has no room: what is short, where it would fit best, and whether it ever can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import feasibility, quantity
from scheduler.core.capacity import REQUEST_LIMIT, Bools, Frame, Ints
from scheduler.core.gang import Gang
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.placement import NoRoom
from scheduler.core.rooming import home
from scheduler.core.state import State
from scheduler.model import Pod


@dataclass(frozen=True, slots=True)
class Shortage:
    """What kept members from being placed, as far as it is known."""

    never: bool
    text: str
    pods: tuple[Pod, ...] = ()
    """The members that were to be placed, stand-ins for later ones included."""
    level: str | None = None
    best_domain: tuple[str | None, ...] | None = None
    fits: int | None = None
    short_by: tuple[tuple[str, int], ...] = ()


def unknown_level(state: State, named: str) -> Shortage:
    """The declaration names a level that no configuration or label knows."""
    known = ", ".join(state.topology().levels) or "none"
    text = f"never fits: level {named!r} is unknown; known levels: {known}"
    return Shortage(True, text, level=named)


def explain(
    state: State, gang: Gang, pods: tuple[Pod, ...], level: int | None, no: NoRoom
) -> Shortage:
    """What is short for these pods; a requirement that relaxes with time is never the last word."""
    topology = state.topology()
    where = topology.levels[level] if level is not None else None
    best = topology.domain_path(*no.best_domain) if no.best_domain else None
    fits = min(no.fits_in_best, len(pods))
    relaxes = gang.life is not None and gang.life.options.relax_after is not None
    never = _never(state, pods, None if relaxes else level)
    rows = _rows(state, gang, level, no)
    homeless = _homeless(state, pods)
    short = _short_by(state, homeless or pods, rows)
    text = f"{fits} of {len(pods)} placeable"
    if where is not None:
        text += f" in one {where.rpartition('/')[2]}"
    reasons = [*_obstacles(state, pods, level, rows), *_unhoused(homeless)]
    if short:
        amounts = (f"{_written(state, name, amount)} {name}" for name, amount in short)
        reasons.append("short by " + " and ".join(amounts))
    elif not reasons:
        reasons.append("what is free does not lie together on the nodes that may take them")
    text = f"{'never fits' if never else 'no room'}: {text}, {', '.join(reasons)}"
    return Shortage(never, text, pods, where, best, no.fits_in_best, short)


def _written(state: State, name: str, amount: int) -> str:
    return str(amount) if state.is_accelerator(name) else quantity.format(name, amount)


def _rows(state: State, gang: Gang, level: int | None, no: NoRoom) -> Bools:
    """The rows that count: where one domain is required, that of living members or the best."""
    domains = state.topology().fabric.domains
    at_home = home(state, gang, state.ledger.frame(), level)
    if at_home is not None:
        return at_home
    if level is None:
        return np.ones(domains.shape[1], dtype=np.bool_)
    if no.best_domain is None:
        return np.asarray(domains[level] >= 0, dtype=np.bool_)
    at, number = no.best_domain
    return np.asarray(domains[at] == number, dtype=np.bool_)


def _obstacles(state: State, pods: Sequence[Pod], level: int | None, rows: Bools) -> list[str]:
    """What stands in the way besides amounts: missing labels, host ports."""
    found = []
    if level is not None and not rows.any():
        keys = " and ".join(state.topology().levels[: level + 1])
        found.append(f"no node has the labels {keys}")
    ports = sorted({port for pod in pods for port in pod.constraints.ports})
    if ports and not (rows & state.ledger.without_ports(tuple(ports))).all():
        found.append("host port " + " or ".join(str(port.port) for port in ports[:3]) + " is taken")
    return found


def _unhoused(homeless: Sequence[Pod]) -> list[str]:
    if not homeless:
        return []
    more = f" and {len(homeless) - 1} more" if len(homeless) > 1 else ""
    return [f"no usable node for {homeless[0].key}{more}"]


def _homeless(state: State, pods: Sequence[Pod]) -> list[Pod]:
    """Members of kinds that no node may take at all, however much is free.

    Only where other kinds have nodes: if no member has any, counting says it as well.
    """
    kinds = {kind_of(pod) for pod in pods}
    closed = {kind for kind in kinds if not state.ledger.mask(kind.constraints).any()}
    return [pod for pod in pods if kind_of(pod) in closed] if closed != kinds else []


def _short_by(state: State, pods: Sequence[Pod], rows: Bools) -> tuple[tuple[str, int], ...]:
    """What is really short, resource by resource: the rest of what is free would do.

    Kind by kind, how many members have room as far as one resource goes; then what all kinds
    together ask of an accelerator against what is free of it.
    """
    frame = state.ledger.frame()
    totals: dict[str, int] = {}
    for kind, count in Counter(kind_of(pod) for pod in pods).items():
        usable = rows & state.ledger.mask(kind.constraints)
        for name, amount in kind.requests:
            lacking = count - _capacity(frame, usable, name, amount, count)
            if lacking > 0:
                totals[name] = totals.get(name, 0) + lacking * amount
    wanted = Counter[str]()
    for pod in pods:
        wanted.update({n: m for n, m in pod.requests.items() if state.is_accelerator(n)})
    for name, amount in wanted.items():
        column = frame.column.get(name)
        free = int(frame.free[rows, column].sum()) if column is not None else 0
        if amount > free:
            totals[name] = max(totals.get(name, 0), amount - free)
    return tuple(sorted((name, amount) for name, amount in totals.items() if name != "pods"))


def _capacity(frame: Frame, usable: Bools, name: str, amount: int, most: int) -> int:
    """Members that one resource alone has room for on these rows, up to ``most``."""
    column = frame.column.get(name)
    if column is None:
        return 0
    fits = frame.free[usable, column] // min(amount, REQUEST_LIMIT)
    return min(most, int(np.minimum(fits, most).sum()))


def _never(state: State, pods: Sequence[Pod], level: int | None) -> bool:
    """Whether not even an empty cluster of these nodes would hold the pods.

    Readiness, cordons and the taints that go with them pass; labels and other taints stay. Unlike
    kinds are judged one by one, so that a False may be too hopeful but a True never is.
    """
    frame = state.ledger.frame()
    kinds: dict[Kind, int] = {}
    for pod in pods:
        kinds[kind_of(pod)] = kinds.get(kind_of(pod), 0) + 1
    if any(_too_much(state, frame, kind, count, level) for kind, count in kinds.items()):
        return True
    return len(kinds) > 1 and _more_than_all(state, frame, kinds, level)


def _more_than_all(state: State, frame: Frame, kinds: dict[Kind, int], level: int | None) -> bool:
    """Whether all kinds together ask for more of a resource than all nodes, or a domain, have."""
    wanted = Counter[str]()
    for kind, count in kinds.items():
        wanted.update({name: amount * count for name, amount in kind.requests})
    usable = np.logical_or.reduce([state.ledger.pristine_mask(kind.constraints) for kind in kinds])
    return any(
        amount > _most(state, np.where(usable, frame.allocatable[:, frame.column[name]], 0), level)
        for name, amount in wanted.items()
    )


def _most(state: State, amounts: Ints, level: int | None) -> int:
    """The sum over all rows, or over the domain of a level that has most."""
    if level is None:
        return int(amounts.sum(dtype=object)) if len(amounts) else 0
    domains = state.topology().fabric.domains[level]
    sums = [int(amounts[domains == at].sum(dtype=object)) for at in range(domains.max() + 1)]
    return max(sums, default=0)


def _too_much(state: State, frame: Frame, kind: Kind, count: int, level: int | None) -> bool:
    at = frame.columns(kind.resources)
    if at is None or not frame.names:
        return True
    columns, amounts = at
    fits = (frame.allocatable[:, columns] // amounts).min(axis=1)
    if feasibility.ports_clash(kind.constraints.ports, kind.constraints.ports):
        fits = np.minimum(fits, 1)
    fits = np.where(state.ledger.pristine_mask(kind.constraints), fits, 0)
    if level is None:
        return int(fits.sum()) < count
    domains = state.topology().fabric.domains[level]
    sums = np.bincount(domains[domains >= 0], weights=fits[domains >= 0])
    return bool(max(sums, default=0) < count)
