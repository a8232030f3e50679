"""Ten thousand hostile objects change nothing for a healthy gang, and raise nothing."""

from __future__ import annotations

import random
from typing import Any

from scheduler import decode
from scheduler.core import engine, explain
from scheduler.core.messages import (
    EffectDone,
    Event,
    Filter,
    GroupSeen,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Synced,
)
from scheduler.errors import DecodeError
from scheduler.model import Pod
from scheduler.settings import Settings
from tests.builders import node, pod

OBJECTS = 10_000
SEED = 20261130
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
HUGE = "x" * 1_000_000

VALUES: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    " ",
    "0.5",
    "1500m",
    "50E",
    "1e999999999",
    "NaN",
    "-4",
    "٣",
    "\x00",
    "🦀" * 70,
    "a" * 64,
    "../../etc",
    "<b>",
    [],
    {},
    [None],
    {"": None},
    {"v": 99},
]

KEYS = [
    "gang",
    "min-available",
    "size",
    "role",
    "role-min",
    "index",
    "topology-required",
    "topology-preferred",
    "topology-relax-after",
    "segment-size",
    "communication",
    "timeout",
    "max-runtime",
    "start",
    "hint",
    "gpu-topology",
    "gpus-in-use",
]


class Attacker:
    """Makes pods, nodes and groups of which any part may be any value."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)

    def value(self) -> Any:
        if self.random.random() < 0.002:
            return self.random.choice([DEEP, HUGE])
        return self.random.choice(VALUES)

    def some(self, obj: Any, share: float = 0.15) -> Any:
        """The object with parts of it replaced."""
        if self.random.random() < share / 3:
            return self.value()
        if isinstance(obj, dict):
            return {key: self.some(part, share) for key, part in obj.items()}
        if isinstance(obj, list):
            return [self.some(part, share) for part in obj]
        return obj

    def pod(self, number: int) -> Any:
        keys = {f"muster.scheduler/{key}": self.value() for key in self.random.sample(KEYS, 3)}
        obj = pod(f"h/x-{number}", gpu=self.random.randint(0, 9))
        obj["metadata"]["annotations"] |= keys
        hostile = self.some(obj)
        # Never in the healthy gang's namespace, and never on its nodes: that would be no attack.
        if isinstance(hostile, dict) and isinstance(hostile.get("metadata"), dict):
            hostile["metadata"] |= {"name": f"x-{number}", "namespace": "h"}
        if isinstance(hostile, dict) and isinstance(hostile.get("spec"), dict):
            hostile["spec"]["schedulingGates"] = [{"name": "hostile"}]
        return hostile

    def node(self, number: int) -> Any:
        obj = node(f"x{number}", gpu=8, taints=["hostile=true:NoSchedule"])
        hostile = self.some(obj)
        if isinstance(hostile, dict):
            hostile["metadata"] = {"name": f"x{number}", "labels": {"hostile": "true"}}
            hostile["spec"] = {"unschedulable": True}
        return hostile

    def group(self, number: int) -> Any:
        spec = {"minMember": self.value(), "scheduleTimeoutSeconds": self.value()}
        meta = {
            "name": f"g{number}",
            "namespace": "h",
            "annotations": {"muster.scheduler/size": "x"},
        }
        kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
        return self.some({**kind, "metadata": meta, "spec": spec})


def events(attacker: Attacker, number: int) -> list[Event]:
    """What one hostile object leads to; nothing if it is no object with a name."""
    kind = number % 5
    try:
        if kind == 0:
            return [NodeSeen(decode.node(attacker.node(number)))]
        if kind == 1:
            group = decode.group(attacker.group(number))
            return [GroupSeen(group)] if group is not None else []
        found = decode.pod(attacker.pod(number))
        return [PodSeen(found), Filter(found.ref, ["n1", "x0"]), *_sometimes_gone(found, number)]
    except DecodeError:
        return []


def _sometimes_gone(found: Pod, number: int) -> list[Event]:
    return [PodGone(found.uid)] if number % 3 else []


def healthy(seed_events: bool) -> dict[str, Any]:
    """The state of a gang that arrives member by member, with or without an attack in between."""
    state = engine.new_state(Settings(levels=("topo/rack",)))

    def feed(event: Event) -> None:
        for effect in engine.step(state, event, 1.0).effects:
            engine.step(state, EffectDone(effect.id, Outcome.OK), 1.0)

    for number in range(1, 5):
        feed(NodeSeen(decode.node(node(f"n{number}", gpu=8, rack=f"r{number % 2}"))))
    feed(Synced())
    members = [
        decode.pod(pod(f"t/a-{index}", gpu=4, gang="a", min=4, options={"index": str(index)}))
        for index in range(4)
    ]
    attacker = Attacker()
    for number in range(OBJECTS):
        if number % (OBJECTS // 4) == 0:
            feed(PodSeen(members[number * 4 // OBJECTS]))
        if seed_events:
            for event in events(attacker, number):
                feed(event)
    shown = explain.snapshot_state(state)
    bound = {key: where for key, where in shown["bound"].items() if key.startswith("t/")}
    hints = {uid: state.pods[uid].hint for uid in state.pods if state.pods[uid].namespace == "t"}
    return {"gang": shown["gangs"]["t/a"], "bound": bound, "hints": hints}


def test_hostile_objects_change_nothing_for_a_healthy_gang() -> None:
    calm = healthy(seed_events=False)
    assert calm["gang"]["state"] == "running"
    assert healthy(seed_events=True) == calm
