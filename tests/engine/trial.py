"""A random run: the world as the API server has it, the engine beside it, and what lies between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scheduler.core import engine
from scheduler.core.gates import OWN
from scheduler.core.hints import KEY as HINT
from scheduler.core.messages import (
    Bind,
    BindCall,
    Cancel,
    ChartSeen,
    ClearNomination,
    Effect,
    EffectDone,
    Event,
    Evict,
    Filter,
    GroupSeen,
    NodeSeen,
    Nominate,
    Outcome,
    PodGone,
    PodSeen,
    Record,
    Synced,
    Tick,
    Wake,
)
from scheduler.model import GangKey, Node, Pod

from . import invariants
from .kits import Kit, group_of

LATE_S = 4.0
"""Seconds by which the watch may lag behind."""

FAR_S = 2000.0
"""Seconds that are waited for time-outs to pass, in the end."""


class Trial:
    """One run. Every method that ends in an event checks all invariants after it."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """By uid, as the API server has them."""
        self.groups = {kind.group: group_of(kind) for kind in kit.gangs if kind.group}
        self.charts = {chart.key: chart for chart in kit.charts}
        self.owners = {kind.name: 1 for kind in kit.gangs if kind.owned}
        """Gang -> the number of its controller's present uid."""
        self.open: dict[int, Effect] = {}
        """Effects that were sent and have not ended."""
        self.cancelled: set[int] = set()
        """Effects that the engine asked not to send any more."""
        self.late: dict[str, float] = {}
        """Uid -> when the watch will have shown the pod's last change."""
        self.harmed: set[GangKey] = set()
        """Gangs that met with something that may leave them with less than min."""
        self.seated_at: dict[str, float] = {}
        """Uid -> when its present reservation was made."""
        self.state = engine.new_state(kit.settings)
        self.listing = False
        """Whether a first list is on its way, so that the engine cannot know everything."""
        self.history: list[tuple[Event | None, float]] = []
        """All events with their times; None = a restart."""
        self.steps: list[engine.Step] = []
        self.made = 0
        self.nodes.update({item.name: item for item in kit.nodes})
        self._list()

    # ── the engine ──

    def feed(self, event: Event, outside: Sequence[str] = ()) -> engine.Step:
        """One step of the engine; ``outside`` are nodes that others have changed just now."""
        before = invariants.look(self)
        self.history.append((event, self.now))
        done = engine.step(self.state, event, self.now)
        self.steps.append(done)
        for effect in done.effects:
            if isinstance(effect, Cancel):
                self.cancelled.add(effect.target)
            elif not isinstance(effect, Record):
                self.open[effect.id] = effect
        invariants.check(self, before, event, done, outside)
        return done

    def restart(self, landed: int) -> None:
        """The engine loses its memory; the bits of ``landed`` say which open effects were done."""
        for number, effect in enumerate(list(self.open.values())):
            if (landed >> (number % 16)) & 1:
                self._apply(effect)
        self.open.clear()
        self.late.clear()
        self.seated_at.clear()
        self.harm(list(self.state.gangs))
        self.history.append((None, self.now))
        self.state = engine.new_state(self.kit.settings)
        self._list()

    def _list(self) -> None:
        self.listing = True
        for event in self.listed():
            self.feed(event)
        self.listing = False
        self.feed(Synced())

    def listed(self) -> list[Event]:
        """The world as a first list shows it."""
        nodes = sorted(self.nodes.values(), key=lambda item: item.name)
        pods = sorted(self.pods.values(), key=lambda pod: pod.key)
        objects = [*map(GroupSeen, self.groups.values()), *map(ChartSeen, self.charts.values())]
        return [*map(NodeSeen, nodes), *objects, *map(PodSeen, pods)]

    # ── pods ──

    def uid(self) -> str:
        """A new uid."""
        self.made += 1
        return f"u{self.made}"

    def create(self, pod: Pod, *, late: bool = False) -> None:
        """A pod is created; the watch may be late."""
        self.pods[pod.uid] = pod
        if late:
            self.late[pod.uid] = self.now + LATE_S
        else:
            self.show(pod.uid)

    def change(self, pod: Pod, **fields: Any) -> None:
        """A pod is changed, in a way that may break its gang."""
        self.harm([self.gang_of(pod)])
        self.pods[pod.uid] = replace(pod, **fields)
        self.show(pod.uid)

    def remove(self, pod: Pod) -> None:
        """A pod is gone, and the watch has not shown it yet."""
        self.harm([self.gang_of(pod)])
        del self.pods[pod.uid]
        self.late[pod.uid] = self.now + LATE_S

    def show(self, uid: str, outside: Sequence[str] = ()) -> None:
        """The watch shows a pod as it is."""
        self.late.pop(uid, None)
        pod = self.pods.get(uid)
        self.feed(PodGone(uid) if pod is None else PodSeen(pod), outside)

    def show_all(self) -> None:
        """The watch catches up."""
        for uid in list(self.late):
            self.show(uid)

    def gang_of(self, pod: Pod) -> GangKey:
        """The gang that a pod says it is of."""
        if pod.declaration is None:
            return GangKey(pod.namespace, pod.name, pod=True)
        return GangKey(pod.namespace, pod.declaration.name)

    def harm(self, gangs: Sequence[GangKey]) -> None:
        """These gangs may be left with less than min."""
        self.harmed.update(gangs)

    def gangs_at(self, node: str) -> list[GangKey]:
        """Gangs that have, or may get, anything on a node."""
        bound = [self.gang_of(pod) for pod in self.on(node)]
        booked = [item.gang for item in self.state.reservations.values()]
        flying = [effect.gang for effect in self.open.values() if isinstance(effect, Bind)]
        return [*bound, *booked, *flying]

    def on(self, node: str) -> list[Pod]:
        """Pods that are bound to a node."""
        return [pod for pod in self.pods.values() if pod.node == node]

    # ── effects ──

    def end(self, effect: Effect, how: str = "ok") -> None:
        """End an effect in one of the ways of `operations.HOW`, or as cancelled.

        One that was cancelled may have been sent all the same.
        """
        assert not isinstance(effect, Record | Cancel)
        del self.open[effect.id]
        uid = effect.ref.uid
        if how in ("error", "timeout", "gone", "cancelled"):
            if uid in self.pods:
                self.harm([self.gang_of(self.pods[uid])])
            self.feed(EffectDone(effect.id, Outcome(how)))
            return
        outcome = self._apply(effect)
        if outcome is not Outcome.OK or isinstance(effect, Wake):
            self.feed(EffectDone(effect.id, outcome))
            return
        self.late[uid] = self.now + LATE_S
        if how == "watch first":
            self.show(uid)
        self.feed(EffectDone(effect.id, Outcome.TIMEOUT if how == "lost" else Outcome.OK))
        if how == "ok":
            self.show(uid)

    def _apply(self, effect: Effect) -> Outcome:
        """What the API server does; a Binding of a pod that is bound there already is a success."""
        assert not isinstance(effect, Record | Cancel)
        pod = self.pods.get(effect.ref.uid)
        if pod is None:
            return Outcome.GONE
        if isinstance(effect, Bind | Nominate | Wake) and effect.lift:
            assert OWN in pod.gates or not pod.gates, "only Muster's own gate is taken off"
            pod = self.pods[pod.uid] = replace(pod, gates=())
        match effect:
            case Bind():
                return self._bind(effect, pod)
            case Nominate(node=node):
                self.pods[pod.uid] = replace(pod, nominated=node)
            case ClearNomination():
                self.pods[pod.uid] = replace(pod, nominated="")
            case Evict():
                self.harm([self.gang_of(pod)])
                del self.pods[pod.uid]
        return Outcome.OK

    def _bind(self, effect: Bind, pod: Pod) -> Outcome:
        if pod.node:
            return Outcome.OK if pod.node == effect.node else Outcome.CONFLICT
        if pod.gates or not invariants.may_be_bound(pod):
            return Outcome.GONE
        hint = effect.annotations.get(HINT, "")
        self.pods[pod.uid] = replace(pod, node=effect.node, nominated="", hint=hint or pod.hint)
        return Outcome.OK

    def end_all(self) -> None:
        """All that is open ends well; what was cancelled is not sent."""
        while self.open:
            effect = next(iter(self.open.values()))
            self.end(effect, "cancelled" if effect.id in self.cancelled else "ok")

    # ── time ──

    def advance(self, seconds: float) -> None:
        """Let time pass, with the ticks and the late news that fall due."""
        end = self.now + seconds
        while True:
            tick = self.state.next_due()
            news = min(self.late.values(), default=None)
            times = [at for at in (tick, news) if at is not None and at <= end]
            if not times:
                break
            self.now = max(self.now, min(times))
            if news is not None and news <= self.now:
                self.show(next(uid for uid, at in self.late.items() if at == news))
            else:
                self._tick()
        self.now = end

    def _tick(self) -> None:
        due = self.feed(Tick()).next_due
        assert due is None or due > self.now, f"next_due {due} is not after {self.now}"

    def settle(self) -> None:
        """Let all that is under way end well, the scheduler do its part, and the time-outs pass."""
        for _ in range(60):
            self._finish_all()
            due = self.state.next_due()
            if due is None or due > self.now + FAR_S:
                break
            self.advance(max(0.0, due - self.now))
        self._finish_all()
        invariants.check_rest(self)

    def _finish_all(self) -> None:
        self.show_all()
        for _ in range(500):
            if self.open:
                self.end_all()
            elif not self._schedule_one():
                return
        raise AssertionError("the engine sends effects without end")

    def _schedule_one(self) -> bool:
        """What the scheduler does with a pod that has its place: filter, then bind."""
        for uid, reservation in list(self.state.reservations.items()):
            pod = self.pods.get(uid)
            if pod is None or uid in self.state.binding:
                continue
            self.feed(Filter(pod.ref, [reservation.node]))
            if self.state.reservations.get(uid) is reservation:
                self.feed(BindCall(pod.ref, reservation.node))
                return bool(self.open)
        return False
