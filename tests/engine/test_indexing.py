"""Where a node's agent publishes its links, the hint predicts which GPUs a member gets."""

from __future__ import annotations

import json
from typing import Any

from scheduler import decode
from scheduler.core import engine
from scheduler.core.messages import Bind, NodeSeen, PodSeen, Synced
from scheduler.settings import Settings
from scheduler.simulation.replay import replay
from tests.builders import node, pod

PAIRS = {"0-1": "NV4", "2-3": "NV4"}


def bindings(annotations: dict[str, str], *pods: dict[str, Any]) -> dict[str, Any]:
    lines = [{"op": "node", "object": node("n1", gpu=4, annotations=annotations)}]
    lines += [{"op": "pod", "object": obj} for obj in pods]
    printed = [json.loads(line) for line in replay(json.dumps(line) for line in lines)]
    return {line["pod"]: line for line in printed if line.get("effect") == "bind"}


def hints(annotations: dict[str, str], *pods: dict[str, Any]) -> dict[str, Any]:
    found = bindings(annotations, *pods)
    return {pod: line["hint"]["gpus"] for pod, line in found.items()}


def published(in_use: dict[str, list[int]] | None = None, **more: Any) -> dict[str, str]:
    topology = {"v": 1, "gpus": 4, "links": PAIRS, "numa": [0, 0, 1, 1], "nics": [], "uuids": []}
    return {
        "muster.scheduler/gpu-topology": json.dumps(topology | more),
        "muster.scheduler/gpus-in-use": json.dumps({"v": 1, "in_use": in_use or {}}),
    }


def test_two_members_get_the_two_linked_pairs() -> None:
    members = [pod(f"t/a-{index}", gpu=2, gang="a", min=2) for index in range(2)]
    assert hints(published(), *members) == {"t/a-0": [0, 1], "t/a-1": [2, 3]}


def test_what_the_kubelet_gave_to_others_is_taken() -> None:
    other = pod("t/x", gpu=1, node="n1", uid="u-x")
    member = pod("t/a", gpu=2)
    assert hints(published({"u-x": [1]}), other, member) == {"t/a": [2, 3]}


def test_without_an_agent_or_with_a_bad_annotation_nothing_is_predicted() -> None:
    member = pod("t/a", gpu=2)
    assert hints({}, member) == {"t/a": None}
    assert hints({"muster.scheduler/gpu-topology": "{"}, member) == {"t/a": None}


def test_a_member_is_told_what_lies_beside_its_gpus() -> None:
    cards = [{"name": f"mlx5_{at}", "numa": at, "near": [2 * at, 2 * at + 1]} for at in range(2)]
    members = [pod(f"t/a-{index}", gpu=2, gang="a", min=2) for index in range(2)]
    found = bindings(published(nics=cards), *members)
    told = {key: (line["hint"]["numa"], line["hint"]["nics"]) for key, line in found.items()}
    assert told == {"t/a-0": ([0], ["mlx5_0"]), "t/a-1": ([1], ["mlx5_1"])}
    assert "nics" not in bindings({}, *members)["t/a-0"]["hint"]


# ── Exact assignment ──────────────────────────────────────────────────────────────────────────────

EXACT = {"exact-gpus": "true"}
UUIDS = ["GPU-a", "GPU-b", "GPU-c", "GPU-d"]


def visible(annotations: dict[str, str], *pods: dict[str, Any]) -> dict[str, str | None]:
    """Pod -> the devices that its Binding gives it."""
    state = engine.new_state(Settings())
    engine.step(state, NodeSeen(decode.node(node("n1", gpu=4, annotations=annotations))), 0.0)
    engine.step(state, Synced(), 0.0)
    steps = [engine.step(state, PodSeen(decode.pod(obj)), 1.0) for obj in pods]
    binds = [effect for step in steps for effect in step.effects if isinstance(effect, Bind)]
    key = "muster.scheduler/visible-devices"
    return {effect.ref.name: effect.annotations.get(key) for effect in binds}


def test_a_member_that_asks_for_it_is_given_its_very_gpus() -> None:
    members = [pod(f"t/a-{at}", gpu=2, gang="a", min=2, options=EXACT) for at in range(2)]
    assert visible(published(uuids=UUIDS), *members) == {"a-0": "GPU-a,GPU-b", "a-1": "GPU-c,GPU-d"}
    assert visible(published(), *members) == {"a-0": "0,1", "a-1": "2,3"}


def test_nobody_is_given_gpus_unasked_or_where_it_is_not_known_which_are_free() -> None:
    asking = pod("t/a", gpu=2, options=EXACT)
    assert visible(published(uuids=UUIDS), pod("t/a", gpu=2)) == {"a": None}
    assert visible({}, asking) == {"a": None}
    assert visible(published(uuids=UUIDS), pod("t/x", gpu=1, node="n1"), asking) == {"a": None}


def test_gpus_that_were_given_are_not_given_again_after_a_restart() -> None:
    hint = {"muster.scheduler/hint": json.dumps({"v": 1, "gpus": [0, 1], "rank": 0})}
    first = pod("t/a", gpu=2, node="n1", options=EXACT, annotations=hint)
    second = pod("t/b", gpu=2, options=EXACT)
    assert visible(published(uuids=UUIDS), first, second) == {"b": "GPU-c,GPU-d"}


def test_what_a_pod_s_owner_makes_of_its_hint_later_gives_nobody_other_gpus() -> None:
    asking = pod("t/b", gpu=2, options=EXACT)
    for forged in ([2, 3], [0, 1, 2, 3]):
        first = pod("x/a", gpu=2, node="n1", options=EXACT, annotations=told([0, 1]))
        changed = pod("x/a", gpu=2, node="n1", options=EXACT, annotations=told(forged))
        assert visible(published(uuids=UUIDS), first, changed, asking) == {"b": "GPU-c,GPU-d"}


def test_a_hint_that_names_more_gpus_than_its_pod_has_is_not_believed() -> None:
    boasting = pod("x/a", gpu=1, node="n1", annotations=told([0, 1, 2, 3]))
    assert visible(published(uuids=UUIDS), boasting, pod("t/b", gpu=2, options=EXACT)) == {
        "b": None
    }


def told(gpus: list[int]) -> dict[str, str]:
    return {"muster.scheduler/hint": json.dumps({"v": 1, "gpus": gpus, "rank": 0})}
