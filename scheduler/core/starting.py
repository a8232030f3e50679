"""Putting a planned gang in place: Bindings, nominations, and what becomes of them."""

from __future__ import annotations

from scheduler.core import (
    booking,
    devices,
    feasibility,
    gates,
    hints,
    indexing,
    probing,
    ranking,
    remarks,
    seating,
)
from scheduler.core.gang import HELD, Gang, Reason, Refusal, Seat, Status
from scheduler.core.messages import (
    Bind,
    Evict,
    Nominate,
    Record,
    Wake,
)
from scheduler.core.quoting import bounded
from scheduler.core.seating import Plan
from scheduler.core.state import Reservation, State, Turn
from scheduler.model import Pod, Start

REJECTED = "MemberRejected"
"""Reason of the Event of a member that a kubelet refused to run."""

_MOST_REFS = 16
"""Pods that one Event is written on, at most; a gang of 500 needs no 500 copies of it."""


# ── starting ──


def start(turn: Turn, gang: Gang, plan: Plan) -> None:
    """Reserve every seat of a plan at once and set the members going, in rank order."""
    state = turn.state
    assert gang.life is not None
    size = seating.gang_size(gang)
    ranks = ranking.ranks(plan.pods, size, gang.memory.ranks, _taken_ranks(state, gang, plan))
    _set_generation(state, gang, plan)
    if not gang.reserved:
        # A member that joins must not prolong the life of seats that hang.
        gang.deadline = turn.now + _timeout(state, gang)
    how = start_of(state, gang, plan.pods)
    places = list(zip(plan.pods, plan.nodes, ranks, strict=False))
    # Those that take the GPUs chosen for them choose first: others get what the kubelet gives them.
    for pod, node, rank in sorted(places, key=lambda place: not indexing.is_exact(place[0])):
        gang.memory.ranks[ranking.slot(pod)] = rank
        gang.memory.homes[ranking.slot(pod)] = node
        reservation = booking.reserve(turn, gang, pod, node, rank)
        reservation.how = how
        reservation.gpus = indexing.gpus_for(state, pod, node)
    for pod, _, _ in places:
        _send(turn, gang, pod, how)
    gang.memory.refusal = None
    gang.memory.told = None
    if not gang.memory.admitted:
        remark(turn, gang)


def keep_ahead(turn: Turn, gang: Gang, plan: Plan) -> None:
    """Keep the seats of members that are made in a later phase, for a while."""
    until = turn.now + turn.state.settings.phase_s
    for ghost, node in zip(plan.ghosts, plan.nodes[len(plan.pods) :], strict=True):
        gang.memory.ahead.append(Seat(node, ghost.requests, until))


def start_of(state: State, gang: Gang, pods: tuple[Pod, ...]) -> Start:
    """How these members start: burst only if the scheduler's own verdict can hold no surprise."""
    asked = gang.life.options.start if gang.life else None
    how = asked or state.settings.start
    if how is Start.BURST and any(must_be_nominated(state, pod) for pod in pods):
        how = Start.NOMINATE
    if how is Start.NOMINATE and not probing.works(state):
        return Start.FOLLOW
    return how


def must_be_nominated(state: State, pod: Pod) -> bool:
    """Whether in-tree plugins know things of this pod that Muster does not check."""
    if pod.nominate_because:
        return True
    return any(
        feasibility.anti_affinity_matches(
            term, state.pods[uid].namespace, pod.namespace, pod.labels
        )
        for uid, terms in state.anti.items()
        for term in terms
    )


def remark(turn: Turn, gang: Gang) -> None:
    """Tell people what members say that cannot be followed, once each time it changes."""
    found = tuple(remarks.of(turn.state, gang))
    if found and found != gang.memory.remarked:
        record(turn, gang, "GangWarning", f"gang {gang.key}: {'; '.join(found)}")
    gang.memory.remarked = found


def _placed(gang: Gang) -> list[str]:
    return [*gang.by_status[Status.SEATED], *gang.by_status[Status.SUCCEEDED], *gang.reserved]


def _taken_ranks(state: State, gang: Gang, plan: Plan) -> set[int]:
    """Ranks of members that sit, are about to, or may show to, as their hints say."""
    told = (hints.rank_of(state.pods[uid].hint) for item in HELD for uid in gang.by_status[item])
    reserved = (state.reservations[uid].rank for uid in gang.reserved)
    planned = {pod.uid for pod in plan.pods}
    given_up = booking.ranks_given_up(state, gang).items()
    doubtful = (rank for uid, ranks in given_up if uid not in planned for rank in ranks)
    return {rank for rank in (*told, *reserved, *doubtful) if rank is not None}


def _timeout(state: State, gang: Gang) -> float:
    stated = gang.life.options.timeout if gang.life else None
    return stated if stated is not None else state.settings.timeout_s


def _set_generation(state: State, gang: Gang, plan: Plan) -> None:
    """Name the generation: its owner's uid where there is one, else its first member's."""
    if gang.memory.generation:
        return
    owners = {pod.owner.uid for pod in plan.pods if pod.owner}
    living = [state.pods[uid].hint for uid in _placed(gang)]
    known = [found for hint in living if (found := hints.generation_of(hint))]
    first = min(owners) if len(owners) == 1 else plan.pods[0].uid
    gang.memory.generation = min(known) if known else first


def _send(turn: Turn, gang: Gang, pod: Pod, how: Start) -> None:
    reservation = turn.state.reservations[pod.uid]
    node = turn.state.node(reservation.node)
    if node is not None and not indexing.is_nameable(turn.state, pod, node, reservation.gpus):
        # Never without the GPUs that it asked to be given: its gang's seats end with the next step.
        turn.suspect[node.name] = None
    elif how is Start.BURST:
        send_bind(turn, gang, pod)
    else:
        _call_for(turn, gang, pod, how)


def send_bind(turn: Turn, gang: Gang, pod: Pod) -> None:
    """POST the Binding of a reserved member, with its hint."""
    state = turn.state
    reservation = state.reservations[pod.uid]
    hint = hint_of(state, gang, pod, reservation)
    size = hint["size"]
    number = turn.open("bind", pod.ref, reservation.node, hints.text(hint))
    state.binding[pod.uid] = number
    gang.retries.pop(pod.uid, None)
    note = f"gang {gang.key}, rank {reservation.rank} of {size}"
    annotations = {hints.KEY: state.open[number].hint, **_assigned(pod, reservation)}
    lift = gates.is_own(pod)
    turn.effects.append(Bind(number, pod.ref, reservation.node, annotations, gang.key, note, lift))


def _assigned(pod: Pod, reservation: Reservation) -> dict[str, str]:
    """The annotation that gives a member its very GPUs, where it asks for that."""
    if reservation.gpus is None or not indexing.is_exact(pod):
        return {}
    return {hints.VISIBLE: indexing.visible_devices(reservation.gpus)}


def hint_of(state: State, gang: Gang, pod: Pod, reservation: Reservation) -> dict[str, object]:
    """What the member is told of its place."""
    node = state.node(reservation.node)
    assert node is not None
    assert gang.life is not None
    topology = state.topology()
    gpus = indexing.gpus_now(node, reservation.gpus)
    return hints.make(
        gang=f"{gang.key.namespace}/{gang.key.name}",
        generation=gang.memory.generation,
        rank=reservation.rank,
        size=seating.gang_size(gang),
        least=gang.life.min,
        role=ranking.role_of(pod),
        node=node,
        levels=topology.levels,
        path=topology.path(node.name),
        gpus=gpus,
        uuids=reservation.gpus.uuids if reservation.gpus else (),
        beside=devices.affinity(node.annotations, gpus or ()),
    )


def _call_for(turn: Turn, gang: Gang, pod: Pod, how: Start) -> None:
    """Have the scheduler ask for a member: nominate its node, or just wake it."""
    reservation = turn.state.reservations[pod.uid]
    if how is Start.NOMINATE:
        number = turn.open("nominate", pod.ref, reservation.node)
        turn.effects.append(Nominate(number, pod.ref, reservation.node, gates.is_own(pod)))
    if how is not Start.NOMINATE or reservation.passed_by:
        # Where the nomination is there already, to write it again changes nothing and wakes nobody.
        wake(turn, pod)
    settings = turn.state.settings
    pause = doubled(settings.nominate_again_s, reservation.tries, settings.backoff_max_s)
    reservation.tries += 1
    gang.retries[pod.uid] = turn.now + pause


def wake(turn: Turn, pod: Pod) -> None:
    """Have the scheduler look at a pod again."""
    turn.effects.append(Wake(turn.open("wake", pod.ref), pod.ref, gates.is_own(pod)))


def lift_plain(turn: Turn) -> None:
    """Take Muster's gate off pods that are members of no gang, again until it is seen to be off."""
    state = turn.state
    for uid in [uid for uid, due in state.gated.items() if due <= turn.now]:
        state.gated[uid] = turn.now + state.settings.retry_max_s
        wake(turn, state.pods[uid])


def wake_turned_away(turn: Turn) -> None:
    """Wake plain pods that found no node while room was reserved, once each."""
    state = turn.state
    for uid in list(state.turned_away):
        del state.turned_away[uid]
        pod = state.pods.get(uid)
        if pod is not None and not pod.node and not pod.deleting:
            wake(turn, pod)


def doubled(first: float, times: int, most: float) -> float:
    """A pause that doubles with every try, up to ``most``; in seconds."""
    return min(first * 2.0 ** min(times, 40), most)


# ── giving up ──


def release(turn: Turn, gang: Gang, *, keep_binding: bool) -> None:
    """Give all of the gang's open reservations back at once.

    With ``keep_binding`` those stay whose Binding is on its way: they may land any moment.
    """
    state = turn.state
    for uid in list(gang.reserved):
        if keep_binding and uid in state.binding:
            continue
        booking.end_reservation(turn, uid, keep_claim=False)


def expire(turn: Turn, gang: Gang) -> None:
    """The deadline has passed: the whole gang gives its open reservations back and waits."""
    turn.state.expired += len(gang.reserved)
    count, bound = len(gang.reserved), gang.held
    release(turn, gang, keep_binding=False)
    back_off(turn, gang)
    text = "its reservations ran out; it is planned anew after a pause"
    gang.memory.refusal = Refusal(Reason.BACKOFF, text, turn.state.gains)
    record(
        turn,
        gang,
        "GangTimedOut",
        f"{count} reservations of gang {gang.key} ran out with {bound} members bound; "
        "they were given back and the gang is planned anew after a pause",
    )


def back_off(turn: Turn, gang: Gang) -> None:
    """Keep the gang from being planned for a while, longer each time."""
    settings, memory = turn.state.settings, gang.memory
    pause = memory.backoff_next or settings.backoff_s
    memory.backoff_until = turn.now + pause
    memory.backoff_next = min(pause * 2, settings.backoff_max_s)
    turn.touch(gang.key)


def record(turn: Turn, gang: Gang, reason: str, message: str, *, warning: bool = True) -> None:
    """Write one Event on the gang's pods."""
    pods = sorted((turn.state.pods[uid] for uid in gang.members), key=lambda pod: pod.key)
    refs = tuple(pod.ref for pod in pods[:_MOST_REFS])
    turn.effects.append(Record(turn.new_id(), gang.key, refs, reason, bounded(message), warning))


def replace_rejected(turn: Turn, pod: Pod) -> None:
    """A kubelet refused to run a member: have it replaced, and say so of it and its owner."""
    evict(turn, pod, f"node {pod.node} rejected it; it is to be replaced")
    key = turn.state.gang_of[pod.uid]
    text = (
        f"node {pod.node} refused to run {pod.key}, which was bound to it: somebody else's pod "
        "may have taken the room; it is evicted, and what its controller makes is placed anew"
    )
    turn.effects.append(
        Record(turn.new_id(), key, (pod.ref,), REJECTED, bounded(text), warning=True)
    )


def evict(turn: Turn, pod: Pod, reason: str) -> None:
    """Evict a pod that cannot run where it is, so that its controller replaces it."""
    turn.effects.append(Evict(turn.open("evict", pod.ref), pod.ref, reason))


# ── time ──


def retry_due(turn: Turn, gang: Gang) -> None:
    """Send again what is due: failed Bindings, and nominations that nobody followed."""
    state = turn.state
    due = [uid for uid, at in gang.retries.items() if at <= turn.now]
    for uid in due:
        del gang.retries[uid]
        reservation = state.reservations.get(uid)
        if reservation is None or uid in state.binding:
            continue
        if reservation.how is Start.BURST:
            send_bind(turn, gang, state.pods[uid])
        elif not reservation.called:
            _call_for(turn, gang, state.pods[uid], reservation.how)
