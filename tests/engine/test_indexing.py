"""Where a node's agent publishes its links, the hint predicts which GPUs a member gets."""

from __future__ import annotations

import json
from typing import Any

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
