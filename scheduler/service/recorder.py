"""Writes what a live service sees and is asked as a file that ``muster replay`` reads."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scheduler.core.messages import (
    Bind,
    BindCall,
    ChartGone,
    ChartSeen,
    ClearNomination,
    Effect,
    EffectDone,
    Event,
    Evict,
    Filter,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    Nominate,
    Outcome,
    PodGone,
    PodSeen,
    Preempt,
    Prioritize,
    Synced,
    Wake,
)
from scheduler.dialects import kind_of
from scheduler.model import GroupKey, Pod
from scheduler.settings import Settings

Json = dict[str, Any]
Slot = tuple[str, str, str]
"""Kind with its API group, namespace, name."""

_EFFECTS: Mapping[type, str] = {
    Bind: "bind",
    Nominate: "nominate",
    ClearNomination: "clear",
    Wake: "wake",
    Evict: "evict",
}


def snapshot_lines(settings: Settings, objects: Iterable[Json]) -> Iterator[str]:
    """A replay file that lists these API objects and prints the state that follows from them."""
    yield _line(_config(settings, auto=True))
    for obj in objects:
        yield _line({"op": "object", "object": trimmed(obj)})
    yield _line({"op": "synced"})
    yield _line({"op": "state"})


_PRIVATE = frozenset(
    {"managedFields", "images", "command", "args", "envFrom", "volumeMounts", "lifecycle"}
)
"""Fields that no decision depends on and nobody should have to publish with a bug report."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SIZES = re.compile(r"PET_[A-Z_]+|(LWS_)?(GROUP|WORLD)_SIZE|NNODES")
"""Environment variables that say how large a gang is; all others are left out."""


def trimmed(obj: Any) -> Any:
    """The object without commands, environment and what else is private, at any depth."""
    if isinstance(obj, list):
        return [trimmed(item) for item in obj]
    if not isinstance(obj, dict):
        return obj
    kept = {key: trimmed(value) for key, value in obj.items() if key not in _PRIVATE}
    kept.pop(_LAST_APPLIED, None)
    if isinstance(kept.get("env"), list):
        kept["env"] = [entry for entry in kept["env"] if _is_size(entry)]
    return kept


def _is_size(entry: object) -> bool:
    return isinstance(entry, dict) and bool(_SIZES.fullmatch(str(entry.get("name"))))


def _config(settings: Settings, *, auto: bool) -> Json:
    values = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(settings).items()}
    return {"op": "config", "auto": auto, **values}


def _line(op: Json) -> str:
    return json.dumps(op, separators=(",", ":"), ensure_ascii=False)


class Recorder:
    """Records every step of an engine in order; ``write`` takes one line without its newline.

    ``keep`` is given API objects as they arrive, and ``step`` writes the newest one of the object
    that an event is about. The replay of the file feeds the same events at the same times.
    """

    def __init__(self, settings: Settings, write: Callable[[str], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._objects: dict[Slot, Json] = {}
        self._pods: dict[str, Slot] = {}
        self._open: dict[int, tuple[str, str]] = {}
        self._now: float | None = None
        self._write(_line(_config(settings, auto=False)))
        self._write(_line({"op": "cold"}))

    def keep(self, api_version: str, kind: str, raw: bytes) -> None:
        """An object as the API server sent it; list items do not say their kind themselves."""
        obj = trimmed({"apiVersion": api_version, "kind": kind, **json.loads(raw)})
        meta = obj["metadata"]
        with self._lock:
            slot = (kind_of(obj), meta.get("namespace", ""), meta["name"])
            self._objects[slot] = obj

    def step(self, event: Event, effects: Sequence[Effect], now: float) -> None:
        """One step, as it was taken; called in the engine's order."""
        ops = list(self._ops(event))
        if ops and self._now is not None and now > self._now:
            self._write(_line({"op": "advance", "seconds": round(now - self._now, 6)}))
        if ops or self._now is None:
            self._now = now
        for op in ops:
            self._write(_line(op))
        for effect in effects:
            if (kind := _EFFECTS.get(type(effect))) is not None:
                self._open[effect.id] = (kind, str(getattr(effect, "ref", "")))

    def _ops(self, event: Event) -> Iterator[Json]:
        match event:
            case NodeSeen():
                yield from self._object("node", ("Node", "", event.node.name))
            case PodSeen():
                yield from self._pod(event.pod)
            case GroupSeen():
                yield from self._object("object", _slot(event.group.key))
            case ChartSeen():
                yield from self._object("object", _slot(event.chart.key))
            case ChartGone():
                yield _delete(_slot(event.key))
            case NodeGone():
                yield _delete(("Node", "", event.name))
            case PodGone() if event.uid in self._pods:
                yield _delete(self._pods.pop(event.uid)) | {"uid": event.uid}
            case GroupGone():
                yield _delete(_slot(event.key))
            case Synced():
                yield {"op": "synced"}
            case _:
                yield from self._call(event)

    def _call(self, event: Event) -> Iterator[Json]:
        match event:
            case Filter() | Prioritize():
                name = "filter" if isinstance(event, Filter) else "prioritize"
                yield {"op": name, "pod": str(event.ref), "nodes": list(event.names)}
            case BindCall():
                ref = event.ref
                yield {"op": "bind", "pod": str(ref), "node": event.node, "uid": ref.uid}
            case Preempt():
                victims = {node: list(uids) for node, uids in event.victims.items()}
                yield {"op": "preempt", "pod": str(event.ref), "victims": victims}
            case EffectDone() if event.id in self._open:
                kind, pod = self._open.pop(event.id)
                outcome = event.outcome
                # A Binding that was cancelled in time never reached the API server.
                result = "error" if outcome is Outcome.CANCELLED else outcome.value
                yield {"op": "outcome", "effect": kind, "pod": pod, "result": result}

    def _object(self, op: str, slot: Slot) -> Iterator[Json]:
        with self._lock:
            obj = self._objects.get(slot)
        if obj is not None:
            yield {"op": op, "object": obj}

    def _pod(self, pod: Pod) -> Iterator[Json]:
        slot = ("Pod", pod.namespace, pod.name)
        self._pods[pod.uid] = slot
        yield from self._object("pod", slot)


def _slot(key: GroupKey) -> Slot:
    return key.kind, key.namespace, key.name


def _delete(slot: Slot) -> Json:
    kind, namespace, name = slot
    return {"op": "delete", "kind": kind, "namespace": namespace, "name": name}
