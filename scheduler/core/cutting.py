"""Which members segments are made of: those that say so, all alike. The others stand beside them.

A launcher, or the master of a PyTorchJob, is most often not meant: Kueue's slices and KAI's
segments are stated by the workers' template alone, and counted from its first pod.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.core import hints, ranking
from scheduler.core.gang import HELD, Gang, Status
from scheduler.core.kinds import Kind
from scheduler.core.ranking import HEADS
from scheduler.core.rooming import kinds_of
from scheduler.core.state import State
from scheduler.model import Pod

__all__ = ["cut_members", "first_rank", "ranks_now", "states_segments"]


def cut_members(state: State, gang: Gang, pods: Sequence[Pod]) -> list[Pod]:
    """Those of the pods that make up segments; none if the gang's segments cannot be kept.

    They are the members that state a size, or all where none does (a group object did then). Of
    several kinds of them, those with accelerators count; if these differ, nobody can say what a
    segment is of. O(members).
    """
    living = [state.pods[uid] for item in (*HELD, Status.WAITING) for uid in gang.by_status[item]]
    everyone = {pod.uid: pod for pod in (*living, *pods)}.values()
    stating = [pod for pod in everyone if states_segments(pod)] or list(everyone)
    kinds = kinds_of(state, gang, stating)
    if len(kinds) > 1:
        kinds = {kind: of for kind, of in kinds.items() if _has_accelerators(state, kind)}
    if len(kinds) != 1:
        return []
    uids = {pod.uid for of in kinds.values() for pod in of}
    return [pod for pod in pods if pod.uid in uids]


def states_segments(pod: Pod) -> bool:
    """Whether the pod itself says of how many members a segment is."""
    return pod.declaration is not None and pod.declaration.options.segment_size is not None


def first_rank(gang: Gang, cut: Sequence[Pod], ranks: Mapping[str, int]) -> int:
    """The rank from which segments are counted: how many members of others come before.

    ``cut``: members of segments; ``ranks``: uid -> rank of all that live or are about to. Others
    that are gone count as long as they are remembered: those of a role that still has such members,
    and heads, of which there is often one alone.
    """
    mine = {pod.uid for pod in cut}
    lowest = min((rank for uid, rank in ranks.items() if uid in mine), default=0)
    apart = {gang.roles.get(uid, "") for uid in gang.members if uid not in mine} | set(HEADS)
    apart -= {ranking.role_of(pod) for pod in cut}
    others = {rank for uid, rank in ranks.items() if uid not in mine}
    others |= {
        rank for slot, rank in gang.memory.ranks.items() if ranking.role_of_slot(slot) in apart
    }
    return sum(rank < lowest for rank in others)


def ranks_now(state: State, gang: Gang) -> dict[str, int]:
    """Uid -> rank of the members that live or are about to, as far as it is known."""
    found = {uid: hints.rank_of(state.pods[uid].hint) for uid in gang.by_status[Status.SEATED]}
    found |= {uid: state.reservations[uid].rank for uid in gang.reserved}
    return {uid: rank for uid, rank in found.items() if rank is not None}


def _has_accelerators(state: State, kind: Kind) -> bool:
    return any(amount and state.is_accelerator(name) for name, amount in kind.requests)
