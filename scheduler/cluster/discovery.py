"""Which kinds of PodGroup and of topology object the API server serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from scheduler.cluster.reflector import RefusedError
from scheduler.cluster.resources import POD_GROUPS, TOPOLOGIES, Resource, pod_groups
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


def served_kinds(transport: Transport) -> list[Resource]:
    """The PodGroups and topology objects that are served, each in the preferred version.

    Raises ClusterError if the API server does not say.
    """
    found = _get(transport, "/apis", _Groups).groups
    versions = {group.name: {item.version for item in group.versions} for group in found}
    served = (_first_served(transport, wanted, versions) for wanted in _wanted())
    return [resource for resource in served if resource is not None]


class _Wanted(NamedTuple):
    """One kind in the versions that would do, the preferred one first."""

    group: str
    plural: str
    versions: tuple[tuple[str, Resource], ...]


def _wanted() -> Iterator[_Wanted]:
    for group, versions in POD_GROUPS:
        yield _Wanted(group, "podgroups", tuple((one, pod_groups(group, one)) for one in versions))
    for kind in TOPOLOGIES:
        versioned = tuple((one, kind.resource(one)) for one in kind.versions)
        yield _Wanted(kind.group, kind.plural, versioned)


def _first_served(
    transport: Transport, wanted: _Wanted, served: dict[str, set[str]]
) -> Resource | None:
    for version, resource in wanted.versions:
        if version in served.get(wanted.group, ()) and _has(transport, wanted, version):
            return resource
    return None


def _has(transport: Transport, wanted: _Wanted, version: str) -> bool:
    try:
        kinds = _get(transport, f"/apis/{wanted.group}/{version}", _Kinds).resources
    except RefusedError:
        return False
    return any(kind.name == wanted.plural for kind in kinds)


def _get(transport: Transport, path: str, kind: type[T]) -> T:
    answer = transport.get(path)
    if not answer.ok:
        raise RefusedError(f"cannot look up {path}: {answer.text}", answer.retry_after_s)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise ClusterError(f"cannot look up {path}: {error}") from error
