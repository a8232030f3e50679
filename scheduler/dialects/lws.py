"""LeaderWorkerSet: each of its groups is a gang, of a leader and its workers.

The workers are made when the leader exists; with the start-up policy LeaderReady, when it is ready;
with an exclusive topology, when it is placed.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping
from scheduler.dialects.laying import lay, only_hard_segments
from scheduler.dialects.source import Found, GroupTerms, PodSource
from scheduler.dialects.tables import Table, read_table
from scheduler.model import Declaration, GroupKey, Options

__all__ = ["KINDS", "NAME", "OWNERS", "made_group", "read_group", "read_pod"]

NAME = "leaderworkerset"
KIND = "LeaderWorkerSet.leaderworkerset.x-k8s.io"
KINDS: tuple[str, ...] = ()
OWNERS = (KIND,)

_PREFIX = "leaderworkerset.sigs.k8s.io/"
_SET = _PREFIX + "name"
_GROUP = _PREFIX + "group-index"
_SIZE = _PREFIX + "size"
_EXCLUSIVE = _PREFIX + "exclusive-topology"

_ANNOTATIONS: Table = {
    _SIZE: ("size", values.count),
    _EXCLUSIVE: ("required", values.level),
    _PREFIX + "subgroup-size": ("segment_size", values.count),
    _PREFIX + "subgroup-exclusive-topology": ("segment_level", values.level),
}


def read_pod(source: PodSource) -> Found:
    """The group that the pod is in, with its size."""
    stated = source.value(_SET)
    if stated is None:
        return None
    name, group = values.name(stated), values.index(source.value(_GROUP))
    if isinstance(name, Fault):
        return Fault(f"{_SET}: {name.reason}")
    if isinstance(group, Fault):
        return Fault(f"{_GROUP}: {quoted(source.value(_GROUP))} is not the index of a group")
    options = read_table(source.annotations, _ANNOTATIONS)
    if isinstance(options, Fault):
        return options
    key = GroupKey(KIND, source.namespace, name)
    laid = lay(_subgroups(options), _phases(options))
    return Declaration(f"{name}-{group}", NAME, laid, key, KIND)


def made_group(source: PodSource, group: str) -> bool:
    """Whether a PodGroup of this name is one that the controller made of the pod's own group.

    With LeaderReady its minimum is the leader alone, and would tell nothing of the workers.
    """
    return group.startswith(f"{source.value(_SET)}-{source.value(_GROUP)}-")


def read_group(obj: Json) -> GroupTerms:
    """Only the start-up policy: the size is on the pods."""
    spec = mapping(obj.get("spec"))
    size = mapping(spec.get("leaderWorkerTemplate")).get("size")
    number = 1 if size is None else values.count(size)
    if isinstance(number, Fault):
        return GroupTerms(fault=f"spec.leaderWorkerTemplate.size: {number.reason}")
    waits = spec.get("startupPolicy") == "LeaderReady" and number > 1
    return GroupTerms(Options(min_available=number, size=number, first=1 if waits else None))


def _subgroups(options: Options) -> Options:
    """Subgroups that must share a domain are segments, if all of a group are of one size.

    A leader beside whole subgroups belongs to the first one or to none, which the policy says and
    a segment cannot; the affinities that the controller gives its pods say it all the same.
    """
    if options.segment_size and (options.size or 0) % options.segment_size:
        return replace(options, segment_size=None, segment_level="")
    return only_hard_segments(options)


def _phases(options: Options) -> Options:
    waits = options.required and (options.size or 0) > 1
    return Options(min_available=options.size, first=1 if waits else None)
