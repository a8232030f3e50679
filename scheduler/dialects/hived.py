"""HiveD: an affinity group in a YAML annotation."""

from __future__ import annotations

from typing import Any

import yaml

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, Json, mapping, sequence, text
from scheduler.dialects.source import Found, PodSource
from scheduler.dialects.source import no_group as read_group
from scheduler.model import Declaration, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "hived"
KINDS: tuple[str, ...] = ()
OWNERS: tuple[str, ...] = ()

_SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
_KIND = "AffinityGroup.hivedscheduler.microsoft.com"
_LONGEST = 16_384
"""Characters of the annotation; a real one has some hundred."""


class _Loader(yaml.SafeLoader):
    """Plain values only: an alias could blow a few bytes up to all of the memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def read_pod(source: PodSource) -> Found:
    """The affinity group; a pod without one is alone."""
    stated = source.annotations.get(_SPEC)
    if stated is None:
        return None
    spec = _loaded(stated)
    if not isinstance(spec, dict):
        return Fault(f"{_SPEC}: {quoted(stated)} is not a YAML object")
    group = spec.get("affinityGroup")
    return None if group is None else _declared(mapping(group))


def _loaded(stated: object) -> object:
    if not isinstance(stated, str) or len(stated) > _LONGEST:
        return None
    try:
        return yaml.load(stated, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, LookupError):
        return None


def _declared(group: Json) -> Declaration | Fault:
    # Names such as ``team/job`` are common there and none of Kubernetes.
    name = values.name(text(group.get("name")).replace("/", "."))
    if isinstance(name, Fault):
        return Fault(f"{_SPEC}: affinityGroup.name: {name.reason}")
    total = 0
    for at, member in enumerate(map(mapping, sequence(group.get("members")))):
        number = values.count(member.get("podNumber"))
        if isinstance(number, Fault):
            return Fault(f"{_SPEC}: affinityGroup.members[{at}].podNumber: {number.reason}")
        total += number
    options = Options(min_available=total or None, size=total or None)
    return Declaration(name, NAME, options, kind=_KIND)
