"""What a gang is judged by: its members' and its group's word, taken together."""

from __future__ import annotations

from scheduler.core.gang import HELD, Gang, Status, Terms, judge, merged
from scheduler.core.state import State


def terms_of(state: State, gang: Gang) -> Terms:
    """The terms as members and group state them now."""
    if gang.terms is None:
        gang.terms = _terms(state, gang)
    return gang.terms


def _terms(state: State, gang: Gang) -> Terms:
    key = min(gang.groups) if gang.groups else None
    group = state.groups.get(key) if key else None
    options = merged(gang, group)
    stated = options.min_available is not None or options.size is not None
    absent = key if key is not None and group is None and not stated else None
    return Terms(absent, options, group.fault if group is not None else "")


def judge_again(state: State, gang: Gang) -> None:
    """Judge a gang of which only the memory has changed."""
    gang.life = judge(gang, terms_of(state, gang))


def can_complete(gang: Gang) -> bool:
    """Whether enough members exist to make up min."""
    return not gang.lacking(*HELD, Status.WAITING)
