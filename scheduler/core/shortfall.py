"""Why a gang has no room: what is short, where it would fit best, and whether it ever can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import cliques, exactness, presets, quantity
from scheduler.core.capacity import REQUEST_LIMIT, Bools, Frame, Ints
from scheduler.core.effort import shared_domains, wish_for_nvlink
from scheduler.core.feasibility import verdict
from scheduler.core.gang import Gang
from scheduler.core.kinds import Kind, kind_of
from scheduler.core.placement import NoRoom
from scheduler.core.quoting import bounded
from scheduler.core.repulsion import shut_rows
from scheduler.core.rooming import home, kinds_of
from scheduler.core.seating import MOST_KINDS, by_devices
from scheduler.core.state import State
from scheduler.model import Node, Pod, Wish


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
    levels = state.topology().levels
    meant = [key for key in levels if named in (presets.name_of(key), presets.last_word(key))]
    if len(meant) > 1:
        text = f"level {named!r} may mean {' or '.join(meant)}; state the label key"
    else:
        text = f"level {named!r} is unknown; known levels: {', '.join(levels) or 'none'}"
    return Shortage(True, bounded(f"never fits: {text}"), level=named)


def no_cliques() -> Shortage:
    """The gang wants to share an NVLink domain, and no node is in one."""
    text = f"never fits: no node is in an NVLink domain (label {cliques.KEY})"
    return Shortage(True, text, level=cliques.KEY)


def explain(
    state: State, gang: Gang, pods: tuple[Pod, ...], level: int | None, no: NoRoom
) -> Shortage:
    """What is short for these pods; a requirement that relaxes with time is never the last word."""
    shared = _shared(state, gang, level)
    fits = min(no.fits_in_best, len(pods))
    kinds = kinds_of(state, gang, pods)
    many = _too_many_kinds(state, kinds)
    never = bool(many) or _never(state, _counted(kinds), _lasting(state, gang, level))
    rows = _rows(state, gang, shared, no)
    homeless = _homeless(state, kinds)
    closed = _all_closed(state, kinds) if not homeless else ""
    short = () if closed else _short_by(state, _counted(homeless or kinds), rows)
    text = f"{fits} of {len(pods)} placeable"
    if shared is not None:
        text += f" in one {shared.name}"
    reasons = [*_obstacles(state, gang, pods, shared, rows), *_no_model(state, kinds)]
    reasons += exactness.obstacles(state, pods, rows)
    reasons += _unhoused([pod for members in homeless.values() for pod in members])
    reasons += many
    if closed and not reasons:
        reasons.append(closed)
    if short:
        amounts = (f"{_written(state, name, amount)} {name}" for name, amount in short)
        reasons.append("short by " + " and ".join(amounts))
    elif not reasons:
        reasons.append("what is free does not lie together on the nodes that may take them")
    text = f"{'never fits' if never else 'no room'}: {text}, {', '.join(reasons)}"
    where = shared.keys[-1] if shared else None
    return Shortage(never, bounded(text), pods, where, _best(state, no), no.fits_in_best, short)


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """The domains of which one must hold all members."""

    name: str
    """What people call such a domain."""
    keys: tuple[str, ...]
    """The labels that a node must have to be in one."""
    ids: Ints
    """int [n]: each row's domain, -1 for none."""


def _shared(state: State, gang: Gang, level: int | None) -> _Shared | None:
    """An NVLink domain, where that is required, or a domain of the level."""
    domains = shared_domains(state, gang, level)
    if not domains:
        return None
    ids = domains[-1]
    if gang.life is not None and wish_for_nvlink(gang.life.options) is Wish.REQUIRED:
        return _Shared("NVLink domain", (cliques.KEY,), ids)
    assert level is not None
    keys = state.topology().levels[: level + 1]
    return _Shared(keys[-1].rpartition("/")[2], keys, ids)


def _lasting(state: State, gang: Gang, level: int | None) -> Ints | None:
    """The domains that must be shared for good, each row's or -1; None: there are none."""
    relaxes = gang.life is not None and gang.life.options.relax_after is not None
    domains = shared_domains(state, gang, None if relaxes else level)
    return domains[-1] if domains else None


def _best(state: State, no: NoRoom) -> tuple[str | None, ...] | None:
    """The values that name the best place."""
    known = state.cliques()
    if no.clique is not None and known is not None:
        return (known.names[no.clique],)
    return state.topology().domain_path(*no.best_domain) if no.best_domain else None


def _written(state: State, name: str, amount: int) -> str:
    return str(amount) if state.is_accelerator(name) else quantity.format(name, amount)


def _rows(state: State, gang: Gang, shared: _Shared | None, no: NoRoom) -> Bools:
    """The rows that count: where one domain is required, that of living members or the best."""
    if shared is None:
        return np.ones(state.topology().fabric.nodes, dtype=np.bool_)
    at_home = home(state, gang, state.ledger.frame(), shared.ids)
    if at_home is not None:
        return at_home
    best = no.clique if no.clique is not None else no.best_domain and no.best_domain[1]
    if best is None:
        return np.asarray(shared.ids >= 0, dtype=np.bool_)
    return np.asarray(shared.ids == best, dtype=np.bool_)


def _obstacles(
    state: State, gang: Gang, pods: Sequence[Pod], shared: _Shared | None, rows: Bools
) -> list[str]:
    """What stands in the way besides amounts: missing labels, host ports, anti-affinity."""
    found = []
    if shared is not None and not rows.any():
        found.append(f"no node has the labels {' and '.join(shared.keys)}")
    ports = sorted({port for pod in pods for port in pod.constraints.ports})
    named = "host port " + " or ".join(str(port.port) for port in ports[:3])
    if ports and not state.ledger.without_ports(tuple(ports))[rows].all():
        found.append(f"{named} is taken")
    shut = shut_rows(state, gang, state.ledger.frame())
    if shut is not None and (shut & rows).any():
        found.append(f"anti-affinity shuts {_nodes(int((shut & rows).sum()))}")
    found += _one_a_node(state, pods, rows, named)
    return found


def _one_a_node(state: State, pods: Sequence[Pod], rows: Bools, port: str) -> list[str]:
    """That members of a kind keep off each other, where that leaves too few nodes for them."""
    counts = Counter(kind_of(pod) for pod in pods)
    for kind, count in counts.items():
        nodes = int((rows & state.ledger.mask(kind.constraints)).sum())
        if kind.one_a_node and count > nodes:
            rule = "anti-affinity" if kind.keeps_off_itself else port
            return [f"their own {rule} allows one on a node, and {_nodes(nodes)} may take them"]
    return []


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _unhoused(homeless: Sequence[Pod]) -> list[str]:
    if not homeless:
        return []
    more = f" and {len(homeless) - 1} more" if len(homeless) > 1 else ""
    return [f"no usable node for {homeless[0].key}{more}"]


def _counted(kinds: dict[Kind, list[Pod]]) -> dict[Kind, int]:
    return {kind: len(pods) for kind, pods in kinds.items()}


def _no_model(state: State, kinds: dict[Kind, list[Pod]]) -> list[str]:
    """GPU models that are asked for and that no usable node has."""
    return [
        f"no usable node has GPU model {' or '.join(kind.constraints.models)}"
        for kind in kinds
        if kind.constraints.models and not state.ledger.mask(kind.constraints).any()
    ]


def _homeless(state: State, kinds: dict[Kind, list[Pod]]) -> dict[Kind, list[Pod]]:
    """Members of kinds that no node may take at all, however much is free, where others may."""
    closed = {
        kind: pods for kind, pods in kinds.items() if not state.ledger.mask(kind.constraints).any()
    }
    return closed if len(closed) < len(kinds) else {}


def _all_closed(state: State, kinds: dict[Kind, list[Pod]]) -> str:
    """Why no node may take any member, told of the first node; "" if one may."""
    names = state.ledger.frame().names
    if not names or any(state.ledger.mask(kind.constraints).any() for kind in kinds):
        return ""
    node, (kind, pods) = state.node(names[0]), next(iter(kinds.items()))
    cause = _against(kind, node) if node is not None else ""
    return f"no node may take {pods[0].key}; not {names[0]}, for instance: {cause}" if cause else ""


def _against(kind: Kind, node: Node) -> str:
    """Why a node may not take a member of a kind, as `usability.usable` judges it; "" if it may."""
    leaves = "it is being deleted" if node.deleting else ""
    return verdict(kind.constraints, node) or leaves or node.avoid


def _too_many_kinds(state: State, kinds: dict[Kind, list[Pod]]) -> list[str]:
    count = len(by_devices(state, kinds))
    if count <= MOST_KINDS:
        return []
    told = f"{count} kinds of members that differ in accelerators or in where they may go"
    return [f"there are {told}, and at most {MOST_KINDS} are planned"]


def _short_by(state: State, kinds: dict[Kind, int], rows: Bools) -> tuple[tuple[str, int], ...]:
    """What is really short, resource by resource: the rest of what is free would do.

    Kind by kind, how many members have room as far as one resource goes; then what all kinds
    together ask of an accelerator against what is free of it.
    """
    frame = state.ledger.frame()
    totals: dict[str, int] = {}
    for kind, count in kinds.items():
        usable = rows & state.ledger.mask(kind.constraints)
        for name, amount in kind.requests:
            lacking = count - _capacity(frame, usable, name, amount, count)
            if lacking > 0:
                totals[name] = totals.get(name, 0) + lacking * amount
    wanted = Counter[str]()
    for kind, count in kinds.items():
        wanted.update({n: m * count for n, m in kind.requests if state.is_accelerator(n)})
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


def _never(state: State, kinds: dict[Kind, int], domains: Ints | None) -> bool:
    """Whether not even an empty cluster of these nodes would hold the pods.

    Readiness, cordons and the taints that go with them pass; labels and other taints stay. Unlike
    kinds are judged one by one, so that a False may be too hopeful but a True never is.
    """
    frame = state.ledger.frame()
    if any(_too_much(state, frame, kind, count, domains) for kind, count in kinds.items()):
        return True
    return len(kinds) > 1 and _more_than_all(state, frame, kinds, domains)


def _more_than_all(
    state: State, frame: Frame, kinds: dict[Kind, int], domains: Ints | None
) -> bool:
    """Whether all kinds together ask for more of a resource than all nodes, or a domain, have."""
    wanted = Counter[str]()
    for kind, count in kinds.items():
        wanted.update({name: amount * count for name, amount in kind.requests})
    usable = np.logical_or.reduce([state.ledger.pristine_mask(kind.constraints) for kind in kinds])
    return any(
        amount > _most(np.where(usable, frame.allocatable[:, frame.column[name]], 0), domains)
        for name, amount in wanted.items()
    )


def _most(amounts: Ints, domains: Ints | None) -> int:
    """The sum over all rows, or over the domain that has most."""
    if domains is None:
        return int(amounts.sum(dtype=object)) if len(amounts) else 0
    sums = [int(amounts[domains == at].sum(dtype=object)) for at in range(int(domains.max()) + 1)]
    return max(sums, default=0)


def _too_much(state: State, frame: Frame, kind: Kind, count: int, domains: Ints | None) -> bool:
    at = frame.columns(kind.resources)
    if at is None or not frame.names:
        return True
    columns, amounts = at
    fits = (frame.allocatable[:, columns] // amounts).min(axis=1)
    if kind.one_a_node:
        fits = np.minimum(fits, 1)
    fits = np.where(state.ledger.pristine_mask(kind.constraints), fits, 0)
    if domains is None:
        return int(fits.sum()) < count
    sums = np.bincount(domains[domains >= 0], weights=fits[domains >= 0])
    return bool(max(sums, default=0) < count)
