"""Gangs that are ending: their pods' ends come one by one, and are waited for.

Were the waiting gangs asked after every single end, the first few accelerators that come free would
go to small ones, and the large gang for which the whole of it would do finds its place torn up.
"""

from __future__ import annotations

from scheduler.core.gang import Gang, Status
from scheduler.core.state import State, Turn


def note(turn: Turn, uid: str) -> None:
    """A member gives its room back while others of a gang that was whole may follow soon."""
    state, gang = turn.state, turn.state.gang_with(uid)
    if gang is None or gang.key.pod or not gang.memory.admitted or not state.settings.settle_s:
        return
    if not state.ending:
        # One end for all of them: gangs that end without a pause may not put planning off for ever.
        state.ending_until = turn.now + state.settings.settle_s
    state.ending[gang.key] = None


def is_under_way(state: State) -> bool:
    """Whether it is too early to ask those that wait; forgets gangs of which nothing is left."""
    if state.ending_until <= state.now:
        state.ending.clear()
    for key in list(state.ending):
        gang = state.gangs.get(key)
        if gang is None or not _holds_room(state, gang):
            del state.ending[key]
    return bool(state.ending)


def _holds_room(state: State, gang: Gang) -> bool:
    leaving = gang.by_status[Status.LEAVING]
    return bool(gang.by_status[Status.SEATED]) or any(state.ledger.where(uid) for uid in leaving)
