"""Views for people and programs: where everything stands, and why a gang waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scheduler.core import booking, headroom, planning, quantity, remarks
from scheduler.core.gang import HELD, Gang, Reason, Stage, Status
from scheduler.core.naming import find, title, titles
from scheduler.core.quoting import bounded
from scheduler.core.rooming import is_behind
from scheduler.core.shortfall import Shortage
from scheduler.core.state import State
from scheduler.model import GangKey

Naming = Callable[[GangKey], str]
"""How gangs are called, as :func:`titles` gives it."""


def is_shown(gang: Gang) -> bool:
    """Whether the gang is listed: gangs of one only while they hold something."""
    return not gang.key.pod or bool(gang.count(Status.SEATED) or gang.reserved)


def reason(gang: Gang) -> str:
    """Why the gang is where it is, for people; "" if all is well."""
    life, refusal = gang.life, gang.memory.refusal
    if life is None:
        return ""
    waits = life.stage in (Stage.QUEUED, Stage.BROKEN)
    if waits and refusal is not None and refusal.text != life.text:
        return bounded(f"{life.text}; {refusal.text}".removeprefix("; "))
    return life.text


def places(state: State, gang: Gang) -> list[str]:
    """Nodes on which members sit or have their seats reserved, sorted, one entry a member."""
    seated = [state.pods[uid].node for uid in gang.by_status[Status.SEATED]]
    return sorted(seated + [state.reservations[uid].node for uid in gang.reserved])


def domain(state: State, nodes: Iterable[str]) -> list[str]:
    """The values that all these nodes share, from the broadest level down."""
    paths = {state.topology().path(node) for node in nodes}
    shared: list[str] = []
    for values in zip(*paths, strict=True):
        if len(set(values)) != 1 or values[0] is None:
            break
        shared.append(values[0])
    return shared


def gang_view(state: State, gang: Gang) -> dict[str, Any]:
    """One gang as ``state`` and ``/v1/gangs`` show it."""
    members = [item for item in Status if item is not Status.STALE]
    return {
        "state": gang.stage.value,
        "min": gang.life.min if gang.life else 1,
        "bound": gang.held,
        "members": gang.count(*members),
        "reason": reason(gang),
        "domain": domain(state, places(state, gang)),
        **_warnings(remarks.of(state, gang)),
    }


def _warnings(found: list[str]) -> dict[str, Any]:
    return {"warnings": found} if found else {}


def gangs(state: State) -> list[dict[str, Any]]:
    """All gangs that are shown, by name."""
    shown = [gang for _, gang in sorted(state.gangs.items()) if is_shown(gang)]
    name = titles(state)
    return [gang_row(state, gang, name(gang.key)) for gang in shown]


def gang_row(state: State, gang: Gang, name: str) -> dict[str, Any]:
    """One gang, under its name, as the list of all shows it."""
    return {
        "key": name,
        **gang_view(state, gang),
        "code": gang.life.reason.value if gang.life else "",
        "priority": gang.priority,
        "reserved": len(gang.reserved),
        "nodes": places(state, gang),
    }


def snapshot_state(state: State) -> dict[str, Any]:
    """Gangs, reservations, free room and bound pods, as the ``state`` op of a replay shows them."""
    names = sorted(node.name for node in state.ledger.nodes())
    given_up, name_of = _given_up(state), titles(state)
    shown = {
        "gangs": {
            name_of(key): gang_view(state, gang)
            for key, gang in sorted(state.gangs.items())
            if is_shown(gang)
        },
        "reserved": {name: _reserved(state, name) for name in sorted(state.reserved_on)},
        "free": {name: _free(state, name, given_up) for name in names},
        "bound": {
            pod.key: pod.node
            for pod in sorted(state.pods.values(), key=lambda pod: pod.key)
            if pod.holds_node
        },
    }
    unknown = {name: sorted(uids) for name, uids in sorted(_by_node(state, given_up).items())}
    return shown | ({"unknown": unknown} if unknown else {})


def _given_up(state: State) -> list[str]:
    """Uids of members whose seats were given back while their Bindings may still land."""
    uids = {uid for there in booking.given_up(state).values() for uid in there}
    return sorted(
        uid
        for uid in uids
        if uid not in state.reservations
        and not (uid in state.pods and state.pods[uid].holds_node)
        and state.ledger.where(uid)
    )


def _by_node(state: State, uids: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for uid in uids:
        name = state.pods[uid].key if uid in state.pods else uid
        found.setdefault(state.ledger.where(uid) or "", []).append(name)
    return found


def _free(state: State, name: str, given_up: Iterable[str]) -> dict[str, str]:
    """Free room with reservations subtracted; seats that were given back are free."""
    back: dict[str, int] = {}
    claims = state.ledger.claims(name)
    for claim in (claims[uid] for uid in given_up if uid in claims):
        for resource, amount in claim.resources.items():
            back[resource] = back.get(resource, 0) + amount
    return {
        resource: quantity.format(resource, amount)
        for resource, amount in sorted(state.ledger.free(name, back).items())
    }


def _reserved(state: State, node: str) -> dict[str, dict[str, int | str]]:
    pods = sorted((state.pods[uid] for uid in state.reserved_on[node]), key=lambda pod: pod.key)
    return {pod.key: _amounts(state, pod.requests) for pod in pods}


def _amounts(state: State, requests: Mapping[str, int]) -> dict[str, int | str]:
    return {
        name: amount if state.is_accelerator(name) else quantity.format(name, amount)
        for name, amount in sorted(requests.items())
        if name != "pods"
    }


def nodes(state: State) -> list[dict[str, Any]]:
    """Every node, by name, as :func:`node_row` shows it."""
    name_of = titles(state)
    return [
        node_row(state, name, name_of)
        for name in sorted(node.name for node in state.ledger.nodes())
    ]


def node_row(state: State, name: str, name_of: Naming) -> dict[str, Any]:
    """A node with its path, its accelerators, and which gangs hold how many of them."""
    node = state.node(name)
    assert node is not None
    return {
        "name": name,
        "path": list(state.topology().path(name)),
        "ready": node.ready,
        "cordoned": node.unschedulable,
        **_accelerators(state, name, name_of),
    }


def _accelerators(state: State, name: str, name_of: Naming) -> dict[str, Any]:
    node = state.node(name)
    have = node.allocatable if node else {}
    by_gang: dict[str, int] = {}
    used = reserved = 0
    for uid, claim in sorted(state.ledger.claims(name).items()):
        count = sum(n for key, n in claim.resources.items() if state.is_accelerator(key))
        if not count:
            continue
        if uid in state.reservations:
            reserved += count
        else:
            used += count
        gang = state.gang_of.get(uid)
        key = name_of(gang) if gang is not None else "other"
        by_gang[key] = by_gang.get(key, 0) + count
    total = sum(n for key, n in have.items() if state.is_accelerator(key))
    return {
        "gpus": total,
        "used": used,
        "reserved": reserved,
        "gangs": dict(sorted(by_gang.items())),
    }


def levels(state: State) -> list[str]:
    """The label keys of the levels in use, broadest first."""
    return list(state.topology().levels)


def why(state: State, text: str) -> dict[str, Any] | None:
    """Why a gang waits: only what is known, never a guess. None if there is no such gang."""
    gang = find(state, text)
    return why_of(state, gang) if gang is not None else None


def why_of(state: State, gang: Gang) -> dict[str, Any] | None:
    """Why this gang waits; None before it was judged at all."""
    if gang.life is None:
        return None
    found: dict[str, Any] = {
        "gang": title(state, gang.key),
        "state": gang.stage.value,
        "never": gang.life.reason in (Reason.NEVER, Reason.FAULT),
        "reason": reason(gang),
        **_warnings([*remarks.of(state, gang), *_meagre(state, gang), *_avoided(state, gang)]),
    }
    if gang.stage in (Stage.FORMING, Stage.INVALID):
        return found | _who_is_missing(state, gang)
    if gang.stage in (Stage.QUEUED, Stage.BROKEN):
        return found | _what_is_short(state, gang)
    return found


def _meagre(state: State, gang: Gang) -> list[str]:
    """Members that ask for too little beside their accelerators, if any."""
    pods = [state.pods[uid] for uid in gang.members if uid in state.pods]
    return headroom.warnings(pods, state.is_accelerator)


def _avoided(state: State, gang: Gang) -> list[str]:
    """Nodes that a gang without room does not get although they are Ready, if any. O(nodes)."""
    if gang.stage not in (Stage.QUEUED, Stage.BROKEN):
        return []
    nodes = sorted((node.name, node.avoid) for node in state.ledger.nodes() if node.avoid)
    if not nodes:
        return []
    (name, cause), more = nodes[0], len(nodes) - 1
    also = f"; so are {more} more" if more > 1 else f"; so is {more} more" if more else ""
    return [bounded(f"node {name} is avoided: {cause}{also}")]


def _who_is_missing(state: State, gang: Gang) -> dict[str, Any]:
    found: dict[str, Any] = {}
    lacking = gang.lacking(*HELD, Status.WAITING)
    if gang.stage is Stage.FORMING and lacking > 0:
        found["missing_pods"] = lacking
    for item in (Status.GATED, Status.LEAVING, Status.FAILED):
        if gang.count(item):
            found[item.value] = sorted(state.pods[uid].key for uid in gang.by_status[item])
    faulty = (state.pods[uid] for uid in gang.by_status[Status.FAULTY])
    faults = {pod.key: bounded(pod.unplannable) for pod in faulty}
    return found | ({"faults": dict(sorted(faults.items()))} if faults else {})


def _what_is_short(state: State, gang: Gang) -> dict[str, Any]:
    short = planning.shortage(state, gang)
    if short is None:
        return {}
    found: dict[str, Any] = {"never": short.never, **shortage_view(state, short)}
    # Said anew, so that the words and the numbers are of the same moment.
    partly = gang.life.text if gang.life and gang.stage is Stage.BROKEN else ""
    found["reason"] = bounded(f"{partly}; {short.text}".removeprefix("; "))
    if not short.never:
        found["blocked_by"] = blockers(state, gang)
    return {key: value for key, value in found.items() if value not in ({}, [])}


def shortage_view(state: State, short: Shortage) -> dict[str, Any]:
    """What is short, in which level, and where the most members fit; only what is known."""
    found: dict[str, Any] = {"short_by": amounts(state, short.short_by)}
    if short.level is not None:
        found["level"] = short.level.rpartition("/")[2]
    if short.best_domain is not None:
        found["best_domain"] = list(short.best_domain)
    if short.fits is not None:
        found["fits_in_best"] = short.fits
    return found


def amounts(state: State, amounts: Iterable[tuple[str, int]]) -> dict[str, int | str]:
    """Amounts for people: accelerators as numbers, others as quantities."""
    return {
        name: amount if state.is_accelerator(name) else quantity.format(name, amount)
        for name, amount in amounts
    }


def blockers(state: State, gang: Gang) -> list[str]:
    """Gangs that hold accelerators, or seats of which are kept, by name."""
    wanted = {
        name
        for uid in gang.by_status[Status.WAITING]
        for name in state.pods[uid].requests
        if state.is_accelerator(name)
    }
    name = titles(state)
    return [
        name(key)
        for key, other in sorted(state.gangs.items())
        if key != gang.key and (_keeps(state, gang, other) or _holds(state, other, wanted))
    ]


def _keeps(state: State, gang: Gang, other: Gang) -> bool:
    """Whether room is kept for the other one, which this one may not take."""
    behind = state.kept is not None and state.kept.gang == other.key and is_behind(state, gang)
    return bool(other.memory.lost or other.memory.ahead) or behind


def _holds(state: State, gang: Gang, wanted: set[str]) -> bool:
    holders = [*gang.by_status[Status.SEATED], *gang.by_status[Status.LEAVING], *gang.reserved]
    return any(
        wanted & set(state.pods[uid].requests) and state.ledger.where(uid) for uid in holders
    )
