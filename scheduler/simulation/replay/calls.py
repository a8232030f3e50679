"""The scheduler's calls, as a line of a replay states them: in short, or as the whole request."""

from __future__ import annotations

from typing import Any

from scheduler import decode
from scheduler.core.messages import BindCall, Filter, Preempt, Prioritize
from scheduler.model import Pod, PodRef
from scheduler.simulation.replay import fields
from scheduler.simulation.replay.fields import BadLineError, Json
from scheduler.simulation.world import World

Call = Filter | Prioritize | BindCall | Preempt


def read(op: Json, world: World) -> Call:
    """The call that an op makes. Raises BadLineError or DecodeError."""
    match op["op"]:
        case "filter":
            return Filter(*_offer(op, world))
        case "prioritize":
            return Prioritize(*_offer(op, world))
        case "preempt":
            return _preempt(op, world)
    ref, _ = _named(world, fields.text(op, "pod"), fields.text(op, "uid", ""))
    return BindCall(ref, fields.text(op, "node"))


def _offer(op: Json, world: World) -> tuple[PodRef, list[str], Pod | None]:
    """A pod, and the nodes that it is offered."""
    request = op.get("request")
    if not isinstance(request, dict):
        ref, pod = _named(world, fields.text(op, "pod"), fields.text(op, "uid", ""))
        return ref, fields.names(op.get("nodes")), pod
    ref, pod = _stated(request)
    names = fields.field(request, "NodeNames")
    if names is None:
        items = fields.field(fields.field(request, "Nodes") or {}, "Items") or []
        names = [fields.named(item) for item in fields.objects(items)]
    return ref, fields.names(names), pod


def _preempt(op: Json, world: World) -> Preempt:
    request = op.get("request")
    if isinstance(request, dict):
        given = fields.field(request, "NodeNameToMetaVictims")
        given = fields.mapping(given or fields.field(request, "NodeNameToVictims"))
        victims = {node: fields.victims(value) for node, value in given.items()}
        stated, seen = _stated(request)
        return Preempt(stated, victims, seen)
    ref, pod = _named(world, fields.text(op, "pod"), "")
    given = fields.mapping(op.get("victims"))
    victims = {
        node: [_uid(world, item) for item in fields.names(items)] for node, items in given.items()
    }
    return Preempt(ref, victims, pod)


def _stated(request: Json) -> tuple[PodRef, Pod]:
    """The pod as a request has it."""
    obj = fields.field(request, "Pod")
    if not isinstance(obj, dict):
        raise BadLineError("request.Pod is needed")
    pod = decode.pod(obj)
    return pod.ref, pod


def _named(world: World, name: str, uid: str) -> tuple[PodRef, Pod | None]:
    """A pod of the world, or one that is not there, by ``namespace/name``."""
    if name.count("/") != 1:
        raise BadLineError(f"pod: {name!r} is not namespace/name")
    namespace, _, rest = name.partition("/")
    found = world.pod(name)
    pod = decode.pod(found) if found is not None else None
    return PodRef(namespace, rest, uid or (pod.uid if pod else name)), pod


def _uid(world: World, item: Any) -> str:
    found = world.pod(item) if isinstance(item, str) and "/" in item else None
    return str(found["metadata"]["uid"]) if found is not None else str(item)
