"""What must hold after every event of a random run, and once all has come to rest.

I1 to I6 are the invariants of the case collection: no over-booking, no half gangs at rest, no
reservations for ghosts, the same answer twice, no node that was not offered, no exception.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.core import engine, explain, feasibility, planning, probing
from scheduler.core.gang import Status
from scheduler.core.gates import OWN
from scheduler.core.hints import rank_of
from scheduler.core.kinds import HOSTNAME
from scheduler.core.messages import (
    Bind,
    Cancel,
    Effect,
    Event,
    Filter,
    Nominate,
    Preempt,
    Prioritize,
    Record,
    Tick,
    Wake,
)
from scheduler.core.queue import order
from scheduler.core.state import Reservation, State
from scheduler.core.topology import Topology
from scheduler.model import Node, Phase, Pod

if TYPE_CHECKING:
    from .trial import Trial


SAMPLED = 12
"""Every so many events it is asked whether somebody waits who could start; that takes a copy."""


@dataclass(frozen=True, slots=True)
class Look:
    """What is compared before and after an event."""

    over: frozenset[str]
    """Nodes on which more is bound, reserved or on its way than they have."""
    seats: Mapping[str, Reservation]
    """Uid -> its reservation."""
    expired: int


def holds(pod: Pod) -> bool:
    """Whether a pod takes room on its node; the oracle's own reading of the rule."""
    return pod.node != "" and pod.phase not in (Phase.SUCCEEDED, Phase.FAILED)


def may_be_bound(pod: Pod) -> bool:
    """Whether the API server would accept a Binding of the pod, Muster's own gate being lifted."""
    ended = pod.phase in (Phase.SUCCEEDED, Phase.FAILED)
    return not (pod.node or set(pod.gates) - {OWN} or pod.deleting or ended)


def look(trial: Trial) -> Look:
    """The books before an event."""
    state = trial.state
    full = frozenset(name for name in trial.nodes if over(trial, name))
    return Look(full, dict(state.reservations), state.expired)


def new_seats(state: State, before: Look) -> dict[str, Reservation]:
    """Uid -> reservation, of those made since; one given back and made again counts."""
    return {
        uid: item for uid, item in state.reservations.items() if before.seats.get(uid) is not item
    }


def over(trial: Trial, name: str) -> dict[str, int]:
    """By how much a node is over-committed, recomputed from the world."""
    used: dict[str, int] = {}
    for pod in committed(trial, name):
        for resource, amount in pod.requests.items():
            used[resource] = used.get(resource, 0) + amount
    have = trial.nodes[name].allocatable
    return {
        key: units - have.get(key, 0) for key, units in used.items() if units > have.get(key, 0)
    }


def committed(trial: Trial, name: str) -> list[Pod]:
    """Pods that hold a node, have it reserved, or may be bound to it by a Binding on its way."""
    pods, state = trial.pods, trial.state
    here = {uid for uid, pod in pods.items() if pod.node == name and holds(pod)}
    here |= {uid for uid, item in state.reservations.items() if item.node == name and uid in pods}
    here |= {
        effect.ref.uid
        for effect in trial.open.values()
        if isinstance(effect, Bind) and effect.node == name and _may_land(trial, effect.ref.uid)
    }
    return [pods[uid] for uid in here if uid in pods and pods[uid].node in ("", name)]


def _may_land(trial: Trial, uid: str) -> bool:
    return uid in trial.pods and may_be_bound(trial.pods[uid])


def check(
    trial: Trial, before: Look, event: Event, done: engine.Step, outside: Sequence[str]
) -> None:
    """All invariants after one event."""
    state = trial.state
    if isinstance(event, Filter | Prioritize | Preempt):
        # That a scheduler ignores nominations shows in its own calls, and is told there and then.
        other = [effect for effect in done.effects if not _tells_of_nominations(effect)]
        assert not other, f"a look-up leads to {other}"
    late = state.ending and trial.now < state.ending_until
    assert not state.synced or late or state.planned_at == state.gains, "a gain is not followed up"
    _nothing_is_sent_in_circles(done)
    _no_overbooking(trial, before, outside)
    _no_ghosts(trial)
    _pods_are_known(trial)
    _network_is_known(trial)
    _books_agree(state)
    _rolls_agree(state)
    _seats_are_usable(trial, before)
    _nobody_is_where_it_is_kept_off(trial, before)
    _whole_when_started(trial, done)
    _domains_hold(trial, before)
    _ranks_differ(trial)
    _seats_are_timely(trial, before, event)
    if state.expired > before.expired:
        trial.harmed.update(state.gangs)
    _note_takeovers(trial, before)
    trial.harmed.intersection_update({trial.gang_of(pod) for pod in trial.pods.values()})
    if not trial.listing and len(trial.steps) % SAMPLED == 0:
        nobody_is_forgotten(state, trial.now)


def _tells_of_nominations(effect: Effect) -> bool:
    return isinstance(effect, Record) and effect.reason == probing.IGNORED


# ── I1, I3 ──


def _no_overbooking(trial: Trial, before: Look, outside: Sequence[str]) -> None:
    for name in trial.nodes:
        excess = over(trial, name)
        if not excess:
            continue
        names = [pod.name for pod in committed(trial, name)]
        if name not in before.over and name not in outside:
            raise AssertionError(f"I1: {name} is over-booked by {excess}: {names}")
        for uid, item in new_seats(trial.state, before).items():
            asked = excess.keys() & trial.state.pods[uid].requests.keys()
            new = item.node == name and asked
            assert not new, f"I1: {uid} gets a seat on {name}, over by {excess}: {names}"


def _no_ghosts(trial: Trial) -> None:
    for uid in trial.state.reservations:
        assert uid in trial.pods or uid in trial.late, f"I3: a reservation for {uid}, which is gone"
        pod = trial.state.pods[uid]
        assert may_be_bound(pod), f"a reservation for {pod}"


def _pods_are_known(trial: Trial) -> None:
    """The engine knows the pods that the watch has shown, and no others."""
    known = set(trial.state.pods)
    if trial.listing:
        return
    assert known - set(trial.late) <= set(trial.pods), "pods are remembered that are gone"
    assert set(trial.pods) - set(trial.late) <= known, "pods are forgotten that exist"


def _network_is_known(trial: Trial) -> None:
    """Levels and domains are those of the nodes and of the objects that there are now."""
    state, charts = trial.state, trial.charts
    if trial.listing or not trial.kit.charts:
        return
    assert state.charts == charts, "objects that describe the network are missed or kept"
    nodes, hosts = list(state.ledger.nodes()), bool(state.host_askers)
    known = Topology.of(nodes, state.settings.levels, charts.values(), hosts=hosts)
    assert state.topology().levels == known.levels
    for node in nodes:
        assert state.topology().path(node.name) == known.path(node.name), f"{node.name} has moved"


# ── the books ──


def _books_agree(state: State) -> None:
    """The ledger's sums and arrays against sums made from scratch, and every claim's reason."""
    expected: dict[str, dict[str, int]] = {}
    names = {node.name for node in state.ledger.nodes()} | {pod.node for pod in state.pods.values()}
    names |= {state.ledger.where(uid) or "" for uid in state.pods}
    for name in names:
        sums = expected.setdefault(name, {})
        for uid, claim in state.ledger.claims(name).items():
            assert _reason_for(state, uid, name), f"{uid} claims {name} for no reason"
            for resource, amount in claim.resources.items():
                sums[resource] = sums.get(resource, 0) + amount
        assert dict(state.ledger.used(name)) == sums
    for uid, pod in state.pods.items():
        if holds(pod):
            assert state.ledger.where(uid) == pod.node, f"{pod.name} holds {pod.node} unbooked"
    for uid, item in state.reservations.items():
        assert state.ledger.where(uid) == item.node, f"{uid} is reserved on {item.node} unbooked"
    _arrays_agree(state, expected)


def _reason_for(state: State, uid: str, name: str) -> bool:
    pod = state.pods.get(uid)
    if pod is not None and holds(pod):
        return pod.node == name
    if uid in state.reservations:
        return state.reservations[uid].node == name
    flying = any(item.ref.uid == uid for item in state.open.values() if item.kind == "bind")
    doubtful = uid in state.doubts or uid in state.passed
    return flying or doubtful or (pod is not None and pod.nominated == name)


def _arrays_agree(state: State, used: Mapping[str, Mapping[str, int]]) -> None:
    frame = state.ledger.frame()
    assert list(frame.names) == sorted(node.name for node in state.ledger.nodes())
    for node in state.ledger.nodes():
        row = frame.row[node.name]
        for resource, column in frame.column.items():
            have = node.allocatable.get(resource, 0)
            left = max(0, have - used.get(node.name, {}).get(resource, 0))
            assert frame.free[row, column] == left, f"free {resource} of {node.name}"
            assert frame.allocatable[row, column] == have


def _rolls_agree(state: State) -> None:
    """Every pod is on one roll of one gang; the indexes say what the rolls say."""
    for key, gang in state.gangs.items():
        uids = [uid for roll in gang.by_status.values() for uid in roll]
        assert len(uids) == len(set(uids)), f"a pod is twice in {key}"
        assert all(state.gang_of.get(uid) == key for uid in uids), f"strangers in {key}"
        counted = len(uids) - len(gang.by_status[Status.STALE])
        assert gang.priorities.total() == gang.declared.total() == counted
        assert set(gang.reserved) == {
            uid for uid, item in state.reservations.items() if item.gang == key
        }
        waiting = gang.by_status[Status.WAITING]
        assert set(gang.reserved) <= set(waiting), f"{key} has seats for members that do not wait"
    assert set(state.gang_of) == {
        uid for gang in state.gangs.values() for roll in gang.by_status.values() for uid in roll
    }
    on_nodes = {(uid, name) for name, uids in state.reserved_on.items() for uid in uids}
    assert on_nodes == {(uid, item.node) for uid, item in state.reservations.items()}
    assert set(state.wanting) <= set(state.gangs)
    if state.synced:
        queue = order(state.gangs[key] for key in state.wanting)
        assert list(state.wanting) == [gang.key for gang in queue], "the queue is out of order"
    assert set(state.broken) <= set(state.gangs)
    assert set(state.binding.values()) <= set(state.open)


def _nothing_is_sent_in_circles(done: engine.Step) -> None:
    """One step may send a pod somewhere and then, all considered, elsewhere; not more."""
    sent = Counter(
        (type(effect).__name__, effect.ref.uid)
        for effect in done.effects
        if not isinstance(effect, Record | Cancel)
    )
    often = {what: times for what, times in sent.items() if times > 2}
    assert not often, f"the same again and again in one step: {often}"


# ── what a reservation must be ──


def _seats_are_usable(trial: Trial, before: Look) -> None:
    for uid, item in new_seats(trial.state, before).items():
        node = trial.nodes.get(item.node)
        assert node is not None, f"{uid} got a seat on {item.node}, which is gone"
        why = feasibility.verdict(trial.state.pods[uid].constraints, node)
        assert not why, f"{uid} got a seat on {item.node}: {why}"
        ports = trial.state.pods[uid].constraints.ports
        others = [pod for pod in committed(trial, item.node) if pod.uid != uid]
        clash = any(feasibility.ports_clash(ports, pod.constraints.ports) for pod in others)
        assert not clash, f"{uid} got a seat on {item.node}, where its port is taken"


def _nobody_is_where_it_is_kept_off(trial: Trial, before: Look) -> None:
    """No new seat is in a domain that anti-affinity shuts, by own terms or those of other gangs."""
    state = trial.state
    if not trial.kit.apps:
        return
    for uid, item in new_seats(state, before).items():
        pod, node = state.pods[uid], trial.nodes[item.node]
        for other in state.pods.values():
            there = state.node(state.ledger.where(other.uid) or "")
            if there is None or state.gang_of.get(other.uid) == item.gang:
                continue
            holds_rules = other.holds_node or other.uid in state.reservations
            terms = [(pod, other, term) for term in pod.anti_affinity]
            terms += [(other, pod, term) for term in other.anti_affinity if holds_rules]
            for one, whom, term in terms:
                near = _value(node, term.topology_key) == _value(there, term.topology_key) != ""
                keeps_off = feasibility.anti_affinity_matches(
                    term, one.namespace, whom.namespace, whom.labels
                )
                assert not (near and keeps_off), f"{uid} on {node.name} is beside {other.uid}"


def _value(node: Node, key: str) -> str:
    return node.name if key == HOSTNAME else node.labels.get(key, "")


def _seats_are_timely(trial: Trial, before: Look, event: Event) -> None:
    """No seat outlives its gang's time-out."""
    state = trial.state
    for uid in new_seats(state, before):
        trial.seated_at[uid] = trial.now
    if not isinstance(event, Tick):
        return
    for uid, item in state.reservations.items():
        life = state.gangs[item.gang].life
        stated = life.options.timeout if life else None
        limit = stated if stated is not None else state.settings.timeout_s
        made = trial.seated_at[uid]
        assert trial.now < made + limit, f"{uid} keeps its seat of {made} at {trial.now}"


def _whole_when_started(trial: Trial, done: engine.Step) -> None:
    """No member of a fresh gang is sent anywhere unless min members have a seat (I2, at once)."""
    sent = {item.ref.uid for item in done.effects if isinstance(item, Bind | Nominate | Wake)}
    for key in {trial.state.reservations[uid].gang for uid in sent & set(trial.state.reservations)}:
        gang = trial.state.gangs[key]
        if gang.life is not None and not gang.memory.admitted and not gang.held:
            assert len(gang.reserved) >= gang.life.least, f"{key} starts with too few"


def _domains_hold(trial: Trial, before: Look) -> None:
    """New seats of a gang with a requirement are in one domain, that of its living members."""
    state = trial.state
    new = new_seats(state, before)
    for key in {state.reservations[uid].gang for uid in new}:
        gang = state.gangs[key]
        level = state.topology().resolve(gang.life.options.required) if gang.life else None
        if level is None or gang.memory.relaxed:
            continue
        there = [state.reservations[uid].node for uid in gang.reserved]
        seats = {
            _domain(state, state.reservations[uid].node, level)
            for uid in gang.reserved
            if uid in new
        }
        living = {
            _domain(state, state.pods[uid].node, level) for uid in gang.by_status[Status.SEATED]
        }
        living |= {_domain(state, node, level) for node in there} - seats
        assert None not in seats, f"{key} has seats in no domain"
        assert len(seats) == 1 or seats <= living, f"{key} is in {seats}, its members in {living}"
        if living - {None}:
            assert seats <= living, f"{key} has seats in {seats}, its members are in {living}"


def _domain(state: State, node: str, level: int) -> tuple[str | None, ...] | None:
    """The values down to a level; None where one is missing."""
    path = state.topology().path(node)[: level + 1]
    return None if None in path else path


def _ranks_differ(trial: Trial) -> None:
    state = trial.state
    for key, gang in state.gangs.items():
        ranks = [rank_of(state.pods[uid].hint) for uid in gang.by_status[Status.SEATED]]
        ranks += [state.reservations[uid].rank for uid in gang.reserved]
        given = sorted(rank for rank in ranks if rank is not None)
        assert len(given) == len(set(given)), f"{key} has ranks {given}"


def _note_takeovers(trial: Trial, before: Look) -> None:
    """A gang that lost seats to another one in this step may be left with less than min."""
    state = trial.state
    gained = {item.gang for item in new_seats(state, before).values()}
    for uid in before.seats.keys() - state.reservations.keys():
        key = state.gang_of.get(uid)
        pod = state.pods.get(uid)
        if key is not None and pod is not None and not pod.node and gained - {key}:
            trial.harmed.add(key)


# ── at rest ──


def check_rest(trial: Trial) -> None:
    """I2, no leaks, and nobody waits who could start."""
    state = trial.state
    assert not state.reservations, "seats are left that nobody takes"
    assert not state.binding
    assert not state.awaited
    assert not state.doubts
    bound = {uid: pod.node for uid, pod in trial.pods.items() if holds(pod)}
    assert {uid: pod.node for uid, pod in state.pods.items() if holds(pod)} == bound
    for name in trial.nodes:
        nominated = {
            uid
            for uid, pod in trial.pods.items()
            if pod.nominated == name and not pod.node and pod.namespace == "other"
        }
        held = {uid for uid, node in bound.items() if node == name} | nominated
        assert set(state.ledger.claims(name)) == held, f"room on {name} leaks"
    _no_half_gangs(trial)
    nobody_is_forgotten(state, trial.now)
    restart_changes_nothing(trial)


def _no_half_gangs(trial: Trial) -> None:
    for key, gang in trial.state.gangs.items():
        if key in trial.harmed or gang.life is None or gang.memory.admitted:
            continue
        assert not 0 < gang.held < gang.life.least, f"I2: {key} has {gang.held} members"


def _is_of_alike(state: State, uid: str) -> bool:
    """Whether all members of the pod's gang ask for the same."""
    key = state.gang_of.get(uid)
    members = state.gangs[key].members if key is not None else [uid]
    return len({planning.kind_of(state.pods[member]) for member in members}) == 1


def _copy_of(state: State) -> State:
    """A copy to try things on. What never changes is shared: copying it takes most of the time."""
    gangs = state.gangs.values()
    shared: list[object] = [state.settings, state.topology_kept, state.cliques_kept]
    shared += [*state.pods.values(), *state.groups.values(), *state.ledger.nodes()]
    shared += [item for gang in gangs for item in (gang.life, gang.terms, gang.memory.refusal)]
    shared += [options for gang in gangs for options in gang.declared]
    shared += [*state.asks, *state.refused.values(), *state.gangs, *state.passed.values()]
    return copy.deepcopy(state, {id(item): item for item in shared if item is not None})


def nobody_is_forgotten(state: State, now: float) -> None:
    """If all that wait are asked afresh, nobody starts who did not start by himself.

    Gangs of unlike members are left out: their placement is no exact search (`core/roles.py` says
    how often it misses), and may find with less room what it missed with more.
    """
    fresh = _copy_of(state)
    due = fresh.next_due()
    if due is not None and due <= now:
        return  # what comes due at this very moment has not been done yet
    fresh.gains += 1
    fresh.refused.clear()
    for gang in fresh.gangs.values():
        if gang.memory.refusal is not None:
            gang.memory.refusal = replace(gang.memory.refusal, bottleneck=None)
    done = engine.step(fresh, Tick(), now)
    sent = [
        item
        for item in done.effects
        if isinstance(item, Bind | Nominate | Wake) and _is_of_alike(state, item.ref.uid)
    ]
    assert not sent, f"could have started before: {sent}"


def restart_changes_nothing(trial: Trial) -> None:
    """What is bound and what is free can be read from the API alone."""
    fresh = engine.new_state(trial.kit.settings)
    for event in trial.listed():
        engine.step(fresh, event, 0.0)
    before, after = explain.snapshot_state(trial.state), explain.snapshot_state(fresh)
    assert after["bound"] == before["bound"]
    assert after["free"] == before["free"]
