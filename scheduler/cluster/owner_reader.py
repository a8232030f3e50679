"""Reads one workload that pods name as their gang's owner, and makes of it what is told of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from scheduler import decode
from scheduler.cluster.transport import Answer, segment
from scheduler.errors import ClusterError
from scheduler.model import Group, GroupKey

__all__ = ["REFRESH_S", "Getter", "Reader", "Reading", "resource_of"]

REFRESH_S = 60.0
"""How long an answer is good, also one that there is no such object or that it may not be read."""

FIRST_RETRY_S = 1.0
"""Pause after the API server failed; doubles up to ``REFRESH_S``."""

VERSIONS_S = 600.0
"""How long the versions of an API group are remembered."""

log = logging.getLogger(__name__)


class Getter(Protocol):
    """What is needed of a Transport."""

    def get(self, path: str) -> Answer:
        """GET. Raises ClusterError."""


def resource_of(kind: str) -> tuple[str, str]:
    """(API group, resource) of a kind, ``Kind.group``."""
    name, _, group = kind.partition(".")
    return group, f"{name.lower()}s"


@dataclass(frozen=True, slots=True)
class Reading:
    """How one try ended."""

    group: Group | None
    """What to tell; None for nothing new."""
    again_s: float | None = None
    """When to try again by oneself."""
    failed: bool = False


class _Versions(msgspec.Struct):
    """What an API group says of itself."""

    versions: list[dict[str, str]] = []


class Reader:
    """Reads one object, in whichever version is served. Used by one thread."""

    def __init__(self, transport: Getter, clock: Callable[[], float]) -> None:
        self._transport = transport
        self._clock = clock
        self._versions: dict[str, tuple[float, list[str]]] = {}

    def read(self, key: GroupKey, stated: bool, failures: int) -> Reading:
        """The group of an owner; ``stated``: its pods state the minimum themselves."""
        try:
            answer = self._get(key)
            if answer is None or answer.status == 404:
                return Reading(_absent(key, stated), REFRESH_S)
            if answer.ok:
                return Reading(_decoded(key, answer.body))
            if answer.status in (401, 403):
                return Reading(_refused(key, stated, answer.text), REFRESH_S)
            said = answer.text
        except ClusterError as error:
            said = str(error)
        except Exception as error:
            log.exception("reading %s failed", key)
            said = f"internal error: {error!r}"
        again_s = min(FIRST_RETRY_S * 2.0 ** min(failures, 20), REFRESH_S)
        return Reading(None if stated else _unreadable(key, said), again_s, failed=True)

    def _get(self, key: GroupKey) -> Answer | None:
        """The answer of the first version that has it, else the last one; None: nothing served."""
        group, resource = resource_of(key.kind)
        answer = None
        for version in self._served(group):
            path = f"/apis/{group}/{version}/namespaces/{segment(key.namespace)}/{resource}"
            answer = self._transport.get(f"{path}/{segment(key.name)}")
            if answer.status != 404:
                break
        return answer

    def _served(self, group: str) -> list[str]:
        until, versions = self._versions.get(group, (0.0, []))
        if versions and self._clock() < until:
            return versions
        answer = self._transport.get(f"/apis/{group}")
        if answer.status == 404:
            return []
        if not answer.ok:
            raise ClusterError(f"cannot look up /apis/{group}: {answer.text}")
        try:
            found = msgspec.json.decode(answer.body, type=_Versions).versions
        except msgspec.DecodeError as error:
            raise ClusterError(f"cannot look up /apis/{group}: {error}") from error
        versions = [version for item in found if (version := item.get("version"))]
        self._versions[group] = (self._clock() + VERSIONS_S, versions)
        return versions


# ── what is told of an owner ──


def _decoded(key: GroupKey, body: bytes) -> Group:
    try:
        found = decode.group(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if found is None:
        return _unreadable(key, "it is no such object")
    return found if found.key == key else replace(found, key=key)


def _absent(key: GroupKey, stated: bool) -> Group:
    """Nobody says that the pods belong together, unless they do so themselves."""
    return Group(key, "", gang=stated)


def _refused(key: GroupKey, stated: bool, said: str) -> Group:
    """A gang whose size nobody may read must not start in part without a word."""
    group, resource = resource_of(key.kind)
    fault = (
        f"{key} may not be read, so nobody knows how many pods belong together ({said[:200]}); "
        f"allow Muster the verb get on {resource} of the API group {group}, "
        f"or state muster.scheduler/min-available on the pods"
    )
    return Group(key, "", fault="" if stated else fault)


def _unreadable(key: GroupKey, said: str) -> Group:
    fault = f"{key} cannot be read, so nobody knows how many pods belong together: {said[:300]}"
    return Group(key, "", fault=fault)
