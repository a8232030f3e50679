"""Reservations: room booked for a pod until it is bound or the room is given back."""

from __future__ import annotations

from scheduler.core import hints
from scheduler.core.gang import Gang
from scheduler.core.messages import Cancel, ClearNomination
from scheduler.core.state import Doubt, Reservation, State, Turn
from scheduler.model import Pod, PodRef, Start


def reserve(turn: Turn, gang: Gang, pod: Pod, node: str, rank: int) -> Reservation:
    """Book room for one member."""
    state = turn.state
    reservation = Reservation(pod.uid, gang.key, node, rank)
    state.reservations[pod.uid] = reservation
    state.reserved_on.setdefault(node, {})[pod.uid] = None
    gang.reserved[pod.uid] = None
    state.ledger.put(pod.uid, node, pod.requests, pod.constraints.ports)
    return reservation


def end_reservation(turn: Turn, uid: str, *, keep_claim: bool) -> Reservation | None:
    """End one reservation; the room is free again unless the pod took it or may still take it."""
    state = turn.state
    reservation = state.reservations.pop(uid, None)
    if reservation is None:
        return None
    on_node = state.reserved_on[reservation.node]
    del on_node[uid]
    if not on_node:
        del state.reserved_on[reservation.node]
    gang = state.gangs[reservation.gang]
    gang.reserved.pop(uid, None)
    gang.retries.pop(uid, None)
    turn.touch(reservation.gang)
    if not keep_claim:
        # The others need not stay near this seat any more, whether its room comes free or not.
        gang.memory.refusal = None
        _give_back(turn, reservation)
    return reservation


def _give_back(turn: Turn, reservation: Reservation) -> None:
    """Free the room, cancel a Binding that is open, clear what was nominated."""
    state, uid = turn.state, reservation.uid
    number = state.binding.get(uid)
    if number is not None:
        # It may have been sent: until its outcome is known the room counts as taken.
        state.ledger.touch(reservation.node)
        state.open[number].orphan = True
        state.open[number].uncertain = reservation.uncertain
        turn.effects.append(Cancel(turn.new_id(), number))
    elif reservation.uncertain and uid in state.pods:
        doubt(turn, uid, reservation.node, reservation.rank)
        state.ledger.touch(reservation.node)
    else:
        state.free(uid)
    pod = state.pods.get(uid)
    if pod is not None and pod.anti_affinity:
        # It kept others off more nodes than its own.
        state.gains += 1
    turn.gave_back = True
    if reservation.how is Start.NOMINATE and pod is not None and not pod.node:
        clear_nomination(turn, pod.ref)


def clear_nomination(turn: Turn, ref: PodRef) -> None:
    """Empty the pod's nominated node, which would keep room from others."""
    turn.effects.append(ClearNomination(turn.open("clear", ref), ref))


def not_cleared(turn: Turn, uid: str) -> None:
    """A nomination stays behind: nobody but Muster takes it away."""
    if uid in turn.state.pods:
        turn.state.stale[uid] = turn.now + turn.state.settings.retry_max_s


def clear_stale(turn: Turn) -> None:
    """Clear again what could not be cleared, unless the pod has its place or a new nomination."""
    state = turn.state
    for uid in [uid for uid, due in state.stale.items() if due <= turn.now]:
        del state.stale[uid]
        pod = state.pods[uid]
        if not pod.node and state.seat_by_nomination(uid) is None:
            clear_nomination(turn, pod.ref)


def doubt(turn: Turn, uid: str, node: str, rank: int | None) -> None:
    """Keep a node shut while a Binding that was given up may still show to have landed."""
    state = turn.state
    state.doubts.setdefault(uid, {})[node] = Doubt(turn.now + state.settings.timeout_s, rank)


def settle_doubt(turn: Turn, uid: str) -> None:
    """Where the pod is has become known: the nodes that were shut for it are open again."""
    if turn.state.doubts.pop(uid, None) is not None:
        turn.state.gains += 1
        turn.gave_back = True


def given_up(state: State) -> dict[str, dict[str, None]]:
    """Node -> uids whose Binding to it was given up and may land all the same."""
    nodes: dict[str, dict[str, None]] = {}
    for effect in state.open.values():
        if effect.orphan:
            nodes.setdefault(effect.node, {})[effect.ref.uid] = None
    for uid, doubted in state.doubts.items():
        for node in doubted:
            nodes.setdefault(node, {})[uid] = None
    return nodes


def ranks_given_up(state: State, gang: Gang) -> dict[str, list[int | None]]:
    """Uid -> ranks of its Bindings that were given up, with one of which it may yet be bound."""
    ranks: dict[str, list[int | None]] = {}
    for effect in state.open.values():
        if effect.orphan and state.gang_of.get(effect.ref.uid) == gang.key:
            ranks.setdefault(effect.ref.uid, []).append(hints.rank_of(effect.hint))
    for uid, nodes in state.doubts.items():
        if state.gang_of.get(uid) == gang.key:
            ranks.setdefault(uid, []).extend(doubted.rank for doubted in nodes.values())
    return ranks


def end_doubts(turn: Turn) -> None:
    """Believe after a while that a Binding never landed."""
    state = turn.state
    over = [
        (uid, node)
        for uid, nodes in state.doubts.items()
        for node, doubted in nodes.items()
        if doubted.until <= turn.now
    ]
    for uid, node in over:
        del state.doubts[uid][node]
        if not state.doubts[uid]:
            del state.doubts[uid]
        state.gains += 1
        turn.gave_back = True
        if state.ledger.where(uid) == node and not _is_there(turn, uid):
            state.ledger.drop(uid)


def _is_there(turn: Turn, uid: str) -> bool:
    """Whether the pod holds its node, or is to have it."""
    pod = turn.state.pods.get(uid)
    return (pod is not None and pod.holds_node) or uid in turn.state.reservations
