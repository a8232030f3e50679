"""What members say that cannot be followed: told to people, and in nobody's way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields

from scheduler.core import cliques, presets, ranking
from scheduler.core.cutting import cut_members
from scheduler.core.gang import HELD, Gang, Status
from scheduler.core.quoting import bounded
from scheduler.core.state import State
from scheduler.model import Options, Pod

MOST = 8
"""Remarks that are told of one gang."""

_KEYS = {
    "required": "topology-required",
    "preferred": "topology-preferred",
    "relax_after": "topology-relax-after",
    "segment_level": "segment-topology",
    "segment_within": "larger segments",
    "nvlink": "nvlink-domain",
    "gpu_preferred": "gpu-model-preferred",
}
"""Options whose key is called otherwise."""

_UNSAID: set[object] = {None, "", ()}

_BY_MEMBER = ("role", "gpu_required", "exact_gpus")
"""What each member says for itself alone."""


def of(state: State, gang: Gang) -> list[str]:
    """All remarks about a gang, for people. O(members)."""
    living = [state.pods[uid] for item in (*HELD, Status.WAITING) for uid in gang.by_status[item]]
    counts = gang.life.options if gang.life else Options()
    unread = sorted({text for pod in living for text in pod.warnings})
    groups = [state.groups[key] for key in sorted(gang.groups) if key in state.groups]
    unkept = [f"{group.key}: {text}" for group in groups for text in group.warnings]
    said = [*disagreements(gang.declared, counts), *_segments(state, gang, living)]
    said += [*_in_vain(state, counts), *_indexes(living)]
    return [bounded(text) for text in (*said, *unread, *unkept)][:MOST]


def disagreements(declared: Iterable[Options], counts: Options) -> list[str]:
    """In what members differ, and which of it ``counts``; not to say a thing is not to differ."""
    said = list(declared)
    if len(said) < 2:
        return []
    names = [item.name for item in fields(Options) if item.name not in _BY_MEMBER]
    stated = {name: {getattr(options, name) for options in said} - _UNSAID for name in names}
    return [
        f"members differ in {_key(name)}: {' and '.join(sorted(map(_shown, values))[:4])}; "
        f"{_shown(getattr(counts, name))} counts"
        for name, values in stated.items()
        if len(values) > 1
    ]


def _segments(state: State, gang: Gang, pods: Sequence[Pod]) -> list[str]:
    """Segments of members that are not alike are not placed as such."""
    size = gang.life.options.segment_size if gang.life else None
    if not pods or size is None or size < 2 or cut_members(state, gang, pods):
        return []
    return ["segment-size has no effect: the members ask for different things"]


def _in_vain(state: State, counts: Options) -> list[str]:
    """What means nothing: without another key that is not there, or on these nodes."""
    found = []
    if counts.segment_level and counts.segment_size is None:
        found.append("segment-topology has no effect: no segment-size says how many members share")
    if counts.relax_after is not None and not counts.required:
        found.append("topology-relax-after has no effect: no level is required")
    named, topology = counts.preferred, state.topology()
    others = cliques.NAMES | presets.HOST_NAMES
    if named and named not in others and topology.resolve(named) is None:
        known = ", ".join(topology.levels) or "none"
        found.append(
            f"topology-preferred has no effect: level {named!r} is unknown; known levels: {known}"
        )
    return found


def _key(name: str) -> str:
    return _KEYS.get(name, name.replace("_", "-"))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _indexes(pods: Sequence[Pod]) -> list[str]:
    """Indexes that two members of a role, or of a Job, have: none of the role is used."""
    stated = [pod for pod in pods if pod.index is not None]
    given = Counter((ranking.role_of(pod), pod.job, pod.index) for pod in stated)
    doubled = sorted(place for place, count in given.items() if count > 1)
    return [
        f"{given[role, job, index]} members{f' of role {role}' if role else ''} have the index "
        f"{index}; they are ranked by name"
        for role, job, index in doubled[:1]
    ]
