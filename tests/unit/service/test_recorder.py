"""What is recorded can be replayed, and holds nothing private."""

from __future__ import annotations

import json

from scheduler import decode
from scheduler.core import engine
from scheduler.core.messages import EffectDone, Event, Filter, NodeSeen, Outcome, PodSeen, Synced
from scheduler.service.recorder import Recorder, snapshot_lines, trimmed
from scheduler.settings import Settings
from scheduler.simulation.replay import replay
from tests.builders import node, pod


def test_commands_and_environment_are_left_out_but_sizes_stay() -> None:
    secret = pod("t/a", gpu=1)
    container = secret["spec"]["containers"][0]
    container |= {
        "command": ["run", "--token=s3cret"],
        "args": ["s3cret"],
        "env": [{"name": "TOKEN", "value": "s3cret"}, {"name": "PET_NNODES", "value": "4"}],
        "envFrom": [{"secretRef": {"name": "s3cret"}}],
    }
    secret["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = "s3cret"
    secret["metadata"]["managedFields"] = [{"manager": "s3cret"}]
    text = json.dumps(trimmed(secret))
    assert "s3cret" not in text
    assert "PET_NNODES" in text
    assert decode.pod(trimmed(secret)).requests == decode.pod(secret).requests


def test_a_recording_replays_to_the_same_bindings() -> None:
    lines: list[str] = []
    recorder = Recorder(Settings(levels=("topo/rack",)), lines.append)
    state = engine.new_state(Settings(levels=("topo/rack",)))

    def feed(event: Event, now: float) -> None:
        step = engine.step(state, event, now)
        recorder.step(event, step.effects, now)
        for effect in step.effects:
            feed(EffectDone(effect.id, Outcome.OK), now)

    objects = [node("n1", gpu=8, rack="r1")]
    members = [pod(f"t/a-{index}", gpu=4, gang="a", min=2) for index in range(2)]
    for obj in objects:
        recorder.keep("v1", "Node", json.dumps(obj).encode())
        feed(NodeSeen(decode.node(obj)), 100.0)
    feed(Synced(), 100.5)
    for at, obj in enumerate(members):
        recorder.keep("v1", "Pod", json.dumps(obj).encode())
        feed(PodSeen(decode.pod(obj)), 101.0 + at)
        if not at:
            feed(Filter(decode.pod(obj).ref, ["n1"]), 101.5)

    printed = [json.loads(line) for line in replay(lines)]
    assert [line.get("unresolvable") for line in printed if line.get("op") == "filter"] == [
        {"muster": "gang t/a: 1 of 2 pods exist"}
    ]
    assert [(line["pod"], line["node"]) for line in printed if line.get("effect") == "bind"] == [
        ("t/a-0", "n1"),
        ("t/a-1", "n1"),
    ]


def test_a_snapshot_is_a_replay_that_prints_the_state() -> None:
    objects = [node("n1", gpu=8), pod("t/a", gpu=8, node="n1")]
    state = json.loads(list(replay(snapshot_lines(Settings(), objects)))[-1])
    assert state["bound"] == {"t/a": "n1"}
    assert state["free"]["n1"]["nvidia.com/gpu"] == "0"
