"""Would these pods start now? Answered without changing anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scheduler.core import asking, explain, headroom, planning, roster
from scheduler.core.admission import plan_in_turn
from scheduler.core.gang import Gang, Refusal, Stage
from scheduler.core.judging import can_complete, judge_again
from scheduler.core.quoting import bounded
from scheduler.core.seating import Plan
from scheduler.core.shortfall import Shortage
from scheduler.core.state import State, Turn
from scheduler.core.unblocking import holders, next_step
from scheduler.core.work import Work
from scheduler.model import GangKey, Pod

_SUFFIX = re.compile(r"~\d+(?=#pod$)")


def would_fit(state: State, pods: Sequence[Pod]) -> dict[str, Any]:
    """Whether the gangs that these pods make up would start now, where, and what is missing.

    The pods are looked at beside all that runs; those of a gang that exists already are judged as a
    gang of their own. Pods without a gang and without accelerators always fit: the scheduler places
    them. The keys of the answer are ``fits``, ``never`` and ``reason``; ``nodes`` and ``domains``
    where it fits; ``short_by``, ``level``, ``best_domain``, ``fits_in_best``, ``held_there``,
    ``blocked_by`` and ``next``, as `unblocking.answer` has them, where room is short; ``warnings``
    where there are any. Where finding out takes more work than one question may cost
    (`asking.most_rows`), ``undecided`` is true beside a ``fits`` that is false.
    """
    meagre = headroom.warnings(pods, state.is_accelerator)
    return _judged(state, pods) | ({"warnings": meagre} if meagre else {})


def _judged(state: State, pods: Sequence[Pod]) -> dict[str, Any]:
    asking_for = [(pod, roster.gang_key(state, pod)) for pod in pods]
    faulty = next((pod for pod, key in asking_for if pod.fault or (key and pod.excess)), None)
    if faulty is not None:
        return _no(bounded(f"pod {faulty.key} cannot be used: {faulty.unplannable}"), never=True)
    asked = len({key for _, key in asking_for} - {None})
    if asked > asking.MOST_GANGS:
        text = f"{asked} gangs are more than the {asking.MOST_GANGS} that are tried at once"
        return _no(text, never=False)
    trial, keys = _trial(state, pods)
    gangs = [trial.gangs[key] for key in keys]
    incomplete = next((gang for gang in gangs if not can_complete(gang)), None)
    if incomplete is not None:
        return _no(incomplete.life.text if incomplete.life else "", never=False)
    outcome = _plans(trial, gangs)
    if isinstance(outcome, dict):
        return _undecided(trial, gangs) if trial.work.was_cut else outcome
    later = sum(len(planning.waiting_pods(trial, gang)) for gang in gangs) - sum(
        len(plan.pods) for plan in outcome
    )
    reason = f"{later} pods beyond the minimum would wait for room" if later else ""
    return {"fits": True, "never": False, "reason": reason, **_where(trial, gangs, outcome)}


def _plans(trial: State, gangs: Sequence[Gang]) -> list[Plan] | dict[str, Any]:
    """Plans for all gangs beside each other, or the answer that says why there are none."""
    if len(gangs) == 1:
        alone = planning.in_full(trial, gangs[0])
        return [alone] if isinstance(alone, Plan) else _short(trial, gangs[0], alone)
    found = plan_in_turn(trial, gangs)
    return _why_not(trial, gangs, found) if isinstance(found, Refusal) else found


def _trial(state: State, pods: Sequence[Pod]) -> tuple[State, list[GangKey]]:
    """The state with these pods in it, as new gangs; rooms are shared and only read."""
    trial = replace(
        state,
        pods=dict(state.pods),
        by_name=dict(state.by_name),
        users={key: dict(uids) for key, uids in state.users.items()},
        host_askers=dict(state.host_askers),
        gangs=dict(state.gangs),
        gang_of=dict(state.gang_of),
        passed={},
        # Refusals go by the numbers of asks, and the trial's numbers mean nothing to others.
        asks={},
        refused={},
        work=Work(asking.most_rows(len(state.ledger.frame().names))),
    )
    fresh = [_renamed(pod, number) for number, pod in enumerate(pods)]
    for key in {key for pod in fresh if (key := roster.gang_key(state, pod)) is not None}:
        trial.gangs[key] = Gang(key)
    turn = Turn(trial, state.now)
    for pod in fresh:
        roster.pod_seen(turn, pod)
    keys = list(turn.touched)
    for key in keys:
        judge_again(trial, trial.gangs[key])
    return trial, keys


def _renamed(pod: Pod, number: int) -> Pod:
    """The pod as if just created, not to be mistaken for one that runs under its name."""
    return replace(
        pod, name=f"{pod.name}~{number}", uid=f"fit~{number}", node="", nominated="", gates=()
    )


def _where(state: State, gangs: Sequence[Gang], plans: Sequence[Plan]) -> dict[str, Any]:
    nodes: dict[str, str] = {}
    domains: dict[str, list[str]] = {}
    for gang, plan in zip(gangs, plans, strict=True):
        for pod, node in zip(plan.pods, plan.nodes, strict=False):
            nodes[pod.key.rpartition("~")[0]] = node
        domains[_SUFFIX.sub("", str(gang.key))] = explain.domain(state, plan.nodes)
    return {"nodes": dict(sorted(nodes.items())), "domains": dict(sorted(domains.items()))}


def _why_not(state: State, gangs: Sequence[Gang], refusal: Refusal) -> dict[str, Any]:
    for gang in gangs:
        short = planning.shortage(state, gang)
        if short is not None:
            return _short(state, gang, short)
    return _no(refusal.text, never=False)


def _short(state: State, gang: Gang, short: Shortage) -> dict[str, Any]:
    """What is missing, who has it where the gang would fit best, and what would help."""
    answer = _no(short.text, never=short.never) | explain.shortage_view(state, short)
    if short.best_domain:
        held = holders(state, short.best_domain, gang)
        answer |= {"held_there": held} if held else {}
    blocking = [] if short.never else explain.blockers(state, gang)
    answer |= {"blocked_by": blocking} if blocking else {}
    return answer | {"next": bounded(next_step({"state": Stage.QUEUED.value, **answer}))}


def _undecided(state: State, gangs: Sequence[Gang]) -> dict[str, Any]:
    count, nodes = len(gangs), len(state.ledger.frame().names)
    asked = "1 gang" if count == 1 else f"{count} gangs"
    reason = (
        f"not decided: {asked} on {nodes} nodes take longer to judge than one question may keep "
        "others waiting; ask about fewer gangs, or about fewer kinds of pods"
    )
    return _no(reason, never=False) | {"undecided": True}


def _no(reason: str, *, never: bool) -> dict[str, Any]:
    return {"fits": False, "never": never, "reason": reason}
