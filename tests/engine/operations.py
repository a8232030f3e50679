"""What may happen in a random run.

An operation is a name and three numbers; the numbers choose among whatever there is, so that any
list of operations can be carried out, and any part of it, too: that is what makes a failing run
easy to shrink. One that finds nothing to work on does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from scheduler.core.gates import OWN
from scheduler.core.messages import (
    BindCall,
    ChartGone,
    ChartSeen,
    EffectDone,
    Filter,
    FilterReply,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Preempt,
    PreemptReply,
    Prioritize,
    PrioritizeReply,
)
from scheduler.model import Constraints, Owner, Phase, Pod, PodRef

from . import invariants
from .kits import GPU, GangKind, group_of
from .trial import Trial

HOW = ("ok", "ok", "ok", "late", "watch first", "error", "timeout", "lost", "gone")
"""How an effect may end: "late" is done but the watch is slow, "lost" is a time-out besides."""

WAITS = (0.5, 1, 2, 5, 10, 20, 40, 100)
"""Seconds that may pass at once."""


class Op(NamedTuple):
    """One thing that happens; ``a``, ``b`` and ``c`` choose among what there is."""

    name: str
    a: int
    b: int
    c: int


Operation = Callable[[Trial, Op], None]
OPERATIONS: dict[str, Operation] = {}


def operation(carry_out: Operation) -> Operation:
    """Make it one of the things that may happen, under its own name."""
    OPERATIONS[carry_out.__name__] = carry_out
    return carry_out


def do(trial: Trial, op: Op) -> None:
    """Carry out one operation."""
    OPERATIONS[op.name](trial, op)


# ── choosing ──


def _kind(trial: Trial, number: int) -> GangKind:
    return trial.kit.gangs[number % len(trial.kit.gangs)]


def _node(trial: Trial, number: int) -> str:
    names = sorted(trial.nodes)
    return names[number % len(names)]


def _names(trial: Trial, bits: int) -> list[str]:
    names = [item.name for at, item in enumerate(trial.kit.nodes) if (bits >> at) & 1]
    return [*names, "ghost"] if bits & 64 else names


def _pick(pods: list[Pod], number: int) -> Pod | None:
    return pods[number % len(pods)] if pods else None


def _any(trial: Trial, number: int) -> Pod | None:
    return _pick(list(trial.pods.values()), number)


def _ours(trial: Trial) -> list[Pod]:
    return [pod for pod in trial.pods.values() if pod.scheduler == "muster"]


# ── pods come ──


_GATES = {0: ("quota",), 2: (OWN,), 3: ("quota", OWN)}


@operation
def member(trial: Trial, op: Op) -> None:
    """The next member of a gang is created, gated or seen late at times."""
    kind = _kind(trial, op.a)
    names = {pod.name for pod in trial.pods.values()}
    free = [at for at in range(kind.size) if f"{kind.name}-{at}" not in names]
    if free:
        gates = _GATES.get(op.c % 16, ())
        pod = _member(trial, kind, free[op.b % len(free)])
        trial.create(replace(pod, gates=gates), late=op.c % 16 == 1)


def _member(trial: Trial, kind: GangKind, at: int) -> Pod:
    uid, made = trial.uid(), trial.made
    owner = Owner("Job", kind.name, f"job-{trial.owners[kind.name]}") if kind.owned else None
    return Pod(
        kind.namespace,
        f"{kind.name}-{at}",
        uid,
        scheduler="muster",
        priority=kind.priority,
        created=float(made),
        requests=kind.requests(at),
        constraints=Constraints(ports=kind.ports),
        declaration=kind.declaration(at),
        index=at if kind.indexed else None,
        owner=owner,
        labels=dict(kind.labels),
        anti_affinity=kind.keeps_off,
    )


@operation
def whole_gang(trial: Trial, op: Op) -> None:
    """All members of a gang that are missing are created."""
    for at in range(_kind(trial, op.a).size):
        member(trial, Op("member", op.a, at, 2))


@operation
def single(trial: Trial, op: Op) -> None:
    """A pod with GPUs and without a gang."""
    uid = trial.uid()
    priority = 0 if trial.kit.calm else [0, 0, 10][op.b % 3]
    requests = {"cpu": 1000, "pods": 1, GPU: [1, 2, 4, 8][op.a % 4]}
    made = float(trial.made)
    pod = Pod("t", f"s-{uid}", uid, "muster", priority=priority, created=made, requests=requests)
    trial.create(pod)


@operation
def plain(trial: Trial, op: Op) -> None:
    """A pod without GPUs; the watch may be slower than its filter call."""
    uid = trial.uid()
    requests = {"cpu": [1000, 8000][op.a % 2], "pods": 1}
    trial.create(Pod("t", f"p-{uid}", uid, "muster", requests=requests), late=op.b % 2 == 0)


@operation
def foreign(trial: Trial, op: Op) -> None:
    """Another scheduler binds (or nominates) a pod, whatever is reserved there."""
    if not trial.nodes:
        return
    uid, node = trial.uid(), _node(trial, op.a)
    requests = {"cpu": 2000, "pods": 1} | ({GPU: op.b % 5} if op.b % 5 else {})
    pod = Pod("other", f"f-{uid}", uid, "default-scheduler", requests=requests)
    if op.c % 4 == 0:
        trial.create(replace(pod, nominated=node))
    else:
        _bound_outside(trial, pod, node)


@operation
def bind_behind(trial: Trial, op: Op) -> None:
    """A pod of ours is bound by somebody else."""
    pod = _pick([pod for pod in _ours(trial) if invariants.may_be_bound(pod)], op.a)
    if pod and trial.nodes:
        trial.harm([trial.gang_of(pod)])
        _bound_outside(trial, pod, _node(trial, op.b))


def _bound_outside(trial: Trial, pod: Pod, node: str) -> None:
    trial.harm(trial.gangs_at(node))
    trial.pods[pod.uid] = replace(pod, node=node)
    trial.show(pod.uid, outside=[node])


# ── pods go and change ──


@operation
def delete(trial: Trial, op: Op) -> None:
    """A pod is gone; the watch may be late."""
    if pod := _any(trial, op.a):
        trial.remove(pod)
        if op.b % 8:
            trial.show(pod.uid)


@operation
def terminate(trial: Trial, op: Op) -> None:
    """A pod gets its deletion time."""
    if pod := _any(trial, op.a):
        trial.change(pod, deleting=True)


@operation
def finish(trial: Trial, op: Op) -> None:
    """A bound pod ends, well or badly."""
    bound = [pod for pod in trial.pods.values() if invariants.holds(pod)]
    if pod := _pick(bound, op.a):
        trial.change(pod, phase=Phase.SUCCEEDED if op.b % 2 else Phase.FAILED)


@operation
def recreate(trial: Trial, op: Op) -> None:
    """A member is replaced by one of the same name; the delete may come late or never."""
    old = _pick([pod for pod in trial.pods.values() if pod.declaration], op.a)
    if old is None:
        return
    trial.remove(old)
    if op.b % 4 == 0:
        trial.show(old.uid)
    unbound = replace(old, node="", nominated="", hint="", phase=Phase.PENDING, deleting=False)
    uid = trial.uid()
    trial.create(replace(unbound, uid=uid, gates=(), created=float(trial.made)))
    trial.late.pop(old.uid, None)
    if op.b % 4 == 1:
        trial.feed(PodGone(old.uid))


@operation
def new_controller(trial: Trial, op: Op) -> None:
    """A gang's controller is replaced: its members, too, but the old ones go late."""
    kind = _kind(trial, op.a)
    if not kind.owned:
        return
    trial.owners[kind.name] += 1
    trial.harm([kind.key])
    for old in [pod for pod in trial.pods.values() if trial.gang_of(pod).name == kind.name]:
        if op.b % 2 or not old.node:
            trial.remove(old)
            trial.show(old.uid)
    whole_gang(trial, op)


@operation
def ungate(trial: Trial, op: Op) -> None:
    """A gate is taken off."""
    if pod := _pick([pod for pod in trial.pods.values() if pod.gates], op.a):
        trial.change(pod, gates=())


@operation
def resize(trial: Trial, op: Op) -> None:
    """A pod that runs asks for more of the processors, or for less."""
    bound = [pod for pod in trial.pods.values() if invariants.holds(pod)]
    if (pod := _pick(bound, op.a)) and trial.kit.resizes:
        trial.harm(trial.gangs_at(pod.node))
        asked = {**pod.requests, "cpu": (500, 8000, 15_000)[op.b % 3]}
        trial.pods[pod.uid] = replace(pod, requests=asked)
        trial.show(pod.uid, outside=[pod.node])


@operation
def relabel(trial: Trial, op: Op) -> None:
    """A pod is of another app, which others may keep off."""
    if (pod := _any(trial, op.a)) and trial.kit.apps:
        app = trial.kit.apps[op.b % len(trial.kit.apps)]
        trial.pods[pod.uid] = replace(pod, labels={"app": app})
        trial.show(pod.uid)


@operation
def change_min(trial: Trial, op: Op) -> None:
    """The members of a gang (or its group) now state another min."""
    kind = _kind(trial, op.a)
    least = 1 + op.b % kind.size
    trial.harm([kind.key])
    if kind.group is not None:
        trial.groups[kind.group] = group_of(kind, least)
        trial.feed(GroupSeen(trial.groups[kind.group]))
        return
    for pod in [pod for pod in trial.pods.values() if trial.gang_of(pod).name == kind.name]:
        declaration = pod.declaration
        assert declaration is not None
        options = replace(declaration.options, min_available=least)
        trial.change(pod, declaration=replace(declaration, options=options))


@operation
def drop_group(trial: Trial, op: Op) -> None:
    """A group object goes, or comes back."""
    for kind in [kind for kind in trial.kit.gangs if kind.group is not None]:
        assert kind.group is not None
        trial.harm([kind.key])
        if trial.groups.pop(kind.group, None) is None:
            trial.groups[kind.group] = group_of(kind)
            trial.feed(GroupSeen(trial.groups[kind.group]))
        else:
            trial.feed(GroupGone(kind.group))


@operation
def change_chart(trial: Trial, op: Op) -> None:
    """An object that describes the network comes, changes, or goes."""
    if not trial.kit.charts:
        return
    chart = trial.kit.charts[op.a % len(trial.kit.charts)]
    trial.harm(list(trial.state.gangs))
    if op.b % 3 == 0 and trial.charts.pop(chart.key, None) is not None:
        trial.feed(ChartGone(chart.key))
    else:
        trial.charts[chart.key] = chart
        trial.feed(ChartSeen(chart))


# ── nodes ──


@operation
def change_node(trial: Trial, op: Op) -> None:
    """A node is cordoned, unready, smaller, relabelled, on its way out, or as it was."""
    if not trial.nodes:
        return
    name = _node(trial, op.a)
    whole = next(item for item in trial.kit.nodes if item.name == name)
    changed = [
        replace(whole, unschedulable=True),
        replace(whole, ready=False),
        replace(whole, allocatable={**whole.allocatable, GPU: whole.allocatable[GPU] // 2}),
        replace(whole, allocatable={**whole.allocatable, GPU: 0}),
        replace(whole, labels={}),
        replace(whole, deleting=True),
        whole,
        whole,
    ][op.b % 8]
    trial.harm(trial.gangs_at(name))
    trial.nodes[name] = changed
    trial.feed(NodeSeen(changed), outside=[name])


@operation
def lose_node(trial: Trial, op: Op) -> None:
    """A node is deleted; its pods are left for now."""
    if trial.nodes:
        name = _node(trial, op.a)
        trial.harm(trial.gangs_at(name))
        del trial.nodes[name]
        trial.feed(NodeGone(name))


@operation
def return_node(trial: Trial, op: Op) -> None:
    """A node comes back."""
    gone = [item for item in trial.kit.nodes if item.name not in trial.nodes]
    if gone:
        item = gone[op.a % len(gone)]
        trial.nodes[item.name] = item
        trial.feed(NodeSeen(item), outside=[item.name])


# ── effects and the watch ──


@operation
def end_effect(trial: Trial, op: Op) -> None:
    """An open effect ends: as it would at the API server, or with a failure."""
    if trial.open:
        keys = list(trial.open)
        effect = trial.open[keys[op.a % len(keys)]]
        trial.end(effect, HOW[op.b % len(HOW)] if op.c % 4 else "cancelled")


@operation
def end_all(trial: Trial, op: Op) -> None:
    """All that is open ends well."""
    trial.end_all()


@operation
def watch(trial: Trial, op: Op) -> None:
    """The watch catches up."""
    trial.show_all()


@operation
def stale(trial: Trial, op: Op) -> None:
    """The watch shows a pod as it was before its Binding."""
    pods, state = trial.pods, trial.state
    hidden = [pods[uid] for uid in trial.late if uid in pods and uid in state.pods]
    if pod := _pick([pod for pod in hidden if pod.node], op.a):
        trial.feed(PodSeen(replace(pod, node="", hint="")))


@operation
def again(trial: Trial, op: Op) -> None:
    """The watch shows a pod twice."""
    if (pod := _any(trial, op.a)) and pod.uid not in trial.late:
        trial.feed(PodSeen(pod))


# ── calls ──


@operation
def filter(trial: Trial, op: Op) -> None:
    """A filter call, and the same once more."""
    if pod := _any(trial, op.a):
        call = Filter(pod.ref, _names(trial, op.b), pod if op.c % 2 else None)
        first = trial.feed(call).reply
        assert isinstance(first, FilterReply)
        assert set(first.nodes) <= set(call.names), "I5: a node that was not offered"
        assert set(first.failed) <= set(call.names), "I5: a node that was not offered"
        assert trial.feed(call).reply == first, "I4: the same call twice"
        said = " ".join([*first.failed.values(), *first.unresolvable.values()])
        others = {kind.namespace for kind in trial.kit.gangs} - {pod.namespace}
        assert not any(f"{name}/" in said for name in others), (
            f"{pod.key} is told of others: {said}"
        )


@operation
def prioritize(trial: Trial, op: Op) -> None:
    """A prioritize call, and the same once more."""
    if pod := _any(trial, op.a):
        call = Prioritize(pod.ref, _names(trial, op.b), pod if op.c % 2 else None)
        first = trial.feed(call).reply
        assert isinstance(first, PrioritizeReply)
        assert set(first.scores) == set(call.names), "I5: one score for every node offered"
        assert all(type(n) is int and 0 <= n <= 10 for n in first.scores.values())
        assert trial.feed(call).reply == first, "I4: the same call twice"


@operation
def preempt(trial: Trial, op: Op) -> None:
    """A preempt call; what is allowed is a part of what was asked for, and never empty."""
    if pod := _any(trial, op.a):
        victims = {name: [item.uid for item in trial.on(name)] for name in _names(trial, op.b)}
        reply = trial.feed(Preempt(pod.ref, victims, pod)).reply
        assert isinstance(reply, PreemptReply)
        for name, uids in reply.victims.items():
            assert uids
            assert set(uids) <= set(victims[name])


@operation
def bind(trial: Trial, op: Op) -> None:
    """The scheduler binds a pod where filter told it to, or elsewhere."""
    pod = _pick(_ours(trial), op.a)
    if pod is None or not trial.nodes:
        return
    reserved = trial.state.reservations.get(pod.uid)
    node = reserved.node if reserved and op.c % 4 else _node(trial, op.b)
    is_plain = pod.declaration is None and GPU not in pod.requests
    if is_plain and not _scheduler_would(trial, pod, node):
        return
    trial.feed(BindCall(pod.ref, node if op.c % 16 else "ghost"))


def _scheduler_would(trial: Trial, pod: Pod, node: str) -> bool:
    """Whether the scheduler itself would put a plain pod there, and filter lets it."""
    reply = trial.feed(Filter(pod.ref, [node], pod)).reply
    assert isinstance(reply, FilterReply)
    have = trial.nodes[node].allocatable
    together = [pod, *(item for item in trial.on(node) if invariants.holds(item))]
    return node in reply.nodes and all(
        sum(item.requests.get(name, 0) for item in together) <= have.get(name, 0)
        for name in pod.requests
    )


@operation
def stranger(trial: Trial, op: Op) -> None:
    """Calls and outcomes about what does not exist."""
    ref = PodRef("t", "nobody", "u-nobody")
    trial.feed(Filter(ref, _names(trial, op.b)))
    trial.feed(Prioritize(ref, _names(trial, op.b)))
    trial.feed(BindCall(ref, "n0"))
    trial.feed(EffectDone(10**9, Outcome.OK))
    trial.feed(PodGone(ref.uid))


# ── time ──


@operation
def wait(trial: Trial, op: Op) -> None:
    """Some seconds pass; due ticks run."""
    trial.advance(WAITS[op.a % len(WAITS)])


@operation
def next_tick(trial: Trial, op: Op) -> None:
    """The time that the engine asked for comes."""
    due = trial.state.next_due()
    if due is not None:
        trial.advance(max(0.0, due - trial.now))


@operation
def restart(trial: Trial, op: Op) -> None:
    """Muster loses its memory; what it had sent may have been done."""
    trial.restart(op.a)
