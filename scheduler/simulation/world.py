"""The objects of a replayed world: what an API server would hold and do, as far as we need it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from scheduler import decode, dialects
from scheduler.core.messages import (
    Bind,
    ChartGone,
    ChartSeen,
    ClearNomination,
    Effect,
    Event,
    Evict,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    Nominate,
    Outcome,
    PodGone,
    PodSeen,
    Wake,
)

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Kind with its API group, namespace, name."""


_OTHERS = (*dialects.KINDS, *dialects.OWNERS, *dialects.CHARTS)
_READ = frozenset({"Node", "Pod"} | {name.partition(".")[0] for name in _OTHERS})


class World:
    """API objects by kind, namespace and name; every change yields the watch events it causes."""

    def __init__(self) -> None:
        self._objects: dict[Key, Json] = {}
        self._kinds: set[str] = set()
        self._version = 0

    # ── what a file says ──

    def put(self, obj: Mapping[str, Any], kind: str) -> list[Event]:
        """Add or change an object. Raises DecodeError if it has no usable name."""
        fresh = deepcopy(dict(obj))
        fresh.setdefault("kind", kind)
        if kind in ("Node", "Pod"):
            named = decode.node(fresh) if kind == "Node" else decode.pod(fresh)
            namespace = getattr(named, "namespace", "")
            key = (kind, namespace, named.name)
        else:
            key = _other_key(fresh)
        meta = fresh.setdefault("metadata", {})
        meta.setdefault("uid", f"{key[1]}/{key[2]}" if key[1] else key[2])
        self._version += 1
        self._kinds.update((kind, key[0]))
        meta.setdefault("resourceVersion", str(self._version))
        return self._store(key, fresh)

    def delete(self, kind: str, namespace: str, name: str, uid: str | None) -> list[Event]:
        """A watch delete; with a uid only of that very object. The kind may lack its API group."""
        key = self._whole(_key(kind, namespace, name))
        found = self._objects.get(key)
        if found is None or (uid is not None and _uid(found) != uid):
            return [PodGone(uid)] if kind == "Pod" and uid is not None else []
        del self._objects[key]
        return _gone(key, found)

    def knows(self, kind: str) -> bool:
        """Whether the kind is one that is read, or that of an object put earlier."""
        return kind.partition(".")[0] in _READ or kind in self._kinds

    def _whole(self, key: Key) -> Key:
        """The key of the object that is meant, with its API group."""
        kind, *place = key
        kinds = sorted(known for known in self._kinds if known.partition(".")[0] == kind)
        keys = [(known, *place) for known in kinds]
        return next((each for each in (key, *keys) if each in self._objects), key)

    def pod(self, name: str) -> Json | None:
        """The pod ``namespace/name``."""
        namespace, _, rest = name.partition("/")
        return self._objects.get(("Pod", namespace, rest))

    def listed(self) -> Iterator[Event]:
        """All objects, sorted by kind, namespace and name, as a first list shows them."""
        for key in sorted(self._objects):
            yield from _seen(key, self._objects[key])

    # ── what effects do ──

    def outcome(self, effect: Effect) -> Outcome:
        """How an API server would answer this effect now."""
        if isinstance(effect, Bind):
            return self._bind_outcome(effect)
        found = self.pod(str(effect.ref)) if hasattr(effect, "ref") else None
        if hasattr(effect, "ref") and (found is None or _uid(found) != effect.ref.uid):
            return Outcome.GONE
        return Outcome.OK

    def apply(self, effect: Effect) -> list[Event]:
        """Change the world as the effect does; the watch events that it causes."""
        found = self.pod(str(effect.ref)) if hasattr(effect, "ref") else None
        if found is None:
            return []
        key = ("Pod", effect.ref.namespace, effect.ref.name)  # type: ignore[union-attr]
        if isinstance(effect, Evict):
            del self._objects[key]
            return _gone(key, found)
        changed = deepcopy(found)
        lifts = isinstance(effect, Bind | Nominate | Wake) and effect.lift
        if lifts:
            changed.get("spec", {}).pop("schedulingGates", None)
        if isinstance(effect, Bind):
            changed.setdefault("spec", {})["nodeName"] = effect.node
            changed["metadata"].setdefault("annotations", {}).update(effect.annotations)
            changed.setdefault("status", {}).pop("nominatedNodeName", None)
        elif isinstance(effect, Nominate):
            changed.setdefault("status", {})["nominatedNodeName"] = effect.node
        elif isinstance(effect, ClearNomination):
            changed.setdefault("status", {}).pop("nominatedNodeName", None)
        elif not lifts:
            return []
        self._version += 1
        changed["metadata"]["resourceVersion"] = str(self._version)
        return self._store(key, changed)

    def _bind_outcome(self, effect: Bind) -> Outcome:
        found = self.pod(str(effect.ref))
        if found is None or ("Node", "", effect.node) not in self._objects:
            return Outcome.GONE
        pod = decode.pod(found)
        gated = bool(pod.gates) and not effect.lift
        if pod.uid != effect.ref.uid or pod.node or gated or pod.deleting:
            return Outcome.CONFLICT
        return Outcome.OK

    def _store(self, key: Key, fresh: Json) -> list[Event]:
        before = self._objects.get(key)
        events: list[Event] = []
        if before is not None and key[0] == "Pod":
            if _uid(before) == _uid(fresh):
                _keep_binding(before, fresh)
            else:
                events.extend(_gone(key, before))
        self._objects[key] = fresh
        return events + _seen(key, fresh)


def _keep_binding(before: Json, fresh: Json) -> None:
    """A node name that was set stays, with the hint, whatever a later line of the file says."""
    old = before.get("spec")
    node = old.get("nodeName") if isinstance(old, dict) else None
    spec = fresh.setdefault("spec", {})
    if not node or not isinstance(spec, dict) or spec.get("nodeName"):
        return
    spec["nodeName"] = node
    hint = (before["metadata"].get("annotations") or {}).get("muster.scheduler/hint")
    meta = fresh["metadata"]
    if hint is not None:
        meta["annotations"] = {"muster.scheduler/hint": hint} | (meta.get("annotations") or {})


def _key(kind: str, namespace: str, name: str) -> Key:
    return (kind, "" if kind == "Node" else namespace or "default", name)


def _other_key(obj: Json) -> Key:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name")
    namespace = meta.get("namespace")
    kind = dialects.kind_of(obj)
    return (kind, namespace if isinstance(namespace, str) else "default", str(name))


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])


def _seen(key: Key, obj: Json) -> list[Event]:
    if key[0] == "Node":
        return [NodeSeen(decode.node(obj))]
    if key[0] == "Pod":
        return [PodSeen(decode.pod(obj))]
    if (chart := decode.chart(obj)) is not None:
        return [ChartSeen(chart)]
    group = decode.group(obj)
    return [GroupSeen(group)] if group is not None else []


def _gone(key: Key, obj: Json) -> list[Event]:
    if key[0] == "Node":
        return [NodeGone(key[2])]
    if key[0] == "Pod":
        return [PodGone(_uid(obj))]
    if (chart := decode.chart(obj)) is not None:
        return [ChartGone(chart.key)]
    group = decode.group(obj)
    return [GroupGone(group.key)] if group is not None else []
