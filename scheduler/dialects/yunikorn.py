"""YuniKorn: pods of an application in task groups, which the first pod defines for all.

An application without task groups is no gang there, and none here.
"""

from __future__ import annotations

import re
from dataclasses import replace

from scheduler.core.quoting import quoted
from scheduler.dialects import values
from scheduler.dialects.fields import Fault, mapping, text
from scheduler.dialects.source import Found, PodSource
from scheduler.dialects.source import no_group as read_group
from scheduler.dialects.tables import Table, read_table, read_values
from scheduler.model import Declaration, Options

__all__ = ["KINDS", "NAME", "OWNERS", "read_group", "read_pod"]

NAME = "yunikorn"
KINDS: tuple[str, ...] = ()
OWNERS: tuple[str, ...] = ()

_KIND = "Application.yunikorn.apache.org"
_PREFIX = "yunikorn.apache.org/"
_TASK_GROUP = _PREFIX + "task-group-name"
_TASK_GROUPS = _PREFIX + "task-groups"
_POLICY = _PREFIX + "schedulingPolicyParameters"
_APPLICATION = (_PREFIX + "app-id", "applicationId", "spark-app-selector")
_TIMEOUT = re.compile(r"(?:^|\s)placeholderTimeoutInSeconds=(\S+)")


def read_pod(source: PodSource) -> Found:
    """The application as a gang, its task groups as roles."""
    if source.value(_TASK_GROUP) is None and source.value(_TASK_GROUPS) is None:
        return None
    name = _application(source)
    if name is None or isinstance(name, Fault):
        return name
    options = _options(source)
    if isinstance(options, Fault):
        return options
    return Declaration(name, NAME, options, kind=_KIND)


def _application(source: PodSource) -> str | Fault | None:
    for key in _APPLICATION:
        if (value := source.value(key)) is not None:
            name = values.group_name(value)
            return Fault(f"{key}: {name.reason}") if isinstance(name, Fault) else name
    return None


def _options(source: PodSource) -> Options | Fault:
    found = read_table({key: source.value(key) for key in _KEYS}, _KEYS)
    if isinstance(found, Fault):
        return found
    total = sum(number for _, number in found.role_min)
    # A Spark driver makes its executors itself, once it runs.
    drives = source.labels.get("spark-role") == "driver" and total > 1
    return replace(found, min_available=total or None, first=1 if drives else None)


def _task_groups(value: object) -> tuple[tuple[str, int], ...] | Fault:
    groups = values.json_value(value)
    if not isinstance(groups, list) or not groups:
        return Fault(f"{quoted(value)} is not a JSON list of task groups")
    found: dict[str, int] = {}
    for at, group in enumerate(map(mapping, groups)):
        task = read_values(group, {"name": values.name, "minMember": values.index}, f"[{at}].")
        if isinstance(task, Fault):
            return task
        if task["name"] in found:
            return Fault(f"[{at}].name: {quoted(task['name'])} is there twice")
        found[task["name"]] = task["minMember"]
    return tuple(sorted(found.items()))


def _timeout(value: object) -> float | Fault | None:
    found = _TIMEOUT.search(text(value))
    return None if found is None else values.duration(found[1])


_KEYS: Table = {
    _TASK_GROUP: ("role", values.name),
    _TASK_GROUPS: ("role_min", _task_groups),
    _POLICY: ("timeout", _timeout),
}
