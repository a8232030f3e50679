"""Which member gets which seat, and which rank goes with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from scheduler.model import Pod

HEADS = ("master", "chief", "leader", "launcher", "head", "driver")
"""Roles whose members come before all others: launchers expect rank 0 there."""

_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=1 << 15)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which ``a-2`` comes before ``a-10``."""
    return tuple(
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in _DIGITS.split(name)
        if part
    )


def indexes(pods: Sequence[Pod], size: int) -> dict[str, int]:
    """Uid -> index, for the members whose indexes can be trusted.

    Indexes are judged as a set, role by role: one that is doubled within its Job, missing or beyond
    the gang's size spoils its whole role, whose members are then ordered by name. Half-and-half
    would put some members on seats that others are entitled to.
    """
    found: dict[str, int] = {}
    for role in {role_of(pod) for pod in pods}:
        members = [pod for pod in pods if role_of(pod) == role]
        given = Counter((pod.job, pod.index) for pod in members)
        usable = all(
            pod.index is not None and 0 <= pod.index < max(size, len(pods)) for pod in members
        )
        if usable and max(given.values()) == 1:
            found.update({pod.uid: pod.index for pod in members if pod.index is not None})
    return found


def role_of(pod: Pod) -> str:
    """The pod's role within its gang; "" if it has none."""
    return pod.declaration.options.role if pod.declaration else ""


def in_order(pods: Iterable[Pod], size: int) -> list[Pod]:
    """Members in rank order: heads first, then by role, Job, index, and name as people count."""
    listed = list(pods)
    index = indexes(listed, size)

    def place(pod: Pod) -> tuple[object, ...]:
        role = role_of(pod)
        at = index.get(pod.uid, -1)
        job = natural(pod.job) if at >= 0 else ()
        return role not in HEADS, role, job, at, natural(pod.name), pod.uid

    return sorted(listed, key=place)


def slot(pod: Pod) -> str:
    """What identifies a member's seat across replacements: role, Job and index, else the name."""
    if pod.index is None:
        return f"name/{pod.name}"
    within = f"{pod.job}/" if pod.job else ""
    return f"{role_of(pod)}/{within}{pod.index}"


def role_of_slot(place: str) -> str | None:
    """The role of a slot; None for one that goes by its pod's name."""
    role, _, _ = place.partition("/")
    return None if role == "name" else role


def ranks(pods: Sequence[Pod], size: int, known: Mapping[str, int], taken: set[int]) -> list[int]:
    """A rank for each of ``pods`` (in rank order): its slot's own if free, else the lowest free.

    ``known`` are ranks by slot from earlier; ``taken`` are ranks of living members.
    """
    own = {}
    used = set(taken)
    for pod in pods:
        rank = known.get(slot(pod))
        if rank is not None and rank not in used:
            own[pod.uid] = rank
            used.add(rank)
    free = (rank for rank in range(len(pods) + len(used) + size) if rank not in used)
    return [own[pod.uid] if pod.uid in own else next(free) for pod in pods]
