"""A random run: the world as the API server has it, the engine beside it, and what lies between.

An operation is a name and three numbers; the numbers choose among whatever there is, so that any
list of operations can be carried out, and any part of it, too: that is what makes a failing run
easy to shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from scheduler.core import engine
from scheduler.core.hints import KEY as HINT
from scheduler.core.messages import (
    Bind,
    BindCall,
    Cancel,
    ClearNomination,
    Effect,
    EffectDone,
    Event,
    Evict,
    Filter,
    FilterReply,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    Nominate,
    Outcome,
    PodGone,
    PodSeen,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
    Record,
    Synced,
    Tick,
    Wake,
)
from scheduler.model import Constraints, GangKey, Node, Phase, Pod, PodRef

from . import invariants
from .kits import GPU, Kit, group_of

LATE_S = 4.0
"""Seconds by which the watch may lag behind."""


class Op(NamedTuple):
    """One thing that happens; ``a``, ``b`` and ``c`` choose among what there is."""

    name: str
    a: int
    b: int
    c: int


class Trial:
    """One run. Every method that ends in an event checks all invariants after it."""

    def __init__(self, kit: Kit, *, synced: bool = True) -> None:
        self.kit = kit
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """By uid, as the API server has them."""
        self.groups = {kind.group: group_of(kind) for kind in kit.gangs if kind.group}
        self.open: dict[int, Effect] = {}
        """Effects that were sent and have not ended."""
        self.late: dict[str, float] = {}
        """Uid -> when the watch will have shown the pod's last change."""
        self.harmed: set[GangKey] = set()
        """Gangs that met with something that may leave them with less than min."""
        self.state = engine.new_state(kit.settings)
        self.listing = False
        """Whether a first list is on its way, so that the engine cannot know everything."""
        self.cancelled: set[int] = set()
        """Effects that the engine asked not to send any more."""
        self.seated_at: dict[str, float] = {}
        """Uid -> when its present reservation was made."""
        self.history: list[tuple[Event | None, float]] = []
        """All events with their times; None = a restart."""
        self.steps: list[engine.Step] = []
        self._made = 0
        for item in kit.nodes:
            self.nodes[item.name] = item
            self.feed(NodeSeen(item))
        for group in self.groups.values():
            self.feed(GroupSeen(group))
        if synced:
            self.feed(Synced())

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

    # ── operations ──

    def do(self, op: Op) -> None:
        """Carry out one operation; one that finds nothing to work on does nothing."""
        OPERATIONS[op.name](self, op)

    def member(self, op: Op) -> None:
        """The next member of a gang is created, gated at times."""
        kind = self.kit.gangs[op.a % len(self.kit.gangs)]
        names = {pod.name for pod in self.pods.values()}
        free = [at for at in range(kind.size) if f"{kind.name}-{at}" not in names]
        if free:
            at = free[op.b % len(free)]
            gates = ("quota",) if op.c % 16 == 0 else ()
            self._create(self._member(op.a % len(self.kit.gangs), at, gates), late=op.c % 16 == 1)

    def _member(self, gang: int, at: int, gates: tuple[str, ...] = ()) -> Pod:
        kind = self.kit.gangs[gang]
        return Pod(
            "t",
            f"{kind.name}-{at}",
            self._uid(),
            scheduler="muster",
            priority=kind.priority,
            created=float(self._made),
            requests={"cpu": 1000, "pods": 1, GPU: kind.gpu},
            constraints=Constraints(ports=kind.ports),
            declaration=kind.declaration,
            index=at if gang % 2 == 0 else None,
            gates=gates,
        )

    def _uid(self) -> str:
        self._made += 1
        return f"u{self._made}"

    def _create(self, pod: Pod, *, late: bool = False) -> None:
        self.pods[pod.uid] = pod
        if late:
            self.late[pod.uid] = self.now + LATE_S
        else:
            self.show(pod.uid)

    def whole_gang(self, op: Op) -> None:
        """All members of a gang that are missing are created."""
        for at in range(self.kit.gangs[op.a % len(self.kit.gangs)].size):
            self.member(Op("member", op.a, at, 2))

    def single(self, op: Op) -> None:
        """A pod with GPUs and without a gang."""
        uid = self._uid()
        gpu = [1, 2, 4, 8][op.a % 4]
        pod = Pod(
            "t",
            f"s-{uid}",
            uid,
            scheduler="muster",
            priority=0 if self.kit.calm else [0, 0, 10][op.b % 3],
            created=float(self._made),
            requests={"cpu": 1000, "pods": 1, GPU: gpu},
        )
        self._create(pod)

    def plain(self, op: Op) -> None:
        """A pod without GPUs; the watch may be slower than its filter call."""
        uid = self._uid()
        requests = {"cpu": [1000, 8000][op.a % 2], "pods": 1}
        pod = Pod("t", f"p-{uid}", uid, scheduler="muster", requests=requests)
        self._create(pod, late=op.b % 2 == 0)

    def foreign(self, op: Op) -> None:
        """Another scheduler binds (or nominates) a pod, whatever is reserved there."""
        if not self.nodes:
            return
        uid, node = self._uid(), self._node(op.a)
        requests = {"cpu": 2000, "pods": 1, GPU: op.b % 5}
        requests = {name: amount for name, amount in requests.items() if amount}
        pod = Pod("other", f"f-{uid}", uid, scheduler="default-scheduler", requests=requests)
        if op.c % 4 == 0:
            self._create(replace(pod, nominated=node))
        else:
            self._harm(self._gangs_on(node))
            self.pods[uid] = replace(pod, node=node)
            self.show(uid, outside=[node])

    def bind_behind(self, op: Op) -> None:
        """A pod of ours is bound by somebody else."""
        waiting = [
            pod for pod in self.pods.values() if self._bindable(pod) and pod.namespace == "t"
        ]
        if waiting and self.nodes:
            pod, node = waiting[op.a % len(waiting)], self._node(op.b)
            self._harm(self._gangs_on(node))
            self._harm([self.gang_of(pod)])
            self.pods[pod.uid] = replace(pod, node=node)
            self.show(pod.uid, outside=[node])

    def delete(self, op: Op) -> None:
        """A pod is gone at once."""
        if pod := self._pick(op.a):
            self._harm([self.gang_of(pod)])
            del self.pods[pod.uid]
            if op.b % 8 == 0:
                self.late[pod.uid] = self.now + LATE_S
            else:
                self.show(pod.uid)

    def terminate(self, op: Op) -> None:
        """A pod gets its deletion time."""
        if pod := self._pick(op.a):
            self._change(pod, deleting=True)

    def finish(self, op: Op) -> None:
        """A bound pod ends, well or badly."""
        bound = [pod for pod in self.pods.values() if invariants.holds(pod)]
        if bound:
            phase = Phase.SUCCEEDED if op.b % 2 else Phase.FAILED
            self._change(bound[op.a % len(bound)], phase=phase)

    def recreate(self, op: Op) -> None:
        """A member is replaced by one of the same name; the delete may not be seen."""
        members = [pod for pod in self.pods.values() if pod.declaration]
        if not members:
            return
        old = members[op.a % len(members)]
        self._harm([self.gang_of(old)])
        del self.pods[old.uid]
        self.late.pop(old.uid, None)
        if op.b % 4 == 0:
            self.show(old.uid)
        unbound = replace(old, node="", nominated="", hint="", phase=Phase.PENDING, deleting=False)
        fresh = replace(unbound, uid=self._uid(), gates=(), created=float(self._made))
        if op.b % 4:
            self.late[old.uid] = self.now
        self._create(fresh)
        self.late.pop(old.uid, None)
        if op.b % 4 == 1:
            self.feed(PodGone(old.uid))

    def ungate(self, op: Op) -> None:
        """A gate is taken off."""
        gated = [pod for pod in self.pods.values() if pod.gates]
        if gated:
            self._change(gated[op.a % len(gated)], gates=())

    def change_min(self, op: Op) -> None:
        """The members of a gang (or its group) now state another min."""
        kind = self.kit.gangs[op.a % len(self.kit.gangs)]
        least = 1 + op.b % kind.size
        self._harm([GangKey("t", kind.name)])
        if kind.group is not None:
            self.groups[kind.group] = group_of(kind, least)
            self.feed(GroupSeen(self.groups[kind.group]))
            return
        for pod in [pod for pod in self.pods.values() if self.gang_of(pod).name == kind.name]:
            declaration = pod.declaration
            assert declaration is not None
            options = replace(declaration.options, min_available=least)
            self._change(pod, declaration=replace(declaration, options=options))

    def drop_group(self, op: Op) -> None:
        """A group object goes, or comes back."""
        for kind in self.kit.gangs:
            if kind.group is None:
                continue
            self._harm([GangKey("t", kind.name)])
            if self.groups.pop(kind.group, None) is None:
                self.groups[kind.group] = group_of(kind)
                self.feed(GroupSeen(self.groups[kind.group]))
            else:
                self.feed(GroupGone(kind.group))

    def change_node(self, op: Op) -> None:
        """A node is cordoned, unready, smaller, larger, relabelled, or as it was."""
        if not self.nodes:
            return
        name = self._node(op.a)
        kit = next(item for item in self.kit.nodes if item.name == name)
        smaller = kit.allocatable | {GPU: kit.allocatable[GPU] // 2}
        changed = [
            replace(kit, unschedulable=True),
            replace(kit, ready=False),
            replace(kit, allocatable=smaller),
            replace(kit, allocatable=kit.allocatable | {GPU: 0}),
            replace(kit, labels={}),
            replace(kit, deleting=True),
            kit,
            kit,
        ][op.b % 8]
        self._harm(self._gangs_on(name))
        self.nodes[name] = changed
        self.feed(NodeSeen(changed), outside=[name])

    def lose_node(self, op: Op) -> None:
        """A node is deleted; its pods are left for now."""
        if self.nodes:
            name = self._node(op.a)
            self._harm(self._gangs_on(name))
            del self.nodes[name]
            self.feed(NodeGone(name))

    def return_node(self, op: Op) -> None:
        """A node comes back."""
        gone = [item for item in self.kit.nodes if item.name not in self.nodes]
        if gone:
            item = gone[op.a % len(gone)]
            self.nodes[item.name] = item
            self.feed(NodeSeen(item), outside=[item.name])

    def end_effect(self, op: Op) -> None:
        """An open effect ends: as it would at the API server, or with a failure."""
        if not self.open:
            return
        keys = list(self.open)
        effect = self.open[keys[op.a % len(keys)]]
        self.end(effect, HOW[op.b % len(HOW)] if op.c % 4 else "cancelled")

    def end(self, effect: Effect, how: str = "ok") -> None:
        """End an effect in a given way; one that was cancelled may still have been sent."""
        del self.open[effect.id]
        uid = effect.ref.uid  # type: ignore[union-attr]
        if how in ("error", "timeout", "gone", "cancelled"):
            if uid in self.pods:
                self._harm([self.gang_of(self.pods[uid])])
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
        match effect:
            case Bind(node=node, annotations=annotations):
                if pod.node:
                    return Outcome.OK if pod.node == node else Outcome.CONFLICT
                if not self._bindable(pod):
                    return Outcome.GONE
                hint = annotations.get(HINT, "")
                self.pods[pod.uid] = replace(pod, node=node, nominated="", hint=hint or pod.hint)
            case Nominate(node=node):
                self.pods[pod.uid] = replace(pod, nominated=node)
            case ClearNomination():
                self.pods[pod.uid] = replace(pod, nominated="")
            case Evict():
                self._harm([self.gang_of(pod)])
                del self.pods[pod.uid]
        return Outcome.OK

    def end_all(self, op: Op) -> None:
        """All that is open ends well; what was cancelled is not sent."""
        while self.open:
            effect = next(iter(self.open.values()))
            self.end(effect, "cancelled" if effect.id in self.cancelled else "ok")

    def watch(self, op: Op) -> None:
        """The watch catches up."""
        for uid in list(self.late):
            self.show(uid)

    def show(self, uid: str, outside: Sequence[str] = ()) -> None:
        """The watch shows a pod as it is."""
        self.late.pop(uid, None)
        pod = self.pods.get(uid)
        self.feed(PodGone(uid) if pod is None else PodSeen(pod), outside)

    def stale(self, op: Op) -> None:
        """The watch shows a pod as it was before its Binding."""
        hidden = [uid for uid in self.late if uid in self.pods and self.pods[uid].node]
        if hidden:
            pod = self.pods[hidden[op.a % len(hidden)]]
            if pod.uid in self.state.pods:
                self.feed(PodSeen(replace(pod, node="", hint="", priority=pod.priority)))

    def again(self, op: Op) -> None:
        """The watch shows a pod twice."""
        if (pod := self._pick(op.a)) and pod.uid not in self.late:
            self.feed(PodSeen(pod))

    # ── calls ──

    def filter(self, op: Op) -> None:
        """A filter call, and the same once more."""
        if pod := self._pick(op.a):
            call = Filter(pod.ref, self._names(op.b), pod if op.c % 2 else None)
            first = self.feed(call).reply
            assert isinstance(first, FilterReply)
            assert set(first.nodes) <= set(call.names), "I5"
            assert set(first.failed) <= set(call.names), "I5"
            assert self.feed(call).reply == first, "I4: the same call twice"

    def prioritize(self, op: Op) -> None:
        """A prioritize call, and the same once more."""
        if pod := self._pick(op.a):
            call = Prioritize(pod.ref, self._names(op.b), pod if op.c % 2 else None)
            first = self.feed(call).reply
            assert isinstance(first, PrioritizeReply)
            assert set(first.scores) == set(call.names), "I5"
            assert all(type(n) is int and 0 <= n <= 10 for n in first.scores.values())
            assert self.feed(call).reply == first, "I4: the same call twice"

    def preempt(self, op: Op) -> None:
        """A preempt call."""
        if pod := self._pick(op.a):
            victims = {name: [item.uid for item in self._on(name)] for name in self._names(op.b)}
            reply = self.feed(Preempt(pod.ref, victims, pod)).reply
            assert isinstance(reply, PreemptReply)
            for name, uids in reply.victims.items():
                assert uids
                assert set(uids) <= set(victims[name])

    def bind(self, op: Op) -> None:
        """The scheduler binds a pod where filter told it to, or elsewhere."""
        ours = [pod for pod in self.pods.values() if pod.scheduler == "muster"]
        if not ours or not self.nodes:
            return
        pod = ours[op.a % len(ours)]
        reserved = self.state.reservations.get(pod.uid)
        node = reserved.node if reserved and op.c % 4 else self._node(op.b)
        if pod.requests.keys() == {"cpu", "pods"} and not self._passes(pod, node):
            return
        self.feed(BindCall(pod.ref, node if op.c % 16 else "ghost"))

    def _passes(self, pod: Pod, node: str) -> bool:
        """Whether the scheduler itself would put a plain pod there, and filter lets it."""
        reply = self.feed(Filter(pod.ref, [node], pod)).reply
        assert isinstance(reply, FilterReply)
        have = self.nodes[node].allocatable
        here = [item for item in self._on(node) if invariants.holds(item)]
        return node in reply.nodes and all(
            sum(item.requests.get(name, 0) for item in (*here, pod)) <= have.get(name, 0)
            for name in pod.requests
        )

    def stranger(self, op: Op) -> None:
        """Calls about a pod that does not exist."""
        ref = PodRef("t", "nobody", "u-nobody")
        for call in (Filter(ref, self._names(op.b)), Prioritize(ref, self._names(op.b))):
            self.feed(call)
        self.feed(BindCall(ref, "n0"))
        self.feed(EffectDone(10**9, Outcome.OK))
        self.feed(PodGone("u-nobody"))

    # ── time ──

    def wait(self, op: Op) -> None:
        """Some seconds pass; due ticks run."""
        self.advance([0.5, 1, 2, 5, 10, 20, 40, 100][op.a % 8])

    def next_tick(self, op: Op) -> None:
        """The time that the engine asked for comes."""
        due = self.state.next_due()
        if due is not None:
            self.advance(max(0.0, due - self.now))

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
                self.tick()
        self.now = end

    def tick(self) -> None:
        """A Tick; the engine may not ask for another one at once."""
        due = self.feed(Tick()).next_due
        assert due is None or due > self.now, f"next_due {due} is not after {self.now}"

    def restart(self, op: Op) -> None:
        """Muster loses its memory; what it had sent may have been done."""
        for number, effect in enumerate(list(self.open.values())):
            if (op.a >> (number % 16)) & 1:
                self._apply(effect)
        self.open.clear()
        self.late.clear()
        self.seated_at.clear()
        self.history.append((None, self.now))
        self._harm(list(self.state.gangs))
        self.state = engine.new_state(self.kit.settings)
        self.listing = True
        for event in self.listed():
            self.feed(event)
        self.listing = False
        self.feed(Synced())

    def listed(self) -> list[Event]:
        """The world as a first list shows it."""
        nodes = sorted(self.nodes.values(), key=lambda item: item.name)
        pods = sorted(self.pods.values(), key=lambda pod: pod.key)
        groups = self.groups.values()
        return [*map(NodeSeen, nodes), *map(GroupSeen, groups), *map(PodSeen, pods)]

    # ── the end ──

    def settle(self) -> None:
        """Let all that is under way end well, the scheduler do its part, and the time-outs pass."""
        for _ in range(60):
            self._finish_all()
            due = self.state.next_due()
            if due is None or due > self.now + 2000:
                break
            self.advance(max(0.0, due - self.now))
        self._finish_all()
        invariants.check_rest(self)

    def _finish_all(self) -> None:
        self.watch(Op("watch", 0, 0, 0))
        for _ in range(500):
            if self.open:
                self.end_all(Op("end_all", 0, 0, 0))
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

    # ── choosing ──

    def gang_of(self, pod: Pod) -> GangKey:
        """The gang that a pod says it is of."""
        named = pod.declaration is not None
        return GangKey(pod.namespace, pod.declaration.name if named else pod.name, not named)  # type: ignore[union-attr]

    def _change(self, pod: Pod, **fields: object) -> None:
        self._harm([self.gang_of(pod)])
        self.pods[pod.uid] = replace(pod, **fields)  # type: ignore[arg-type]
        self.show(pod.uid)

    def _harm(self, gangs: Sequence[GangKey]) -> None:
        self.harmed.update(gangs)

    def _gangs_on(self, node: str) -> list[GangKey]:
        """Gangs that have, or may get, anything there."""
        bound = [self.gang_of(pod) for pod in self._on(node)]
        booked = [item.gang for item in self.state.reservations.values()]
        flying = [effect.gang for effect in self.open.values() if isinstance(effect, Bind)]
        return [*bound, *booked, *flying]

    def _on(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def _node(self, number: int) -> str:
        names = sorted(self.nodes)
        return names[number % len(names)]

    def _names(self, bits: int) -> list[str]:
        names = [item.name for at, item in enumerate(self.kit.nodes) if (bits >> at) & 1]
        return [*names, "ghost"] if bits & 64 else names

    def _pick(self, number: int) -> Pod | None:
        pods = list(self.pods.values())
        return pods[number % len(pods)] if pods else None

    @staticmethod
    def _bindable(pod: Pod) -> bool:
        return not (pod.node or pod.gates or pod.deleting or pod.phase.terminal)


OPERATIONS: dict[str, Callable[[Trial, Op], None]] = {
    "member": Trial.member,
    "whole_gang": Trial.whole_gang,
    "single": Trial.single,
    "plain": Trial.plain,
    "foreign": Trial.foreign,
    "bind_behind": Trial.bind_behind,
    "delete": Trial.delete,
    "terminate": Trial.terminate,
    "finish": Trial.finish,
    "recreate": Trial.recreate,
    "ungate": Trial.ungate,
    "change_min": Trial.change_min,
    "drop_group": Trial.drop_group,
    "change_node": Trial.change_node,
    "lose_node": Trial.lose_node,
    "return_node": Trial.return_node,
    "end_effect": Trial.end_effect,
    "end_all": Trial.end_all,
    "watch": Trial.watch,
    "stale": Trial.stale,
    "again": Trial.again,
    "filter": Trial.filter,
    "prioritize": Trial.prioritize,
    "preempt": Trial.preempt,
    "bind": Trial.bind,
    "stranger": Trial.stranger,
    "wait": Trial.wait,
    "next_tick": Trial.next_tick,
    "restart": Trial.restart,
}
