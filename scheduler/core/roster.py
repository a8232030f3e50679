"""Which pod belongs to which gang and what room it takes: the bookkeeping of world events."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core import charting, ending, gates, health, membership, usability
from scheduler.core.booking import end_reservation, settle_doubt
from scheduler.core.capacity import Claim
from scheduler.core.gang import Seat, Status, status
from scheduler.core.state import GONE_LIMIT, State, Turn
from scheduler.model import NO_RESOURCES, GangKey, Group, GroupKey, Node, Phase, Pod, Resources

# ── nodes ──


def node_seen(turn: Turn, node: Node) -> None:
    """A node was added or changed."""
    node = health.judged(turn.state, node)
    before = turn.state.ledger.node(node.name)
    if before == node:
        return
    turn.state.ledger.put_node(node)
    turn.state.lost_nodes.pop(node.name, None)
    if usability.helps(before, node):
        turn.state.gains += 1
    elif before is not None and before.allocatable != node.allocatable:
        _choose_anew(turn.state, node.name)
    elif turn.state.choosy and before is not None and before.annotations != node.annotations:
        # It may be known by now which of its GPUs are free.
        turn.state.gain_on(node.name)
    turn.suspect[node.name] = None


def node_gone(turn: Turn, name: str) -> None:
    """A node was deleted."""
    turn.state.ledger.drop_node(name)
    watch_lost(turn, name)
    for uid in turn.state.ledger.claims(name):
        # A gang that had to stay near this member may go elsewhere now.
        _forget_refusal(turn, uid)
        turn.touch(turn.state.gang_of.get(uid))
    _choose_anew(turn.state, name)
    # Without its labels, levels and NVLink domains may mean something else: gangs may fit.
    turn.state.gains += 1
    turn.suspect[name] = None


def _choose_anew(state: State, name: str) -> None:
    """Open the kept nodes if this is one of them: what is left may not be enough any more."""
    if state.kept is not None and name in state.kept.nodes:
        state.kept = None
        state.gains += 1


def watch_lost(turn: Turn, name: str) -> None:
    """Evict a lost node's members after a pause: a node may be registered anew with its pods."""
    state = turn.state
    if state.ledger.claims(name):
        state.lost_nodes.setdefault(name, turn.now + state.settings.node_lost_s)


# ── groups ──


def group_seen(turn: Turn, group: Group) -> None:
    """A PodGroup was added or changed."""
    charting.note_asker(turn, group.key, group.options)
    if turn.state.groups.get(group.key) != group:
        turn.state.groups[group.key] = group
        _reclassify(turn, group.key)


def group_gone(turn: Turn, key: GroupKey) -> None:
    """A PodGroup was deleted."""
    charting.note_asker(turn, key, None)
    if turn.state.groups.pop(key, None) is not None:
        _reclassify(turn, key)


def _reclassify(turn: Turn, key: GroupKey) -> None:
    for uid in list(turn.state.users.get(key, ())):
        pod = turn.state.pods[uid]
        membership.move(turn, pod, gang_key(turn.state, pod))
        note_gate(turn.state, pod)
        gang = turn.state.gang_with(uid)
        if gang is not None:
            gang.terms = gang.memory.refusal = None
            turn.touch(gang.key)
    turn.state.outlook += 1


# ── pods ──


def pod_seen(turn: Turn, pod: Pod) -> None:
    """A pod was added or changed."""
    state = turn.state
    before = state.pods.get(pod.uid)
    if before is not None and before.node:
        # A node name never goes away, so this may be a late event from before the Binding. The hint
        # is what came with the Binding, whatever its owner makes of it later.
        pod = replace(pod, node=pod.node or before.node, hint=before.hint or pod.hint)
    if before == pod:
        return
    namesake = state.by_name.get((pod.namespace, pod.name))
    if namesake is not None and namesake != pod.uid:
        pod_gone(turn, namesake)
    state.pods[pod.uid] = pod
    charting.note_asker(turn, pod.uid, pod.declaration.options if pod.declaration else None)
    state.by_name[pod.namespace, pod.name] = pod.uid
    state.passed.pop(pod.uid, None)
    _list_user(state, before, pod)
    _claim(turn, pod)
    if before is not None and before.labels != pod.labels and state.ledger.where(pod.uid):
        # Those that keep off such pods may have kept off all nodes of its rack.
        state.gains += 1
    if state.choosy and pod.node and before is not None and before.started != pod.started:
        # It may be known by now which GPUs it has, and which are free.
        state.gain_on(pod.node)
    _enrol(turn, before, pod)
    note_gate(state, pod)


def pod_gone(turn: Turn, uid: str) -> None:
    """A pod was deleted; only its uid counts, whatever else the event carried."""
    state = turn.state
    pod = state.pods.pop(uid, None)
    if pod is None:
        return
    _note_end(state, pod)
    charting.note_asker(turn, uid, None)
    if state.by_name.get((pod.namespace, pod.name)) == uid:
        del state.by_name[pod.namespace, pod.name]
    _list_user(state, pod, None)
    if pod.holds_node:
        ending.note(turn, uid)
    _lose_seat(turn, pod)
    membership.strike(turn, pod)
    settle_doubt(turn, uid)
    state.turned_away.pop(uid, None)
    state.gated.pop(uid, None)
    state.stale.pop(uid, None)
    if state.binding.get(uid) is None:
        state.free(uid)
    _keep_off_no_more(state, uid)


def _note_end(state: State, pod: Pod) -> None:
    """Remember that a member is gone about which the scheduler may still ask."""
    if pod.node or pod.uid not in state.gang_of:
        return
    if len(state.gone) >= GONE_LIMIT:
        state.gone.pop(next(iter(state.gone)))
    state.gone[pod.uid] = None


def note_gate(state: State, pod: Pod) -> None:
    """Remember a plain pod behind Muster's own gate: it has nothing to wait for."""
    idle = pod.node or pod.deleting or pod.phase.terminal or not state.is_ours(pod)
    if gates.is_own(pod) and not idle and pod.uid not in state.gang_of:
        state.gated.setdefault(pod.uid, 0.0)
    else:
        state.gated.pop(pod.uid, None)


def gang_key(state: State, pod: Pod) -> GangKey | None:
    """The gang that a pod belongs to; None for plain pods and those of other schedulers."""
    if not state.is_ours(pod):
        return None
    declaration = pod.declaration
    if declaration is not None and declaration.name and _is_gang(state, declaration.group):
        return GangKey(pod.namespace, declaration.name, kind=declaration.kind)
    if pod.fault or state.accelerators(pod):
        return GangKey(pod.namespace, pod.name, pod=True)
    return None


def _is_gang(state: State, group: GroupKey | None) -> bool:
    found = state.groups.get(group) if group is not None else None
    return found is None or found.gang


def _list_user(state: State, before: Pod | None, pod: Pod | None) -> None:
    old = before.declaration.group if before and before.declaration else None
    new = pod.declaration.group if pod and pod.declaration else None
    if old is not None and old != new and before is not None:
        users = state.users[old]
        users.pop(before.uid, None)
        if not users:
            del state.users[old]
    if new is not None and pod is not None:
        state.users.setdefault(new, {})[pod.uid] = None


# ── room ──


def _claim(turn: Turn, pod: Pod) -> None:
    """Book the room that a pod takes: where it is bound, or where a scheduler has nominated it."""
    state = turn.state
    where = pod.node if pod.holds_node else _foreign_nomination(state, pod)
    if where:
        if state.ledger.where(pod.uid) not in (None, where):
            state.gains += 1
        elif _is_less(pod.requests, state.ledger.claims(where).get(pod.uid)):
            state.gain_on(where)
        state.ledger.put(pod.uid, where, pod.requests, pod.constraints.ports)
        turn.suspect[where] = None
        settle_doubt(turn, pod.uid)
    elif not _is_pending_claim(state, pod):
        state.free(pod.uid)
    if pod.holds_node and pod.anti_affinity:
        state.anti[pod.uid] = pod.anti_affinity
    else:
        _keep_off_no_more(state, pod.uid)


def _is_less(asked: Resources, before: Claim | None) -> bool:
    """Whether a pod takes less of anything than it did: it may be resized while it runs."""
    had = before.resources if before is not None else NO_RESOURCES
    return any(amount > asked.get(name, 0) for name, amount in had.items())


def _keep_off_no_more(state: State, uid: str) -> None:
    """Forget a pod's anti-affinity: all nodes of a zone or a rack may be open to others again."""
    if state.anti.pop(uid, None) is not None:
        state.gains += 1


def _foreign_nomination(state: State, pod: Pod) -> str:
    if pod.node or pod.phase.terminal or pod.uid in state.reservations:
        return ""
    return pod.nominated if gang_key(state, pod) is None else ""


def _is_pending_claim(state: State, pod: Pod) -> bool:
    """Whether the claim is a reservation's or a Binding's in flight, and stays."""
    if pod.phase.terminal:
        return False
    return pod.uid in state.reservations or pod.uid in state.binding or pod.uid in state.doubts


def _lose_seat(turn: Turn, pod: Pod) -> None:
    """Keep the room of a lost member for its replacement, where it was bound and alive."""
    gang = turn.state.gang_with(pod.uid)
    if gang is None or not gang.memory.admitted or gang.key.pod or not pod.holds_node:
        return
    if pod.uid in gang.by_status[Status.STALE]:
        return
    until = turn.now + turn.state.settings.grace_s
    gang.memory.lost.append(Seat(pod.node, pod.requests, until))


# ── membership ──


def _enrol(turn: Turn, before: Pod | None, pod: Pod) -> None:
    state = turn.state
    if before is not None and _entry(before) == _entry(pod):
        return
    if before is not None and before.holds_node and pod.phase.terminal:
        ending.note(turn, pod.uid)
        if pod.phase is Phase.FAILED:
            _lose_seat(turn, before)
            if pod.rejected:
                health.strike(turn, pod.node)
                turn.rejected.append(pod)
        state.gains += 1
    if before is not None and _wants(before) != _wants(pod):
        _forget_refusal(turn, pod.uid)
        end_reservation(turn, pod.uid, keep_claim=pod.holds_node)
    membership.move(turn, pod, gang_key(state, pod), before)


def _entry(pod: Pod) -> tuple[object, ...]:
    """All of a pod that matters to its gang: most changes of a running pod change none of it."""
    identity = pod.scheduler, pod.owner, pod.created, pod.unplannable
    # By its labels others keep it off their nodes, before it has one itself.
    labels = None if pod.node else pod.labels
    return status(pod), pod.node, pod.hint, labels, *identity, *_wants(pod)


def _wants(pod: Pod) -> tuple[object, ...]:
    """All of a pod that its placement depends on."""
    wishes = pod.requests, pod.constraints, pod.declaration, pod.index, pod.job, pod.priority
    return *wishes, gates.is_open(pod)


def _forget_refusal(turn: Turn, uid: str) -> None:
    gang = turn.state.gang_with(uid)
    if gang is not None:
        gang.memory.refusal = None
