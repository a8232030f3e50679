"""Whether the scheduler follows nominations, seen from its own calls.

A scheduler that does asks about a nominated pod with its one node before anything else. One that
never does, such as a fork, would leave nominated gangs to their time-out.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.gang import Gang
from scheduler.core.messages import Record
from scheduler.core.state import Reservation, State, Turn
from scheduler.model import Start

CALLS = 3
"""Calls about one pod, after its nomination was written, that offer other nodes: the first may have
been on its way before, and the next may follow a check of the one node that failed."""

PODS = 3
"""Pods of which that must be so before nominations are taken to be ignored."""

AGAIN_S = 600.0
"""Seconds after which a nomination is tried again."""

TOLD = 16
"""Pods that the Event is written on, at most."""

IGNORED = "NominationIgnored"
"""Reason of the Event."""


def works(state: State) -> bool:
    """Whether gangs may be nominated; if not, their plan is handed out in filter answers."""
    ignored = state.nominations.ignored_until
    return ignored is None or ignored <= state.now


def called(turn: Turn, gang: Gang, reservation: Reservation, names: Sequence[str]) -> None:
    """The scheduler asks about a member with a reservation, and offers these nodes."""
    state, found = turn.state, turn.state.nominations
    if reservation.how is not Start.NOMINATE or not reservation.nominated:
        return
    reservation.passed_by = reservation.passed_by or len(names) != 1
    if len(names) == 1:
        found.proven, found.ignored_until = True, None
        found.missed.clear()
        return
    found.missed[reservation.uid] = found.missed.get(reservation.uid, 0) + 1
    ignoring = [uid for uid, calls in found.missed.items() if calls >= CALLS]
    if found.proven or len(ignoring) < PODS:
        return
    found.missed.clear()
    found.ignored_until = state.now + AGAIN_S
    _tell(turn, gang)


def _tell(turn: Turn, gang: Gang) -> None:
    pods = sorted((turn.state.pods[uid] for uid in gang.reserved), key=lambda pod: pod.key)
    text = (
        f"gang {gang.key}: the scheduler does not ask about nominated nodes; for the next "
        f"{AGAIN_S / 60:.0f} minutes, plans are handed out in filter answers (start: follow), "
        "which needs percentageOfNodesToScore: 100"
    )
    refs = tuple(pod.ref for pod in pods[:TOLD])
    turn.effects.append(Record(turn.new_id(), gang.key, refs, IGNORED, text, warning=True))
