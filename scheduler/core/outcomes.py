"""What becomes of effects that were sent: of Bindings that land, fail, or that nobody knows of."""

from __future__ import annotations

from dataclasses import replace

from scheduler.core import booking, hints, roster, starting
from scheduler.core.gang import Gang
from scheduler.core.messages import BindReply, EffectDone, Outcome
from scheduler.core.state import OpenEffect, Reservation, State, Turn

_NOT_DONE = (Outcome.ERROR, Outcome.CONFLICT, Outcome.TIMEOUT, Outcome.CANCELLED)


def effect_done(turn: Turn, event: EffectDone) -> None:
    """An effect has ended; what it means depends on what it was."""
    effect = turn.state.open.pop(event.id, None)
    if effect is not None and effect.kind == "nominate" and event.outcome is Outcome.OK:
        _nominated(turn, effect.ref.uid)
    if effect is not None and effect.kind == "clear" and event.outcome in _NOT_DONE:
        booking.not_cleared(turn, effect.ref.uid)
    if effect is None or effect.kind != "bind":
        return
    state, uid = turn.state, effect.ref.uid
    if state.binding.get(uid) == event.id:
        del state.binding[uid]
    _answer(turn, effect, event)
    if event.outcome is Outcome.OK:
        _landed(turn, effect)
    elif effect.orphan:
        _settle_orphan(turn, effect, event.outcome)
    elif uid in state.reservations:
        _failed(turn, state.reservations[uid], event.outcome)
    elif not (uid in state.pods and state.pods[uid].holds_node):
        _settle_orphan(turn, effect, event.outcome)


def _nominated(turn: Turn, uid: str) -> None:
    """A nomination is written. Where it is not wanted any more, it may have come after its end."""
    seat = turn.state.seat_by_nomination(uid)
    if seat is None:
        booking.not_cleared(turn, uid)
    else:
        seat.nominated = True


def _answer(turn: Turn, effect: OpenEffect, event: EffectDone) -> None:
    uid = effect.ref.uid
    if turn.state.awaited.pop(uid, None) is None:
        return
    pod = turn.state.pods.get(uid)
    done = event.outcome is Outcome.OK or (pod is not None and pod.node == effect.node)
    detail = f": {event.detail}" if event.detail else ""
    error = "" if done else f"binding {effect.ref} to {effect.node}: {event.outcome}{detail}"
    turn.reply = BindReply(effect.ref, effect.node, error)


def _landed(turn: Turn, effect: OpenEffect) -> None:
    """The pod is bound, whether we still wanted it or not."""
    state, pod = turn.state, turn.state.pods.get(effect.ref.uid)
    if pod is None:
        state.free(effect.ref.uid)
        return
    if not pod.node:
        roster.pod_seen(turn, replace(pod, node=effect.node, nominated="", hint=effect.hint))
    if effect.orphan:
        state.gains += 1
    if state.node(effect.node) is None and state.gang_of.get(pod.uid) is not None:
        starting.evict(turn, pod, f"node {effect.node} was lost before the pod was bound to it")


def _settle_orphan(turn: Turn, effect: OpenEffect, outcome: Outcome) -> None:
    state, uid = turn.state, effect.ref.uid
    state.gains += 1
    turn.gave_back = True
    # While it was on its way, the pod's next seat was left alone, whatever became of its gang.
    turn.touch(state.gang_of.get(uid))
    pod = state.pods.get(uid)
    if pod is not None and pod.holds_node:
        return
    unknown = outcome is Outcome.TIMEOUT or effect.uncertain
    if unknown and pod is not None:
        booking.doubt(turn, uid, effect.node, hints.rank_of(effect.hint))
    elif uid not in state.reservations:
        state.ledger.drop(uid)


def _failed(turn: Turn, reservation: Reservation, outcome: Outcome) -> None:
    state = turn.state
    gang = state.gangs[reservation.gang]
    if outcome is Outcome.GONE:
        booking.end_reservation(turn, reservation.uid, keep_claim=False)
        if state.node(reservation.node) is not None:
            starting.back_off(turn, gang)
        return
    settings = state.settings
    pause = starting.doubled(settings.retry_s, reservation.tries, settings.retry_max_s)
    reservation.tries += 1
    # The node may have changed while the Binding was on its way; it is judged again.
    turn.suspect[reservation.node] = None
    reservation.uncertain = outcome is Outcome.TIMEOUT or (
        reservation.uncertain and outcome is not Outcome.CONFLICT
    )
    gang.retries[reservation.uid] = turn.now + pause
    turn.touch(gang.key)
    if not reservation.uncertain and _outranked(state, gang):
        # Until it is sent again its seat may be taken by a gang of higher priority.
        state.gains += 1


def _outranked(state: State, gang: Gang) -> bool:
    return any(state.gangs[key].priority > gang.priority for key in state.wanting)
