"""Answers to the scheduler's calls: look-ups in what was planned, never plans of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.core import booking, gates, probing, starting
from scheduler.core.gang import Gang, Reason, Stage
from scheduler.core.messages import (
    Bind,
    BindCall,
    BindReply,
    Filter,
    FilterReply,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
)
from scheduler.core.quoting import bounded
from scheduler.core.rooming import is_behind
from scheduler.core.roster import gang_key
from scheduler.core.state import PASSED_LIMIT, State, Turn
from scheduler.model import GangKey, Pod, PodRef, Resources, Start

HOLD_KEY = "muster"
"""The one made-up node name that carries the reason for all nodes."""

ARRIVING_S = 0.3
"""Pods that come no further apart than this, in seconds, are still being made one by one."""

TOLD_FOR_S = 60.0
"""Seconds that a hold's text stays as it is: each change of it wakes the pod."""

_PERMANENT = (Reason.NEVER, Reason.FAULT, Reason.GROUP_MISSING)
TOP = 10
"""The highest score that a scheduler takes from an extender."""


# ── filter ──


def on_filter(turn: Turn, call: Filter) -> FilterReply:
    """Which of the offered nodes the pod may use."""
    state = turn.state
    pod = state.pods.get(call.ref.uid) or call.pod
    if pod is None:
        return _unresolvable(f"pod {call.ref} is not known; it may have been deleted")
    key = state.gang_of.get(pod.uid) if pod.uid in state.pods else gang_key(state, pod)
    if key is None:
        return _plain(state, pod, call.names)
    if not state.synced:
        return _unresolvable("Muster is starting and does not know the cluster yet")
    gang = state.gangs.get(key)
    if gang is None or pod.uid not in state.pods:
        return _unseen(state, call)
    return _member(turn, gang, pod, call.names)


def _unseen(state: State, call: Filter) -> FilterReply:
    """A member that is not on any roll; of one that is gone nothing more will be shown."""
    if call.ref.uid in state.gone:
        return _unresolvable(f"pod {call.ref} has been deleted, as Muster's watch has shown")
    text = f"pod {call.ref} is too new: Muster's watch has not shown it yet"
    return _unresolvable(text, unsettled=True)


def _unresolvable(reason: str, *, unsettled: bool = False) -> FilterReply:
    return FilterReply((), {}, {HOLD_KEY: bounded(reason)}, unsettled)


def _plain(state: State, pod: Pod, names: Sequence[str]) -> FilterReply:
    """A pod of no gang and without accelerators passes; only full reserved nodes are taken out."""
    if pod.uid not in state.pods:
        if len(state.passed) >= PASSED_LIMIT:
            state.passed.pop(next(iter(state.passed)))
        state.passed[pod.uid] = pod
    tight = _tight_nodes(state, pod)
    if not tight:
        return FilterReply(names, {}, {})
    failed = {name: tight[name] for name in names if name in tight}
    left = [name for name in names if name not in tight]
    if not left:
        state.turned_away[pod.uid] = None
    return FilterReply(left, failed, {})


def _tight_nodes(state: State, pod: Pod) -> dict[str, str]:
    """Nodes whose last room is reserved for a gang that starts, or may yet be taken by one."""
    if not state.synced or state.ledger.where(pod.uid):
        return {}
    tight = {
        name: "a Binding that was given up may still land there"
        for name, uids in booking.given_up(state).items()
        if not state.ledger.has_room(name, _with_unbooked(state, pod, name, uids))
    }
    return tight | {
        name: "room is reserved for a gang that starts now"
        for name in state.reserved_on
        if not state.ledger.has_room(name, pod.requests)
    }


def _with_unbooked(state: State, pod: Pod, node: str, uids: Iterable[str]) -> Resources:
    """What the pod asks for, and with it those that may land there and are booked elsewhere."""
    asked = Counter(pod.requests)
    for uid in uids:
        if uid in state.pods and state.ledger.where(uid) != node:
            asked.update(state.pods[uid].requests)
    return asked


def _member(turn: Turn, gang: Gang, pod: Pod, names: Sequence[str]) -> FilterReply:
    where = pod.node
    reservation = turn.state.reservations.get(pod.uid)
    if not where and reservation is not None:
        where = reservation.node
        nominated = reservation.how is Start.NOMINATE
        if where in names and (len(names) == 1 or not nominated):
            reservation.called = True
    if not where:
        return _hold(turn, gang, pod, names)
    unsettled = _is_being_bound(turn.state, gang)
    if reservation is not None and (len(names) == 1 or not unsettled):
        # One call whose answer is unsettled is asked many times: it proves no more than one.
        probing.called(turn, gang, reservation, names)
    if where in names:
        return FilterReply((where,), {}, {}, unsettled)
    reason = f"gang {gang.key}: this pod has its place on {where}"
    return FilterReply((), dict.fromkeys(names, reason), {}, unsettled)


def _hold(turn: Turn, gang: Gang, pod: Pod, names: Sequence[str]) -> FilterReply:
    if pod.unplannable:
        return _unresolvable(f"pod {pod.key} cannot be used: {pod.unplannable}")
    reason, text = _told(turn, gang)
    stage = gang.stage
    if stage in (Stage.FORMING, Stage.INVALID) or reason in _PERMANENT:
        return _unresolvable(text, unsettled=_is_arriving(turn, gang))
    unknown = {name: f"node {name} is not known" for name in names if not turn.state.node(name)}
    return FilterReply((), {**dict.fromkeys(names, text), **unknown}, {})


def _is_arriving(turn: Turn, gang: Gang) -> bool:
    """Whether the gang's other members are being made just now."""
    forms = gang.life is not None and gang.life.reason is Reason.TOO_FEW
    return forms and turn.now - gang.joined_at < ARRIVING_S


def _is_being_bound(state: State, gang: Gang) -> bool:
    """Whether Muster is at binding the gang's members: the scheduler could only get in the way."""
    return next(iter(gang.reserved), None) in state.binding


def _told(turn: Turn, gang: Gang) -> tuple[Reason, str]:
    """The hold's reason and text; the text stays for a while, whatever the numbers do."""
    reason, text = _current(turn.state, gang)
    told = gang.memory.told
    if told is not None and told[0] is reason and turn.now - told[2] < TOLD_FOR_S:
        return reason, told[1]
    text = bounded(f"gang {gang.key}: {text}")
    gang.memory.told = (reason, text, turn.now)
    return reason, text


def _current(state: State, gang: Gang) -> tuple[Reason, str]:
    life, refusal = gang.life, gang.memory.refusal
    if life is None:
        return Reason.NONE, "is being looked at"
    kept = _kept_by(state, gang)
    if refusal is not None and life.stage in (Stage.QUEUED, Stage.BROKEN, Stage.RUNNING):
        text = (
            f"{life.text}; {refusal.text}" if life.text not in ("", refusal.text) else refusal.text
        )
        return refusal.reason, text + kept
    return life.reason, (life.text or "waits for its turn") + kept


def _kept_by(state: State, gang: Gang) -> str:
    """Which gang keeps room from this one: a broken one, or one that has waited long."""
    keepers = sorted(
        key
        for key in state.broken
        if key != gang.key and state.gangs[key].priority >= gang.priority
    )
    if state.kept is not None and is_behind(state, gang):
        keepers.append(state.kept.gang)
    if not keepers:
        return ""
    # Everyone who may read the namespace's Events reads this, and may know no other namespace.
    known = [f"gang {key}" for key in keepers if key.namespace == gang.key.namespace]
    return f"; capacity is kept for {[*known, 'a gang of another namespace'][0]}"


# ── prioritize ──


def on_prioritize(turn: Turn, call: Prioritize) -> PrioritizeReply:
    """A score 0..10 for every offered node; higher packs tighter."""
    state = turn.state
    pod = state.pods.get(call.ref.uid) or call.pod
    if pod is None:
        return PrioritizeReply(dict.fromkeys(call.names, 0))
    reservation = state.reservations.get(pod.uid)
    where = pod.node or (reservation.node if reservation else "")
    if where:
        return PrioritizeReply({name: TOP if name == where else 0 for name in call.names})
    return PrioritizeReply({name: _score(state, pod, name) for name in call.names})


def _score(state: State, pod: Pod, name: str) -> int:
    """0 where the pod does not fit; else the tighter the higher, and best without accelerators.

    A pod that asks for none takes the processors and the memory that accelerators need: it scores
    lower the more of them are free, and highest where there are none at all.
    """
    node = state.node(name)
    if node is None or not state.ledger.has_room(name, pod.requests, pod.constraints.ports):
        return 0
    total = sum(n for key, n in node.allocatable.items() if state.is_accelerator(key))
    if not total:
        return TOP
    free = sum(n for key, n in state.ledger.free(name).items() if state.is_accelerator(key))
    asked = state.accelerators(pod)
    return max(1, (TOP if asked else TOP - 1) - (TOP * (free - asked)) // total)


# ── bind ──


def on_bind(turn: Turn, call: BindCall) -> BindReply | None:
    """Bind the pod, or say why not; None if the answer comes with the Binding's outcome."""
    state, uid = turn.state, call.ref.uid
    pod = state.pods.get(uid) or state.passed.get(uid)
    refusal = _bind_refusal(state, pod, call)
    if refusal is not None:
        return BindReply(call.ref, call.node, refusal)
    assert pod is not None
    if pod.node == call.node:
        return BindReply(call.ref, call.node, "")
    state.awaited[uid] = call.node
    if uid in state.binding:
        return None
    if uid in state.reservations:
        starting.send_bind(turn, state.gangs[state.reservations[uid].gang], pod)
    else:
        _bind_plain(turn, pod, call.node)
    return None


def _bind_refusal(state: State, pod: Pod | None, call: BindCall) -> str | None:
    """Why the call cannot be carried out; None if it can."""
    if pod is None or (pod.namespace, pod.name) != (call.ref.namespace, call.ref.name):
        return f"pod {call.ref} with uid {call.ref.uid} is not known; it may have been replaced"
    if not state.is_ours(pod):
        return f"pod {call.ref} belongs to the scheduler {pod.scheduler}"
    if pod.node and pod.node != call.node:
        return f"pod {call.ref} is bound to {pod.node} already"
    if pod.node:
        return None
    if pod.phase.terminal or pod.deleting or not gates.is_open(pod):
        return f"pod {call.ref} cannot be bound: it has ended, is being deleted or is gated"
    reservation = state.reservations.get(pod.uid)
    if reservation is not None and reservation.node != call.node:
        return f"pod {call.ref} has its place on {reservation.node}, not on {call.node}"
    if reservation is None and state.gang_of.get(pod.uid) is not None:
        return f"pod {call.ref} has no place in a plan; the scheduler will ask again"
    if reservation is None and (tight := _tight_nodes(state, pod).get(call.node)):
        return f"pod {call.ref} cannot be bound to {call.node}: {tight}"
    if state.binding.get(pod.uid) and state.open[state.binding[pod.uid]].node != call.node:
        return f"pod {call.ref} is being bound to {state.open[state.binding[pod.uid]].node}"
    return None


def _bind_plain(turn: Turn, pod: Pod, node: str) -> None:
    """A pod without a gang goes where the scheduler says."""
    state = turn.state
    number = turn.open("bind", pod.ref, node)
    state.binding[pod.uid] = number
    state.ledger.put(pod.uid, node, pod.requests, pod.constraints.ports)
    turn.suspect[node] = None
    key = GangKey(pod.namespace, pod.name, pod=True)
    turn.effects.append(Bind(number, pod.ref, node, {}, key, ""))


# ── preempt ──


def on_preempt(_turn: Turn, _call: Preempt) -> PreemptReply:
    """Evict nobody to make room. What the engine evicts cannot run where it is (starting.evict).

    Echoing the candidates would let an incomplete gang of high priority evict running pods.
    """
    return PreemptReply({})


def unknown(ref: PodRef) -> str:
    """The text for a pod that nobody has seen."""
    return f"pod {ref} is not known"
