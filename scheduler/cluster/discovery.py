"""Which kinds of PodGroup the API server serves."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from scheduler.cluster.reflector import RefusedError
from scheduler.cluster.resources import POD_GROUPS, Resource, pod_groups
from scheduler.cluster.transport import Transport
from scheduler.errors import ClusterError

T = TypeVar("T")


class _Version(Struct):
    version: str


class _Group(Struct):
    name: str
    versions: list[_Version]


class _Groups(Struct):
    groups: list[_Group] = []


class _Kind(Struct):
    name: str


class _Kinds(Struct):
    resources: list[_Kind] = []


def served_pod_groups(transport: Transport) -> list[Resource]:
    """The PodGroups that are served, each in the preferred version that has them.

    Raises ClusterError if the API server does not say.
    """
    found = _get(transport, "/apis", _Groups).groups
    versions = {group.name: {item.version for item in group.versions} for group in found}
    served = (_first_served(transport, group, wanted, versions) for group, wanted in POD_GROUPS)
    return [resource for resource in served if resource is not None]


def _first_served(
    transport: Transport, group: str, wanted: tuple[str, ...], served: dict[str, set[str]]
) -> Resource | None:
    for version in wanted:
        if version in served.get(group, ()) and _has_pod_groups(transport, group, version):
            return pod_groups(group, version)
    return None


def _has_pod_groups(transport: Transport, group: str, version: str) -> bool:
    try:
        kinds = _get(transport, f"/apis/{group}/{version}", _Kinds).resources
    except RefusedError:
        return False
    return any(kind.name == "podgroups" for kind in kinds)


def _get(transport: Transport, path: str, kind: type[T]) -> T:
    answer = transport.get(path)
    if not answer.ok:
        raise RefusedError(f"cannot look up {path}: {answer.text}", answer.retry_after_s)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise ClusterError(f"cannot look up {path}: {error}") from error
