"""An engine with nodes of four GPUs and pods that may ask for their very GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler import decode
from scheduler.core import engine, explain
from scheduler.core.messages import (
    Bind,
    Effect,
    EffectDone,
    Event,
    NodeSeen,
    Nominate,
    Outcome,
    PodSeen,
    Synced,
)
from scheduler.model import GangKey
from scheduler.settings import Settings
from tests.builders import node, pod

EXACT = {"exact-gpus": "true"}
UUIDS = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]
TABLE: dict[str, Any] = {"v": 1, "gpus": 4, "links": {"0-1": "NV4", "2-3": "NV4"}, "uuids": UUIDS}
VISIBLE = "muster.scheduler/visible-devices"
HINT = "muster.scheduler/hint"


def agent(
    in_use: Mapping[str, Sequence[int]] | None = None,
    *,
    by_name: Mapping[str, Sequence[int]] | None = None,
    at: int = 0,
    **table: Any,
) -> dict[str, str]:
    """What the agent of a node has published; each field of its table can be another."""
    use = {"v": 1, "in_use": in_use or {}, "by_name": by_name or {}, "at": at}
    return {
        "muster.scheduler/gpu-topology": json.dumps(TABLE | table),
        "muster.scheduler/gpus-in-use": json.dumps(use),
    }


class World:
    """An engine with nodes of four GPUs, whose Bindings land at once."""

    def __init__(self, *accelerators: str) -> None:
        settings = Settings()
        names = (*settings.accelerators, *accelerators)
        self.state = engine.new_state(Settings(accelerators=names))
        self.now = 0.0
        self.given: dict[str, str | None] = {}
        """Pod -> the GPUs that its Binding gave it."""
        self.hint: dict[str, dict[str, Any]] = {}
        self.node_of: dict[str, str] = {}
        self.effects: list[Effect] = []
        self.step(Synced())

    def step(self, event: Event) -> None:
        self.now += 1.0
        todo = list(engine.step(self.state, event, self.now).effects)
        while todo:
            effect = todo.pop(0)
            self.effects.append(effect)
            if isinstance(effect, Bind):
                self.given[effect.ref.name] = effect.annotations.get(VISIBLE)
                self.hint[effect.ref.name] = json.loads(effect.annotations[HINT])
                self.node_of[effect.ref.name] = effect.node
            if isinstance(effect, Bind | Nominate):
                done = EffectDone(effect.id, Outcome.OK)
                todo += engine.step(self.state, done, self.now).effects

    def node(self, annotations: dict[str, str], name: str = "n1", **more: Any) -> None:
        self.step(NodeSeen(decode.node(node(name, annotations=annotations, **{"gpu": 4} | more))))

    def pods(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.step(PodSeen(decode.pod(obj)))

    def why(self, name: str) -> str:
        gang = (
            self.state.gangs.get(GangKey("t", name))
            or self.state.gangs[GangKey("t", name, pod=True)]
        )
        answer = explain.why_of(self.state, gang)
        assert answer is not None
        return str(answer["reason"])


def asking(name: str = "t/a", gpu: int = 2, **more: Any) -> dict[str, Any]:
    return pod(name, gpu=gpu, options=EXACT | more.pop("options", {}), **more)


def told(gpus: list[int], uuids: Any = ()) -> dict[str, str]:
    """The hint of a pod; without UUIDs, as where the agent knows none."""
    named = {} if uuids == () else {"uuids": uuids}
    return {"muster.scheduler/hint": json.dumps({"v": 1, "gpus": gpus, **named, "rank": 0})}
