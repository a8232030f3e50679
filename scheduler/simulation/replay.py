"""``muster replay``: a recorded world fed to the engine, its answers and effects printed.

One JSON object a line in and out; docs/replay.md is the format.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler import decode
from scheduler.core import engine, explain
from scheduler.core.hints import KEY as HINT_KEY
from scheduler.core.messages import (
    Bind,
    BindCall,
    BindReply,
    Cancel,
    ClearNomination,
    Effect,
    EffectDone,
    Event,
    Evict,
    Filter,
    FilterReply,
    Nominate,
    Outcome,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
    Record,
    Synced,
    Tick,
    Wake,
)
from scheduler.errors import DecodeError, ReplayError, SettingsError
from scheduler.model import Pod, PodRef
from scheduler.settings import Settings, from_mapping
from scheduler.simulation.world import World

Json = dict[str, Any]

_QUIET = frozenset({"config", "node", "pod", "object", "delete", "fail", "cold", "synced"})
"""Ops before which the first full list need not be in."""

_KINDS: tuple[tuple[str, type], ...] = (
    ("bind", Bind),
    ("nominate", Nominate),
    ("clear", ClearNomination),
    ("wake", Wake),
    ("evict", Evict),
)

_RESULTS = {
    "ok": Outcome.OK,
    "conflict": Outcome.CONFLICT,
    "gone": Outcome.GONE,
    "error": Outcome.ERROR,
    "timeout": Outcome.TIMEOUT,
    "lost": Outcome.TIMEOUT,
}


def replay(lines: Iterable[str], settings: Settings | None = None) -> Iterator[str]:
    """The output lines for these input lines.

    Raises ReplayError, with the line number, at the first line that is not understood; what came
    before it has been yielded by then.
    """
    session = _Session(settings or Settings())
    for number, line in enumerate(lines, 1):
        line = line.removeprefix("\ufeff") if number == 1 else line
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        yield from _guarded(session, number, line)
    yield from _written(session.finish())


def _guarded(session: _Session, number: int, line: str) -> Iterator[str]:
    try:
        yield from _written(session.take(_object(line)))
    except (_BadLineError, DecodeError, SettingsError) as error:
        raise ReplayError(number, str(error)) from error
    except RecursionError as error:
        raise ReplayError(number, "it is nested too deeply") from error


def _written(items: Iterable[Json]) -> Iterator[str]:
    for item in items:
        yield json.dumps(item, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class _BadLineError(Exception):
    """What is wrong with a line; the caller knows which one it is."""


def _object(line: str) -> Json:
    try:
        found = json.loads(line)
        # A lone surrogate is no character: it could be read, but never printed.
        json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _BadLineError(f"not JSON: {error.msg}, at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise _BadLineError(f"not JSON that can be used: {error}") from error
    if not isinstance(found, dict):
        raise _BadLineError("not a JSON object")
    return found


@dataclass(slots=True)
class _Failure:
    """A ``fail`` op: the next matching effects end so."""

    effect: str
    result: str
    times: int
    pod: str | None
    node: str | None

    def matches(self, effect: Effect) -> bool:
        if self.times <= 0 or self.effect != _kind(effect):
            return False
        if self.pod is not None and self.pod != str(getattr(effect, "ref", "")):
            return False
        return self.node is None or self.node == getattr(effect, "node", None)


class _Session:
    """One replay: the world, the engine, the clock and what is under way between them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._auto = True
        self._started = False
        self._cold = False
        self._now = 0.0
        self._world = World()
        self._state = engine.new_state(settings)
        self._due: float | None = None
        self._open: list[Effect] = []
        """Effects without an outcome, oldest first (``auto: false``)."""
        self._failures: list[_Failure] = []
        self._ops: dict[str, Callable[[Json], Iterator[Json]]] = {
            "config": self._config,
            "node": lambda op: self._put(op, "Node"),
            "pod": lambda op: self._put(op, "Pod"),
            "object": lambda op: self._put(op, ""),
            "delete": self._delete,
            "synced": lambda _: self._sync(),
            "cold": self._go_cold,
            "filter": self._filter,
            "prioritize": self._prioritize,
            "bind": self._bind,
            "preempt": self._preempt,
            "advance": self._advance,
            "outcome": self._outcome,
            "fail": self._fail,
            "restart": lambda _: self._restart(),
            "state": self._print_state,
            "why": self._why,
        }

    def take(self, op: Json) -> Iterator[Json]:
        """Carry out one op; yields what it prints."""
        name = op.get("op")
        handler = self._ops.get(name) if isinstance(name, str) else None
        if handler is None or not isinstance(name, str):
            raise _BadLineError(f"op {name!r} is not known; known ops: {', '.join(self._ops)}")
        if name not in _QUIET and not self._cold and not self._state.synced:
            yield from self._sync()
        yield from handler(op)
        self._started = self._started or name != "config"

    def finish(self) -> Iterator[Json]:
        """The end of the file."""
        if not self._cold and not self._state.synced:
            yield from self._sync()

    # ── ops that change the world ──

    def _config(self, op: Json) -> Iterator[Json]:
        if self._started:
            raise _BadLineError("config must come before the first other op")
        values = {key: value for key, value in op.items() if key != "op"}
        auto = values.pop("auto", self._auto)
        if not isinstance(auto, bool):
            raise _BadLineError(f"auto: {auto!r} is not true or false")
        self._auto = auto
        self._settings = from_mapping(values, self._settings)
        self._state = engine.new_state(self._settings)
        return iter(())

    def _put(self, op: Json, kind: str) -> Iterator[Json]:
        obj = op.get("object")
        if not isinstance(obj, dict):
            raise _BadLineError("object: an API object is needed")
        said = obj.get("kind") or kind
        if not isinstance(said, str) or not said[:1].isupper():
            raise _BadLineError(f"object.kind: {said!r} is not a kind, such as Node or Pod")
        if kind and said != kind:
            raise _BadLineError(f"object.kind: {said!r} in the op for a {kind}")
        return self._run(self._world.put(obj, said))

    def _delete(self, op: Json) -> Iterator[Json]:
        kind, name = _text(op, "kind"), _text(op, "name")
        if not self._world.knows(kind):
            raise _BadLineError(f"kind: {kind!r} is not the kind of any object here")
        namespace = _text(op, "namespace", "")
        uid = _text(op, "uid", "") or None
        return self._run(self._world.delete(kind, namespace, name, uid))

    def _sync(self) -> Iterator[Json]:
        self._cold = False
        return self._run([Synced()])

    def _go_cold(self, _: Json) -> Iterator[Json]:
        if self._started:
            raise _BadLineError("cold must be the first op")
        self._cold = True
        return iter(())

    def _restart(self) -> Iterator[Json]:
        self._open.clear()
        self._state = engine.new_state(self._settings)
        self._due = None
        return self._run([*self._world.listed(), Synced()])

    def _advance(self, op: Json) -> Iterator[Json]:
        seconds = op.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise _BadLineError(f"seconds: {seconds!r} is not a number")
        if not 0 <= seconds < 1e12:
            raise _BadLineError(f"seconds: {seconds!r} is not between 0 and 1e12")
        end = self._now + seconds
        while self._due is not None and self._due <= end:
            self._now = max(self._now, self._due)
            yield from self._run([Tick()])
        self._now = end

    # ── calls ──

    def _filter(self, op: Json) -> Iterator[Json]:
        ref, pod, names = self._call(op)
        yield from self._run([Filter(ref, names, pod)], op="filter", pod=str(ref))

    def _prioritize(self, op: Json) -> Iterator[Json]:
        ref, pod, names = self._call(op)
        yield from self._run([Prioritize(ref, names, pod)], op="prioritize", pod=str(ref))

    def _bind(self, op: Json) -> Iterator[Json]:
        ref, _ = self._ref(_text(op, "pod"), _text(op, "uid", ""))
        yield from self._run([BindCall(ref, _text(op, "node"))], op="bind", pod=str(ref))

    def _preempt(self, op: Json) -> Iterator[Json]:
        request = op.get("request")
        if isinstance(request, dict):
            ref, pod = self._from_request(request)
            given = _field(request, "NodeNameToMetaVictims") or _field(request, "NodeNameToVictims")
            victims = {node: _victims(value) for node, value in _mapping(given).items()}
        else:
            ref, pod = self._ref(_text(op, "pod"), "")
            given = _mapping(op.get("victims"))
            victims = {node: [self._uid(item) for item in _names(v)] for node, v in given.items()}
        yield from self._run([Preempt(ref, victims, pod)], op="preempt", pod=str(ref))

    def _call(self, op: Json) -> tuple[PodRef, Pod | None, list[str]]:
        request = op.get("request")
        if not isinstance(request, dict):
            ref, pod = self._ref(_text(op, "pod"), _text(op, "uid", ""))
            return ref, pod, _names(op.get("nodes"))
        ref, pod = self._from_request(request)
        names = _field(request, "NodeNames")
        if names is None:
            items = _field(_field(request, "Nodes") or {}, "Items") or []
            names = [_named(item) for item in _objects(items)]
        return ref, pod, _names(names)

    def _from_request(self, request: Json) -> tuple[PodRef, Pod | None]:
        obj = _field(request, "Pod")
        if not isinstance(obj, dict):
            raise _BadLineError("request.Pod is needed")
        pod = decode.pod(obj)
        return pod.ref, pod

    def _ref(self, name: str, uid: str) -> tuple[PodRef, Pod | None]:
        if name.count("/") != 1:
            raise _BadLineError(f"pod: {name!r} is not namespace/name")
        namespace, _, rest = name.partition("/")
        found = self._world.pod(name)
        pod = decode.pod(found) if found is not None else None
        return PodRef(namespace, rest, uid or (pod.uid if pod else name)), pod

    def _uid(self, item: Any) -> str:
        found = self._world.pod(item) if isinstance(item, str) and "/" in item else None
        return str(found["metadata"]["uid"]) if found is not None else str(item)

    # ── effects ──

    def _outcome(self, op: Json) -> Iterator[Json]:
        kind, result = _text(op, "effect"), _result(op)
        name = _text(op, "pod")
        found = next(
            (item for item in self._open if _kind(item) == kind and str(_ref_of(item)) == name),
            None,
        )
        if found is None:
            raise _BadLineError(f"no {kind} effect of pod {name} is open")
        self._open.remove(found)
        return self._run(self._ended(found, result))

    def _fail(self, op: Json) -> Iterator[Json]:
        kind = _text(op, "effect")
        if not self._auto:
            raise _BadLineError("fail needs auto: true; with auto: false use outcome")
        if kind not in dict(_KINDS):
            raise _BadLineError(f"effect: {kind!r} is not known")
        times = op.get("times", 1)
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise _BadLineError(f"times: {times!r} is not a whole number from 1")
        pod, node = _text(op, "pod", "") or None, _text(op, "node", "") or None
        self._failures.append(_Failure(kind, _result(op), times, pod, node))
        return iter(())

    def _ended(self, effect: Effect, result: str) -> list[Event]:
        """The outcome of an effect, then the watch events that it causes."""
        caused = self._world.apply(effect) if result in ("ok", "lost") else []
        return [EffectDone(effect.id, _RESULTS[result]), *caused]

    def _carry_out(self, effect: Effect) -> list[Event]:
        """What follows an effect with ``auto``."""
        failure = next((item for item in self._failures if item.matches(effect)), None)
        if failure is not None:
            failure.times -= 1
            if failure.result not in ("ok", "lost"):
                return self._ended(effect, failure.result)
        outcome = self._world.outcome(effect)
        if outcome is not Outcome.OK:
            return self._ended(effect, outcome.value)
        return self._ended(effect, failure.result if failure else "ok")

    def _run(self, events: Iterable[Event], **call: str) -> Iterator[Json]:
        """Feed events first in, first out, with all that follows from them."""
        pending = deque(events)
        while pending:
            event = pending.popleft()
            done = engine.step(self._state, event, self._now)
            self._due = done.next_due
            if done.reply is not None:
                yield _answer(done.reply, call)
            for effect in done.effects:
                yield from _printed(effect)
            for effect in done.effects:
                if isinstance(effect, Record | Cancel):
                    continue
                if self._auto:
                    pending.extend(self._carry_out(effect))
                else:
                    self._open.append(effect)

    # ── views ──

    def _print_state(self, op: Json) -> Iterator[Json]:
        shown = explain.snapshot_state(self._state)
        if op.get("gang") is not None:
            gang = explain.find(self._state, _text(op, "gang"))
            found = {str(gang.key): explain.gang_view(self._state, gang)} if gang else {}
            shown = shown | {"gangs": found}
        yield {"op": "state", "now": self._now, **shown}

    def _why(self, op: Json) -> Iterator[Json]:
        name = _text(op, "gang")
        found = explain.why(self._state, name)
        if found is None:
            found = {"gang": name, "state": "unknown", "reason": f"no gang {name} is known"}
        yield {"op": "why", **found}


# ── reading ──


def _text(op: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = op.get(name, default)
    if not isinstance(value, str):
        raise _BadLineError(f"{name}: a text is needed, not {value!r}")
    return value


def _names(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _BadLineError("nodes: a list of node names is needed")
    return value


def _mapping(value: Any) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _BadLineError("victims: an object of node -> list is needed")
    return value


def _objects(value: Any) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _BadLineError(f"a list of objects is needed, not {value!r}"[:200])
    return value


def _named(obj: Json) -> Any:
    meta = _field(obj, "metadata")
    return meta.get("name") if isinstance(meta, dict) else None


def _result(op: Json) -> str:
    result = _text(op, "result")
    if result not in _RESULTS:
        raise _BadLineError(f"result: {result!r} is not one of {', '.join(_RESULTS)}")
    return result


def _field(obj: Any, name: str) -> Any:
    """A field of an extender request, however its name is capitalised."""
    if not isinstance(obj, dict):
        return None
    return next((value for key, value in obj.items() if key.lower() == name.lower()), None)


def _victims(value: Any) -> list[str]:
    uids = []
    for item in _objects(_field(value, "Pods") or []):
        meta = item.get("metadata")
        uid = item.get("UID") or (meta.get("uid") if isinstance(meta, dict) else None)
        uids.append(str(uid))
    return uids


# ── writing ──


def _kind(effect: Effect) -> str:
    return next((name for name, kind in _KINDS if isinstance(effect, kind)), "")


def _ref_of(effect: Effect) -> PodRef | None:
    return None if isinstance(effect, Record | Cancel) else effect.ref


def _answer(reply: object, call: Mapping[str, str]) -> Json:
    match reply:
        case FilterReply():
            return {
                **call,
                "nodes": list(reply.nodes),
                "failed": dict(reply.failed),
                "unresolvable": dict(reply.unresolvable),
                "error": "",
            }
        case PrioritizeReply():
            return {**call, "scores": dict(reply.scores)}
        case PreemptReply():
            return {**call, "victims": {key: list(uids) for key, uids in reply.victims.items()}}
        case BindReply():
            return {"op": "bind", "pod": str(reply.ref), "node": reply.node, "error": reply.error}
    raise AssertionError(reply)


def _printed(effect: Effect) -> Iterator[Json]:
    match effect:
        case Bind():
            hint = effect.annotations.get(HINT_KEY)
            shown = {"hint": json.loads(hint)} if hint else {}
            yield {"effect": "bind", "pod": str(effect.ref), "node": effect.node, **shown}
        case Nominate():
            yield {"effect": "nominate", "pod": str(effect.ref), "node": effect.node}
        case ClearNomination():
            yield {"effect": "nominate", "pod": str(effect.ref), "node": ""}
        case Wake():
            yield {"effect": "wake", "pod": str(effect.ref)}
        case Evict():
            yield {"effect": "evict", "pod": str(effect.ref), "reason": effect.reason}
        case Record():
            yield {
                "effect": "record",
                "gang": str(effect.gang),
                "reason": effect.reason,
                "message": effect.message,
            }
