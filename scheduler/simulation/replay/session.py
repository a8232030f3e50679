"""One replay: the world, the engine, the clock and what is under way between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from scheduler.core import engine, explain, naming
from scheduler.core.messages import (
    Cancel,
    Effect,
    EffectDone,
    Event,
    NodeSeen,
    Outcome,
    Record,
    Synced,
    Tick,
)
from scheduler.settings import Settings, from_mapping
from scheduler.simulation.replay import calls, fields, printing
from scheduler.simulation.replay.fields import BadLineError, Json
from scheduler.simulation.world import World

_QUIET = frozenset({"config", "node", "pod", "object", "delete", "fail", "cold", "synced"})
"""Ops before which the first full list need not be in."""


@dataclass(slots=True)
class _Failure:
    """A ``fail`` op: the next matching effects end so."""

    effect: str
    result: str
    times: int
    pod: str | None
    node: str | None

    def matches(self, effect: Effect) -> bool:
        if self.times <= 0 or self.effect != printing.kind(effect):
            return False
        if self.pod is not None and self.pod != str(getattr(effect, "ref", "")):
            return False
        return self.node is None or self.node == getattr(effect, "node", None)


class Session:
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
        self._warnings: list[str] = []
        self._ops: dict[str, Callable[[Json], Iterator[Json]]] = {
            "config": self._config,
            "node": lambda op: self._put(op, "Node"),
            "pod": lambda op: self._put(op, "Pod"),
            "object": lambda op: self._put(op, ""),
            "delete": self._delete,
            "synced": lambda _: self._sync(),
            "cold": self._go_cold,
            "filter": self._ask,
            "prioritize": self._ask,
            "bind": self._ask,
            "preempt": self._ask,
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
            raise BadLineError(f"op {name!r} is not known; known ops: {', '.join(self._ops)}")
        if name not in _QUIET and not self._cold and not self._state.synced:
            yield from self._sync()
        yield from handler(op)
        self._started = self._started or name != "config"

    def warnings(self) -> list[str]:
        """What could not be read of nodes since this was last asked for."""
        found, self._warnings = self._warnings, []
        return found

    def finish(self) -> Iterator[Json]:
        """The end of the file."""
        if not self._cold and not self._state.synced:
            yield from self._sync()

    # ── ops that change the world ──

    def _config(self, op: Json) -> Iterator[Json]:
        if self._started:
            raise BadLineError("config must come before the first other op")
        values = {key: value for key, value in op.items() if key != "op"}
        auto = values.pop("auto", self._auto)
        if not isinstance(auto, bool):
            raise BadLineError(f"auto: {auto!r} is not true or false")
        self._auto = auto
        self._settings = from_mapping(values, self._settings)
        self._state = engine.new_state(self._settings)
        return iter(())

    def _put(self, op: Json, kind: str) -> Iterator[Json]:
        obj = op.get("object")
        if not isinstance(obj, dict):
            raise BadLineError("object: an API object is needed")
        said = obj.get("kind") or kind
        if not isinstance(said, str) or not said[:1].isupper():
            raise BadLineError(f"object.kind: {said!r} is not a kind, such as Node or Pod")
        if kind and said != kind:
            raise BadLineError(f"object.kind: {said!r} in the op for a {kind}")
        caused = self._world.put(obj, said)
        seen = (event.node for event in caused if isinstance(event, NodeSeen))
        self._warnings += [f"node {one.name}: {text}" for one in seen for text in one.warnings]
        return self._run(caused)

    def _delete(self, op: Json) -> Iterator[Json]:
        kind, name = fields.text(op, "kind"), fields.text(op, "name")
        if not self._world.knows(kind):
            raise BadLineError(f"kind: {kind!r} is not the kind of any object here")
        namespace = fields.text(op, "namespace", "")
        uid = fields.text(op, "uid", "") or None
        return self._run(self._world.delete(kind, namespace, name, uid))

    def _sync(self) -> Iterator[Json]:
        self._cold = False
        return self._run([Synced()])

    def _go_cold(self, _: Json) -> Iterator[Json]:
        if self._started:
            raise BadLineError("cold must be the first op")
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
            raise BadLineError(f"seconds: {seconds!r} is not a number")
        if not 0 <= seconds < 1e12:
            raise BadLineError(f"seconds: {seconds!r} is not between 0 and 1e12")
        end = self._now + seconds
        while self._due is not None and self._due <= end:
            self._now = max(self._now, self._due)
            yield from self._run([Tick()])
        self._now = end

    # ── calls ──

    def _ask(self, op: Json) -> Iterator[Json]:
        event = calls.read(op, self._world)
        return self._run([event], op=op["op"], pod=str(event.ref))

    # ── effects ──

    def _outcome(self, op: Json) -> Iterator[Json]:
        kind, result = fields.text(op, "effect"), fields.result(op)
        name = fields.text(op, "pod")
        found = next(
            (
                item
                for item in self._open
                if printing.kind(item) == kind and str(printing.ref_of(item)) == name
            ),
            None,
        )
        if found is None:
            raise BadLineError(f"no {kind} effect of pod {name} is open")
        self._open.remove(found)
        return self._run(self._ended(found, result))

    def _fail(self, op: Json) -> Iterator[Json]:
        kind = fields.text(op, "effect")
        if not self._auto:
            raise BadLineError("fail needs auto: true; with auto: false use outcome")
        if kind not in dict(printing.KINDS):
            raise BadLineError(f"effect: {kind!r} is not known")
        times = op.get("times", 1)
        if isinstance(times, bool) or not isinstance(times, int) or times < 1:
            raise BadLineError(f"times: {times!r} is not a whole number from 1")
        pod, node = fields.text(op, "pod", "") or None, fields.text(op, "node", "") or None
        self._failures.append(_Failure(kind, fields.result(op), times, pod, node))
        return iter(())

    def _ended(self, effect: Effect, result: str) -> list[Event]:
        """The outcome of an effect, then the watch events that it causes."""
        caused = self._world.apply(effect) if result in ("ok", "lost") else []
        return [EffectDone(effect.id, fields.RESULTS[result]), *caused]

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
                yield printing.answer(done.reply, call)
            for effect in done.effects:
                yield from printing.printed(effect)
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
            gang = naming.find(self._state, fields.text(op, "gang"))
            found = {str(gang.key): explain.gang_view(self._state, gang)} if gang else {}
            shown = shown | {"gangs": found}
        yield {"op": "state", "now": self._now, **shown}

    def _why(self, op: Json) -> Iterator[Json]:
        name = fields.text(op, "gang")
        found = explain.why(self._state, name)
        if found is None:
            found = {"gang": name, "state": "unknown", "reason": f"no gang {name} is known"}
        yield {"op": "why", **found}
