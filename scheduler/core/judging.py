"""Where a gang stands in its life: the one table of states, and who is judged by what."""

from __future__ import annotations

from scheduler.core.gang import HELD, Gang, Life, Reason, Stage, Status, by_role
from scheduler.core.quoting import bounded, quoted
from scheduler.core.state import State
from scheduler.core.terms import Terms, merged
from scheduler.model import GroupKey, Options


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
    fault = group.fault if group is not None else ""
    return Terms(absent, options, fault or _foreign(gang, options))


def _foreign(gang: Gang, options: Options) -> str:
    """A partner in another namespace would let one tenant hold up another."""
    for namespace, name in options.partners:
        if namespace != gang.key.namespace:
            named = quoted(f"{namespace}/{name}")
            return f"it is to start together with {named}, a gang of another namespace"
    return ""


def judge_again(state: State, gang: Gang) -> None:
    """Judge a gang of which only the memory has changed."""
    gang.life = judge(gang, terms_of(state, gang))


def can_complete(gang: Gang) -> bool:
    """Whether enough members exist to make up min."""
    return not gang.lacking(*HELD, Status.WAITING)


# ── the table ──


def judge(gang: Gang, terms: Terms) -> Life:
    """The gang's place in its life: the one table of states.

    Partial is a reason and no state of its own: a gang some of whose members sit while the rest
    does not is broken, whether it ran before or was never whole.
    """
    stage, reason, text = _stage(gang, terms)
    return Life(stage, reason, bounded(text), terms.min, terms.least, terms.options)


def _stage(gang: Gang, terms: Terms) -> tuple[Stage, Reason, str]:
    held, waiting = gang.held, gang.count(Status.WAITING)
    if gang.count(Status.FAULTY) and not held + waiting:
        return Stage.INVALID, Reason.FAULT, "its declaration cannot be used"
    if terms.group_fault and not held:
        return Stage.INVALID, Reason.FAULT, terms.group_fault
    if not gang.is_alive():
        return Stage.DONE, Reason.NONE, ""
    if terms.group_missing is not None and not held:
        return Stage.FORMING, Reason.GROUP_MISSING, _absent(terms.group_missing)
    if not terms.lacking(gang, *HELD):
        return Stage.RUNNING, Reason.NONE, ""
    if gang.reserved:
        return Stage.STARTING, Reason.NONE, ""
    if gang.memory.admitted or gang.count(Status.SEATED):
        return Stage.BROKEN, Reason.PARTIAL, f"partial: {held} of {terms.min} members are bound"
    if not terms.lacking(gang, *HELD, Status.WAITING):
        return _queued(gang)
    return Stage.FORMING, Reason.TOO_FEW, _too_few(gang, terms)


def _absent(key: GroupKey) -> str:
    if key.kind.startswith("PodGroup."):
        return f"{key} does not exist; create it or correct the name"
    return f"{key} is being looked up for the number of its pods"


def _queued(gang: Gang) -> tuple[Stage, Reason, str]:
    refusal = gang.memory.refusal
    if refusal is None:
        return Stage.QUEUED, Reason.NONE, ""
    return Stage.QUEUED, refusal.reason, refusal.text


def _too_few(gang: Gang, terms: Terms) -> str:
    there = gang.held + gang.count(Status.WAITING)
    text = f"{there} of {terms.least} pods exist"
    if there >= terms.least:
        missing = by_role(gang, terms.options.role_min, *HELD, Status.WAITING)
        named = (f"{number} more of role {role or '(none)'}" for role, number in missing.items())
        text += f"; needed: {' and '.join(named)}"
    asides = [
        f"{gang.count(item)} {item.value}"
        for item in (Status.GATED, Status.LEAVING, Status.FAILED, Status.FAULTY)
        if gang.count(item)
    ]
    return f"{text} ({', '.join(asides)})" if asides else text
