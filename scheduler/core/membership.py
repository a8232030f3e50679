"""The roll of a gang: who is on it, of which generation, and what is remembered of them."""

from __future__ import annotations

from scheduler.core import hints, ranking
from scheduler.core.booking import end_reservation
from scheduler.core.gang import Gang, Memory, Status, status
from scheduler.core.state import State, Turn
from scheduler.model import GangKey, Options, Pod

_NO_OPTIONS = Options()


def move(turn: Turn, pod: Pod, key: GangKey | None, before: Pod | None = None) -> None:
    """Put a pod on the roll of a gang (None: of none) as it is now; ``before`` as it was."""
    state = turn.state
    was = state.gang_of.get(pod.uid)
    if was is not None:
        strike(turn, before or pod, keep_empty=was == key)
    if key is not None:
        _join(turn, pod, key)
        if was != key:
            state.gangs[key].joined_at = turn.now


def _join(turn: Turn, pod: Pod, key: GangKey) -> None:
    state = turn.state
    gang = state.gangs.get(key)
    if gang is None:
        gang = state.gangs[key] = Gang(key)
    state.gang_of[pod.uid] = key
    counts = _generation(turn, gang, pod)
    kind = status(pod) if counts else Status.STALE
    gang.by_status[kind][pod.uid] = None
    gang.ask = None
    if counts:
        _count(gang, pod, 1)
    gang.latest = max(gang.latest, pod.created)
    if role := ranking.role_of(pod):
        gang.roles[pod.uid] = role
    gang.memory.refusal = None
    if kind in (Status.SEATED, Status.SUCCEEDED):
        _remember(gang, pod)
    if kind is not Status.WAITING:
        end_reservation(turn, pod.uid, keep_claim=pod.holds_node)
    turn.touch(key)


def strike(turn: Turn, pod: Pod, *, keep_empty: bool = False) -> None:
    """Take a pod off its gang's roll."""
    state = turn.state
    key = state.gang_of.pop(pod.uid, None)
    if key is None:
        return
    gang = state.gangs[key]
    if pod.uid not in gang.by_status[Status.STALE]:
        _count(gang, pod, -1)
    for uids in gang.by_status.values():
        uids.pop(pod.uid, None)
    gang.roles.pop(pod.uid, None)
    gang.ask = None
    if not keep_empty:
        end_reservation(turn, pod.uid, keep_claim=False)
        gang.memory.refusal = None
    turn.touch(key)


def _count(gang: Gang, pod: Pod, step: int) -> None:
    options = pod.declaration.options if pod.declaration else _NO_OPTIONS
    counted: list[tuple[dict, object]] = [  # type: ignore[type-arg]
        (gang.declared, options),
        (gang.priorities, pod.priority),
    ]
    if pod.declaration and pod.declaration.group:
        counted.append((gang.groups, pod.declaration.group))
    for counter, value in counted:
        counter[value] = counter.get(value, 0) + step
        if counter[value] <= 0:
            del counter[value]
            gang.terms = None
        elif counter[value] == step:
            gang.terms = None


def _generation(turn: Turn, gang: Gang, pod: Pod) -> bool:
    """Whether the pod is of the current generation; a newer owner of that name begins one."""
    if pod.owner is None:
        return True
    who = (pod.owner.kind, pod.owner.name)
    current = gang.owners.setdefault(who, pod.owner.uid)
    if current == pod.owner.uid:
        return True
    if pod.created < gang.latest or pod.node:
        return False
    gang.owners[who] = pod.owner.uid
    _retire(turn, gang)
    return True


def _retire(turn: Turn, gang: Gang) -> None:
    """End a generation: its pods still take their room, but no longer count."""
    for uid in list(gang.reserved):
        end_reservation(turn, uid, keep_claim=False)
    stale = gang.by_status[Status.STALE]
    for kind, uids in gang.by_status.items():
        if kind is Status.STALE:
            continue
        for uid in [uid for uid in uids if _is_outdated(turn.state, gang, uid)]:
            del uids[uid]
            stale[uid] = None
            _count(gang, turn.state.pods[uid], -1)
    gang.memory = Memory()


def _is_outdated(state: State, gang: Gang, uid: str) -> bool:
    owner = state.pods[uid].owner if uid in state.pods else None
    return owner is not None and gang.owners.get((owner.kind, owner.name)) != owner.uid


def _remember(gang: Gang, pod: Pod) -> None:
    """Take a bound member's rank and node as given: its hint says so, also after a restart."""
    place = ranking.slot(pod)
    rank = hints.rank_of(pod.hint)
    if rank is not None:
        gang.memory.ranks[place] = rank
    gang.memory.homes[place] = pod.node
    if not gang.memory.generation:
        gang.memory.generation = hints.generation_of(pod.hint)
