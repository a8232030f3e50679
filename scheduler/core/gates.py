"""Scheduling gates: Muster's own is taken off when a pod may start, those of others are waited for.

A pod behind a gate costs the scheduler nothing: it is not in its queue, and no event wakes it.
"""

from __future__ import annotations

from scheduler.model import Pod

OWN = "muster.scheduler/gang"
"""The gate that an admission policy may put on pods, for Muster to take off."""


def is_open(pod: Pod) -> bool:
    """Whether nobody else's gate keeps the pod from being planned."""
    return all(gate == OWN for gate in pod.gates)


def is_own(pod: Pod) -> bool:
    """Whether Muster's gate is all that keeps the pod from being bound."""
    return bool(pod.gates) and is_open(pod)
