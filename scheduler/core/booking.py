"""Reservations: room booked for a pod until it is bound or the room is given back."""

from __future__ import annotations

from scheduler.core.gang import Gang
from scheduler.core.messages import Cancel, ClearNomination
from scheduler.core.state import Reservation, Turn
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
        _give_back(turn, reservation)
    return reservation


def _give_back(turn: Turn, reservation: Reservation) -> None:
    """Free the room, cancel a Binding that is open, clear what was nominated."""
    state, uid = turn.state, reservation.uid
    number = state.binding.get(uid)
    if number is not None:
        # It may have been sent: until its outcome is known the room counts as taken.
        state.open[number].orphan = True
        state.open[number].uncertain = reservation.uncertain
        turn.effects.append(Cancel(turn.new_id(), number))
    elif reservation.uncertain and uid in state.pods:
        doubt(turn, uid, reservation.node)
    elif state.ledger.drop(uid):
        state.gains += 1
    pod = state.pods.get(uid)
    turn.gave_back = True
    if reservation.how is Start.NOMINATE and pod is not None and not pod.node:
        clear_nomination(turn, pod.ref)


def clear_nomination(turn: Turn, ref: PodRef) -> None:
    """Empty the pod's nominated node, which would keep room from others."""
    turn.effects.append(ClearNomination(turn.open("clear", ref), ref))


def doubt(turn: Turn, uid: str, node: str) -> None:
    """Keep a node shut while a Binding that was given up may still show to have landed."""
    state = turn.state
    state.doubts.setdefault(uid, {})[node] = turn.now + state.settings.timeout_s


def settle_doubt(turn: Turn, uid: str) -> None:
    """Where the pod is has become known: the nodes that were shut for it are open again."""
    if turn.state.doubts.pop(uid, None) is not None:
        turn.state.gains += 1


def end_doubts(turn: Turn) -> None:
    """Believe after a while that a Binding never landed."""
    state = turn.state
    over = [
        (uid, node)
        for uid, nodes in state.doubts.items()
        for node, until in nodes.items()
        if until <= turn.now
    ]
    for uid, node in over:
        del state.doubts[uid][node]
        if not state.doubts[uid]:
            del state.doubts[uid]
        state.gains += 1
        if state.ledger.where(uid) == node and not _is_there(turn, uid):
            state.ledger.drop(uid)


def _is_there(turn: Turn, uid: str) -> bool:
    """Whether the pod holds its node, or is to have it."""
    pod = turn.state.pods.get(uid)
    return (pod is not None and pod.holds_node) or uid in turn.state.reservations
