"""Answers that need no engine: for when it is busy, failed, or the request's pod is unreadable.

A "no" must never be an error: with ``ignorable: true`` an error makes the scheduler skip the
extender, and with it the gang check. So members of gangs are held, and plain pods pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from scheduler.core.messages import BindReply, FilterReply, PreemptReply, PrioritizeReply
from scheduler.model import Pod, PodRef
from scheduler.settings import Settings

HOLD_KEY = "muster"
"""The one made-up node name that carries a hold's reason."""

BUSY = "planner busy; the scheduler asks again by itself"
BROKEN = "internal error in Muster; its log has the details"


def is_plain(pod: Pod, settings: Settings) -> bool:
    """Whether the pod is another scheduler's, or belongs to no gang and asks for no accelerator."""
    if pod.scheduler and pod.scheduler not in settings.scheduler_names:
        return True
    if pod.fault or (pod.declaration is not None and pod.declaration.name):
        return False
    return not any(
        amount > 0 and any(fnmatchcase(name, pattern) for pattern in settings.accelerators)
        for name, amount in pod.requests.items()
    )


def hold(reason: str) -> FilterReply:
    """No node, for one reason."""
    return FilterReply(nodes=(), failed={}, unresolvable={HOLD_KEY: reason})


def passing(names: Sequence[str]) -> FilterReply:
    """Every offered node."""
    return FilterReply(nodes=names, failed={}, unresolvable={})


def no_opinion(names: Sequence[str]) -> PrioritizeReply:
    """The same score for every offered node."""
    return PrioritizeReply(scores=dict.fromkeys(names, 0))


def no_eviction() -> PreemptReply:
    """Nothing may be evicted."""
    return PreemptReply(victims={})


def not_bound(ref: PodRef, node: str, why: str) -> BindReply:
    """A Binding that cannot be confirmed."""
    return BindReply(ref=ref, node=node, error=why)
