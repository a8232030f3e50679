"""The two annotations of a node that its agent writes: how GPUs are linked, and who has which."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from scheduler.core.devices_matrix import (
    MOST_GPUS,
    Link,
    Matrix,
    Nic,
    NodeDevices,
    canonical,
    weaker,
)
from scheduler.core.quoting import quoted

TOPOLOGY_KEY = "muster.scheduler/gpu-topology"
IN_USE_KEY = "muster.scheduler/gpus-in-use"
VERSION = 1

LATEST_S = 1 << 40
"""Seconds since the epoch; later than any clock."""

_PAIR = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
_UUID = re.compile(r"(?!(?:all|none|void|[0-9]+)$)[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
"""One device in a list of them: no comma, and no word or number that means other devices."""
T = TypeVar("T")

Indexes = tuple[int, ...]
"""Of GPUs, ascending."""


@dataclass(frozen=True, slots=True)
class InUse:
    """Who has which GPUs of a node."""

    by_uid: Mapping[str, Indexes] = field(default_factory=dict)
    by_name: Mapping[str, Indexes] = field(default_factory=dict)
    """``namespace/name`` of pods, where uids were not to be had."""
    at: int = 0
    """When names were read: seconds since the epoch, rounded down, by the node's clock."""

    def of(self, uid: str, name: str = "", started: float = 0.0) -> Indexes | None:
        """The GPUs of one pod that is on the node, None if it is not in here.

        A name counts only for a pod that the node's kubelet had accepted when names were read
        (``status.startTime``, by the same clock, in whole seconds): one that came later is another
        pod of that name, such as the next one of a StatefulSet.
        """
        named = self.by_name.get(name) if 0 < started < self.at else None
        return self.by_uid.get(uid, named)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why an annotation is as good as none."""

    reason: str


class _NotReadableError(Exception):
    """The same, on its way out of this module."""


def write_topology(devices: NodeDevices) -> str:
    """The text of ``muster.scheduler/gpu-topology``; the same devices give the same text."""
    matrix = devices.matrix
    written: dict[str, Any] = {
        "v": VERSION,
        "gpus": matrix.gpus,
        "links": {f"{link.first}-{link.second}": link.word for link in sorted(matrix.links)},
        "numa": [matrix.numa_of(gpu) for gpu in range(matrix.gpus)],
        "nics": [nic._asdict() for nic in matrix.nics],
        "uuids": list(devices.uuids),
    }
    if matrix.mig:
        written["mig"] = list(matrix.mig)
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False)


def write_in_use(in_use: InUse) -> str:
    """The text of ``muster.scheduler/gpus-in-use``; the same use gives the same text."""
    written: dict[str, Any] = {"v": VERSION, "in_use": _by_pod(in_use.by_uid)}
    if in_use.at:
        written |= {"by_name": _by_pod(in_use.by_name), "at": in_use.at}
    return json.dumps(written, separators=(",", ":"), ensure_ascii=False)


def _by_pod(gpus: Mapping[str, Indexes]) -> dict[str, list[int]]:
    return {pod: sorted(gpus[pod]) for pod in sorted(gpus)}


@lru_cache(maxsize=8192)
def read_topology(text: str) -> NodeDevices | Unreadable:
    """What the annotation says. Fields that are not known are ignored; a later version is not."""
    return _guarded(text, _devices)


@lru_cache(maxsize=8192)
def read_in_use(text: str) -> InUse | Unreadable:
    """Who has which GPUs."""
    return _guarded(text, _in_use)


def parse_annotation(text: str) -> NodeDevices | None:
    """What ``muster.scheduler/gpu-topology`` says; a bad one is as good as none.

    `read_topology` says why.
    """
    read = read_topology(text)
    return None if isinstance(read, Unreadable) else read


def parse_in_use(text: str) -> InUse | None:
    """What ``muster.scheduler/gpus-in-use`` says; a bad one is as good as none."""
    read = read_in_use(text)
    return None if isinstance(read, Unreadable) else read


def _guarded(text: str, read: Callable[[Mapping[str, Any]], T]) -> T | Unreadable:
    try:
        return read(_object(text))
    except _NotReadableError as error:
        return Unreadable(str(error))
    except RecursionError:
        return Unreadable("is nested too deeply")


def _object(text: str) -> Mapping[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _NotReadableError("is no JSON") from error
    if not isinstance(raw, dict):
        raise _NotReadableError(f"is {quoted(raw)}, not an object")
    if raw.get("v") is True or raw.get("v") != VERSION:
        raise _NotReadableError(f"v is {quoted(raw.get('v'))}; only version {VERSION} is known")
    return raw


def _devices(raw: Mapping[str, Any]) -> NodeDevices:
    matrix = _matrix(json.dumps({key: value for key, value in raw.items() if key != "uuids"}))
    return NodeDevices(matrix, _uuids(raw.get("uuids", []), matrix.gpus))


@lru_cache(maxsize=1024)
def _matrix(text: str) -> Matrix:
    """All but the UUIDs, which nodes of one make have in common: read once, and one object."""
    raw = json.loads(text)
    gpus = _integer(raw.get("gpus"), "gpus", MOST_GPUS)
    return Matrix(
        gpus=gpus,
        links=_links(raw.get("links", {}), gpus),
        numa=_numa(raw.get("numa"), gpus),
        nics=tuple(_nic(nic, gpus) for nic in _list(raw.get("nics", []), "nics")),
        mig=_indexes(raw.get("mig", []), "mig", gpus),
    )


def _links(raw: Any, gpus: int) -> tuple[Link, ...]:
    if not isinstance(raw, dict):
        raise _NotReadableError(f"links is {quoted(raw)}, not an object")
    found: dict[tuple[int, int], str] = {}
    for key, word in raw.items():
        pair = _pair(key, gpus)
        # A word of a later driver: the pair counts as SYS, the rest is of use all the same.
        if known := canonical(_text(word, f"links[{quoted(key)}]")):
            found[pair] = weaker(found.get(pair, known), known)
    return tuple(Link(*pair, word) for pair, word in sorted(found.items()))


def _pair(key: str, gpus: int) -> tuple[int, int]:
    match = _PAIR.fullmatch(key)
    first, second = sorted(map(int, match.groups())) if match else (0, 0)
    if first == second or second >= gpus:
        raise _NotReadableError(f"links has {quoted(key)}, which is no pair of {gpus} GPUs")
    return first, second


def _numa(raw: Any, gpus: int) -> tuple[int | None, ...]:
    if raw is None:
        return (None,) * gpus
    found = tuple(_numa_node(node, "numa") for node in _list(raw, "numa"))
    if len(found) != gpus:
        raise _NotReadableError(f"numa has {len(found)} entries for {gpus} GPUs")
    return found


def _numa_node(raw: Any, name: str) -> int | None:
    # -1 is the kernel's own word for "none".
    return None if raw is None or raw == -1 else _integer(raw, name, 1 << 16)


def _nic(raw: Any, gpus: int) -> Nic:
    if not isinstance(raw, dict):
        raise _NotReadableError(f"nics has {quoted(raw)}, not an object")
    return Nic(
        _text(raw.get("name"), "nics[].name"),
        _numa_node(raw.get("numa"), "nics[].numa"),
        _indexes(raw.get("near", []), "nics[].near", gpus),
    )


def _uuids(raw: Any, gpus: int) -> tuple[str, ...]:
    found = tuple(_text(uuid, "uuids") for uuid in _list(raw, "uuids"))
    if len(found) not in (0, gpus):
        raise _NotReadableError(f"uuids has {len(found)} entries for {gpus} GPUs")
    for uuid in found:
        if not _UUID.fullmatch(uuid):
            raise _NotReadableError(f"uuids has {quoted(uuid)}, which names no single GPU")
    if len(set(found)) != len(found):
        raise _NotReadableError("uuids names a GPU twice: it would be given to two pods")
    return found


def _in_use(raw: Mapping[str, Any]) -> InUse:
    by_uid = _pods(raw.get("in_use"), "in_use")
    by_name = _pods(raw.get("by_name", {}), "by_name")
    return InUse(by_uid, by_name, _integer(raw.get("at", 0), "at", LATEST_S))


def _pods(raw: Any, name: str) -> Mapping[str, Indexes]:
    if not isinstance(raw, dict):
        raise _NotReadableError(f"{name} is {quoted(raw)}, not an object")
    return {pod: _indexes(gpus, f"{name}[{quoted(pod)}]", MOST_GPUS) for pod, gpus in raw.items()}


def _indexes(raw: Any, name: str, below: int) -> Indexes:
    return tuple(sorted({_integer(index, name, below - 1) for index in _list(raw, name)}))


def _list(raw: Any, name: str) -> Sequence[Any]:
    if not isinstance(raw, list):
        raise _NotReadableError(f"{name} is {quoted(raw)}, not a list")
    return raw


def _integer(raw: Any, name: str, most: int) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= most:
        raise _NotReadableError(f"{name} has {quoted(raw)}, which is no number from 0 to {most}")
    return raw


def _text(raw: Any, name: str) -> str:
    if not isinstance(raw, str):
        raise _NotReadableError(f"{name} has {quoted(raw)}, not a text")
    if not raw.isprintable():
        # Half of a surrogate pair, for one, cannot be written into anybody's hint.
        raise _NotReadableError(f"{name} has {quoted(raw)}, which cannot be printed")
    return raw
