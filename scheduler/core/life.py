"""The end of every step: judge the gangs that were touched, and plan those that can start."""

from __future__ import annotations

from scheduler.core import (
    admission,
    backfill,
    booking,
    indexing,
    planning,
    roster,
    starting,
    timers,
)
from scheduler.core.gang import Gang, Reason, Seat, Stage, Status
from scheduler.core.judging import can_complete, judge, terms_of
from scheduler.core.state import State, Turn
from scheduler.core.usability import usable
from scheduler.model import GangKey

_ROUNDS = 1000
"""More rounds than any step can need; each but the last plans or gives back something."""

_RECORDED = {
    Reason.NO_ROOM: "GangWaiting",
    Reason.NEVER: "GangNeverFits",
    Reason.FAULT: "GangInvalid",
    Reason.PARTIAL: "GangBroken",
}
"""Reasons worth an Event, and its CamelCase reason."""


def settle(turn: Turn) -> None:
    """Judge and plan until nothing changes any more."""
    if not turn.state.synced:
        # Judged once the list is whole: until then every pod would be judged in vain.
        turn.touched.clear()
        return
    for pod in turn.rejected:
        if pod.uid in turn.state.gang_of:
            starting.replace_rejected(turn, pod)
    _check_nodes(turn)
    starting.lift_plain(turn)
    looked_at: dict[GangKey, None] = {}
    fresh: dict[GangKey, None] = {}
    for _ in range(_ROUNDS):
        if turn.touched:
            fresh |= turn.touched
            _review_all(turn)
            continue
        looked_at |= fresh
        if turn.looks_up or not admission.plan(turn, list(fresh)):
            break
        fresh.clear()
    for key in looked_at | turn.told:
        _finish(turn, key)
    timers.set_due_of_world(turn.state)
    if turn.gave_back:
        starting.wake_turned_away(turn)


# ── judging ──


def _review_all(turn: Turn) -> None:
    touched = list(turn.touched)
    turn.touched.clear()
    for key in touched:
        review(turn, key)


def review(turn: Turn, key: GangKey) -> None:
    """Judge one gang anew, and give back what it may no longer hold."""
    state = turn.state
    gang = state.gangs.get(key)
    if gang is None:
        return
    if gang.empty:
        _forget(turn, gang)
        return
    before, said_anew = gang.life, gang.terms is None
    gang.life = judge(gang, terms_of(state, gang))
    if before is not None and before.options != gang.life.options:
        gang.ask = None
        gang.memory.refusal = None
        starting.release(turn, gang, keep_binding=True)
        gang.life = judge(gang, terms_of(state, gang))
    seats = len(gang.reserved)
    _check_min(turn, gang)
    _check_home(turn, gang)
    if len(gang.reserved) < seats:
        gang.life = judge(gang, terms_of(state, gang))
    if said_anew and len(gang.declared) > 1:
        starting.remark(turn, gang)
    _update_memory(turn, gang, before.stage if before else None)
    backfill.look_ahead(state, gang)
    _relax(turn, gang)
    _update_index(state, gang)
    if gang.stage is not Stage.QUEUED:
        backfill.leave(turn, gang)
    if before is None or before.stage is not gang.stage:
        _tell_partners(turn, gang)


def _tell_partners(turn: Turn, gang: Gang) -> None:
    """Have gangs tried again that are admitted together with one whose stage has changed."""
    for key in turn.state.partnered:
        other = turn.state.gangs[key]
        refusal = other.memory.refusal
        backs_off = refusal is not None and refusal.reason is Reason.BACKOFF
        if other.names(gang.key) and not backs_off:
            other.memory.refusal = None
            turn.touch(key)


def _relax(turn: Turn, gang: Gang) -> None:
    """Widen the topology requirement by one level each time its wait has passed."""
    memory, after = gang.memory, gang.life.options.relax_after if gang.life else None
    waits = gang.stage in (Stage.QUEUED, Stage.BROKEN)
    steps = int((turn.now - memory.waiting_since) / after) if after and waits else 0
    if gang.stage is not Stage.STARTING and steps != memory.relaxed:
        memory.relaxed = steps
        memory.refusal = None
        gang.ask = None


def _forget(turn: Turn, gang: Gang) -> None:
    """The last pod is gone: so is the generation and all that is remembered of it."""
    state = turn.state
    backfill.leave(turn, gang)
    _give_up_seats(turn, gang.memory.lost)
    _give_up_seats(turn, gang.memory.ahead)
    del state.gangs[gang.key]
    state.wanting.drop(gang.key)
    for index in (state.partnered, state.broken, state.choosy):
        index.pop(gang.key, None)
    state.schedule(gang.key, None)


def _check_nodes(turn: Turn) -> None:
    """Give back what is reserved on nodes that can no longer be used, with the gang's other seats.

    A Binding on its way stays: it may land any moment, and its outcome decides.
    """
    state = turn.state
    for name in turn.suspect:
        lost = [uid for uid in state.reserved_on.get(name, ()) if not _is_usable(state, uid)]
        for key in dict.fromkeys(state.reservations[uid].gang for uid in lost):
            starting.release(turn, state.gangs[key], keep_binding=True)
    turn.suspect.clear()


def _check_min(turn: Turn, gang: Gang) -> None:
    """Give reservations back that no longer make up min: never half a gang."""
    if not gang.reserved or gang.life is None or gang.memory.admitted:
        return
    if planning.missing(gang):
        starting.release(turn, gang, keep_binding=can_complete(gang))


def _check_home(turn: Turn, gang: Gang) -> None:
    """Give back open seats outside the domain in which members turn out to live."""
    state = turn.state
    stated = gang.life.options.required if gang.life else ""
    movable = [uid for uid in gang.reserved if uid not in state.binding] if stated else []
    level = planning.required_level(state, gang) if movable else None
    if level is None:
        return
    lived_in = (
        _domain(state, state.pods[uid].node, level) for uid in gang.by_status[Status.SEATED]
    )
    # A node that is gone or has lost its labels is no home: what is planned may be anywhere.
    homes = {domain for domain in lived_in if None not in domain}
    if homes and any(
        _domain(state, state.reservations[uid].node, level) not in homes for uid in movable
    ):
        starting.release(turn, gang, keep_binding=True)


def _domain(state: State, node: str, level: int) -> tuple[str | None, ...]:
    return state.topology().path(node)[: level + 1]


def _is_usable(state: State, uid: str) -> bool:
    reservation, pod = state.reservations[uid], state.pods[uid]
    if uid in state.binding:
        return True
    node = state.node(reservation.node)
    if node is None or not usable(pod.constraints, node) or state.ledger.over(node.name):
        return False
    return indexing.is_nameable(state, pod, node, reservation.gpus)


def _update_memory(turn: Turn, gang: Gang, before: Stage | None) -> None:
    memory, stage = gang.memory, gang.stage
    if stage is Stage.BROKEN and before is Stage.RUNNING:
        memory.waiting_since = turn.now
    if stage is Stage.RUNNING:
        memory.admitted = True
        memory.started_at = turn.now if memory.started_at is None else memory.started_at
        memory.backoff_next = 0.0
    if stage in (Stage.DONE, Stage.RUNNING, Stage.FORMING, Stage.INVALID) and memory.lost:
        _give_up_seats(turn, memory.lost)
    while memory.lost and len(memory.lost) > planning.missing(gang):
        turn.state.gain_on(memory.lost.pop(0).node)
    if memory.ahead and (stage is not Stage.STARTING and not gang.ahead):
        _give_up_seats(turn, memory.ahead)
    if stage in (Stage.FORMING, Stage.INVALID, Stage.DONE):
        memory.complete = None
    elif memory.complete is None and turn.state.synced:
        memory.complete = turn.state.next_complete
        memory.waiting_since = turn.now
        turn.state.next_complete += 1


def _give_up_seats(turn: Turn, seats: list[Seat]) -> None:
    """Keep these seats for the gang no longer."""
    for seat in seats:
        turn.state.gain_on(seat.node)
    seats.clear()


def _update_index(state: State, gang: Gang) -> None:
    wants = gang.stage in (Stage.QUEUED, Stage.BROKEN, Stage.RUNNING)
    wants = wants or (gang.stage is Stage.STARTING and planning.missing(gang) > 0)
    wants = wants and gang.count(Status.WAITING) > len(gang.reserved)
    if wants:
        state.wanting.put(gang)
    else:
        state.wanting.drop(gang.key)
    exact = any(options.exact_gpus for options in gang.declared)
    _list_if(wants and exact, state.choosy, gang)
    _list_if(gang.memory.lost or gang.memory.ahead, state.broken, gang)
    _list_if(gang.partners, state.partnered, gang)


def _list_if(belongs: object, index: dict[GangKey, None], gang: Gang) -> None:
    if belongs:
        index[gang.key] = None
    else:
        index.pop(gang.key, None)


# ── what people are told ──


def _finish(turn: Turn, key: GangKey) -> None:
    """Tell people of a real change, once, and set the gang's next due time."""
    gang = turn.state.gangs.get(key)
    if gang is None or gang.life is None:
        return
    _record_change(turn, gang)
    timers.set_due(turn.state, gang)


def _record_change(turn: Turn, gang: Gang) -> None:
    life = gang.life
    assert life is not None
    reason = _RECORDED.get(life.reason, "")
    if reason and gang.memory.recorded != reason and turn.state.synced:
        starting.record(turn, gang, reason, f"gang {gang.key}: {life.text}")
    gang.memory.recorded = reason


# ── the first list ──


def synced(turn: Turn) -> None:
    """The world is known: order the gangs that wait, and clear nominations left from before."""
    state = turn.state
    if state.synced:
        return
    state.synced = True
    state.gains += 1
    for name in state.ledger.lost():
        roster.watch_lost(turn, name)
    waiting = sorted(state.gangs.values(), key=lambda gang: (gang.latest, gang.key))
    for gang in waiting:
        review(turn, gang.key)
        turn.touch(gang.key)
    for pod in sorted(state.pods.values(), key=lambda pod: pod.key):
        if pod.nominated and not pod.node and pod.uid in state.gang_of:
            booking.clear_nomination(turn, pod.ref)
