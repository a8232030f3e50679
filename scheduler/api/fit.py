"""Reads what ``POST /v1/fit`` asks about: pods that do not exist yet, and what describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from scheduler import decode
from scheduler.core.asking import MOST_PODS, TOO_MANY_PODS
from scheduler.core.kinds import kind_of
from scheduler.core.quoting import quoted
from scheduler.dialects.laying import lay
from scheduler.errors import DecodeError
from scheduler.model import Constraints, Group, GroupKey, Pod

BODY_LIMIT = 16 << 20
"""Bytes of a request."""

MARKS = 2_400_000
"""Commas, colons and opening brackets of a request, those in its strings included. What each begins
takes up to 200 bytes of memory once it is read, however short it was; pods have one for every eight
bytes."""

KINDS = 64
"""Kinds of pods of a request, those of each gang by themselves."""

DEMANDS = 2_000
"""What all kinds of pods of a request may ask of nodes: each of it is compared with every node, by
which the planner is held up."""

VALUES_A_DEMAND = 50
"""Values of one expression that take as long to compare as one more demand."""

NAMED = 3
"""Pods that a warning names."""


def read(body: bytes) -> list[Pod]:
    """The pods of a request: a list of them, or ``{"pods": […], "objects": […]}``.

    ``objects`` are the Jobs, PodGroups and the like that say how large a gang is, as they would be
    applied. Raises DecodeError, which names the pod.
    """
    pods, objects = _parts(body)
    if not pods:
        raise DecodeError("there are no pods in it; send a list of pods, or an object with 'pods'")
    if len(pods) > MOST_PODS:
        raise DecodeError(TOO_MANY_PODS)
    groups = {group.key: group for obj in objects if (group := decode.group(obj)) is not None}
    found = [_described(_pod(at, obj), groups) for at, obj in enumerate(pods)]
    _bound(found)
    return found


def warnings(pods: Sequence[Pod], scheduler_names: Sequence[str]) -> list[str]:
    """What makes the answer worth less: pods that Muster would not place at all."""
    foreign = [pod for pod in pods if pod.scheduler not in scheduler_names]
    if not foreign:
        return []
    names = ", ".join(pod.key for pod in foreign[:NAMED])
    more = f" and {len(foreign) - NAMED} more" if len(foreign) > NAMED else ""
    asked = quoted(foreign[0].scheduler or "default-scheduler")
    return [
        f"{names}{more}: schedulerName is {asked}, so Muster would not place them; "
        f"set spec.schedulerName to {scheduler_names[0]!r}"
    ]


def _bound(pods: Sequence[Pod]) -> None:
    """Raises DecodeError if there are too many kinds of pods."""
    many = len({(_gang_of(pod), kind_of(pod)) for pod in pods})
    if many > KINDS:
        raise DecodeError(
            f"{many} kinds of pods are too many; at most {KINDS} are judged at once, where pods of "
            "one gang that ask for the same are of one kind: ask about fewer"
        )
    asked = sum(map(_demands, {pod.constraints for pod in pods}))
    if asked > DEMANDS:
        raise DecodeError(
            f"{asked} conditions on nodes (in affinity, selectors, tolerations) are too many; at "
            f"most {DEMANDS} are judged at once: ask about fewer kinds of pods, or simplify them"
        )


def _demands(constraints: Constraints) -> int:
    terms = constraints.terms or ()
    required = [asked for term in terms for asked in (*term.expressions, *term.fields)]
    values = sum(len(asked.values) for asked in required)
    others = len(constraints.selector) + len(constraints.tolerations) + len(constraints.ports)
    return len(terms) + len(required) + values // VALUES_A_DEMAND + others


def _gang_of(pod: Pod) -> object:
    stated = pod.declaration
    return stated and (pod.namespace, stated.kind, stated.name)


def _parts(body: bytes) -> tuple[list[Any], list[Any]]:
    if sum(map(body.count, (b",", b":", b"[", b"{"))) > MARKS:
        raise DecodeError("there are more values in it than pods have: ask about fewer")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DecodeError(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the body is nested too deeply") from error
    if isinstance(found, list):
        return found, []
    if not isinstance(found, dict):
        raise DecodeError("the body must be a list of pods, or an object with 'pods'")
    return _list_in(found, "pods"), _list_in(found, "objects")


def _list_in(found: Mapping[str, Any], name: str) -> list[Any]:
    value = found.get(name, [])
    if not isinstance(value, list):
        raise DecodeError(f"{name}: {quoted(value)} is not a list")
    return value


def _pod(at: int, obj: Any) -> Pod:
    try:
        return decode.pod(obj)
    except DecodeError as error:
        raise DecodeError(f"pods[{at}]: {error}") from error


def _described(pod: Pod, groups: Mapping[GroupKey, Group]) -> Pod:
    """The pod with what its group's object says, if that came along."""
    stated = pod.declaration
    group = groups.get(stated.group) if stated and stated.group else None
    if stated is None or group is None:
        return pod
    if group.fault:
        return replace(pod, fault=f"{group.key}: {group.fault}")
    if not group.gang:
        return replace(pod, declaration=None)
    options = lay(group.options, stated.options)
    return replace(pod, declaration=replace(stated, options=options, group=None))
