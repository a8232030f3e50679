"""C31 (end to end): sidecars, init containers, overhead, pod-level resources, limits alone."""

from __future__ import annotations

from typing import Any

import pytest

from .story import GPU, Story


def container(gpu: int | str = 0, sidecar: bool = False, **amounts: str) -> dict[str, Any]:
    resources = {key: str(value) for key, value in ({GPU: gpu} | amounts).items()}
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "c", "resources": {"requests": resources, "limits": resources}, **always}


TABLE: list[tuple[str, dict[str, Any], int]] = [
    ("app and init", {"containers": [container(4)], "initContainers": [container(8)]}, 8),
    ("app and sidecar", {"containers": [container(4)], "initContainers": [container(4, True)]}, 8),
    (
        "init before sidecar",
        {"containers": [container(4)], "initContainers": [container(6), container(2, True)]},
        6,
    ),
    (
        "sidecar before init",
        {"containers": [container(4)], "initContainers": [container(2, True), container(6)]},
        8,
    ),
    ("three containers", {"containers": [container(1)] * 3}, 3),
    ("ephemeral", {"containers": [container(2)], "ephemeralContainers": [container(4)]}, 2),
    ("limits alone", {"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]}, 2),
    (
        "pod level says nothing of GPUs",
        {"containers": [container(1), container(1)], "resources": {"requests": {"cpu": "3"}}},
        2,
    ),
]


@pytest.mark.parametrize(
    ("spec", "gpus"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_gpus_taken(spec: dict[str, Any], gpus: int) -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.pod("t/p", gang="A", min=1, spec=spec)

    assert story.bound == {"t/p": "n1"}
    assert story.free("n1") == str(8 - gpus)


def test_overhead_and_pod_level_cpu_count() -> None:
    story = Story()
    story.node("n1", gpu=8, cpu="10")

    story.pod(
        "t/p",
        gang="A",
        spec={
            "containers": [container(1, cpu="1"), container(1, cpu="1")],
            "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "3"}},
        },
    )

    assert story.free("n1", "cpu") == "6750m"


def test_no_gpus_asked_is_no_gpu_pod() -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.pod("t/p", spec={"containers": [container("0")]})

    assert story.filter("t/p", "n1", "n2")["nodes"] == ["n1", "n2"], "it passes as a plain pod"
    assert story.placed == {}


def test_a_gang_with_sidecars_fills_the_node_exactly() -> None:
    story = Story()
    story.node("n1", gpu=8)
    spec = {"containers": [container(2)], "initContainers": [container(2, True)]}

    story.gang("A", 2, spec=spec)
    story.pod("t/third", gpu=1)

    assert story.bound == {"t/A-0": "n1", "t/A-1": "n1"}
    assert story.free("n1") == "0"
    assert story.filter("t/third")["nodes"] == []


@pytest.mark.parametrize("scheduler", ["muster", "default-scheduler"])
def test_a_gang_starts_in_the_room_that_a_pod_gives_back(scheduler: str) -> None:
    story = Story()
    story.node("n1", gpu=8, cpu="16")
    running = {"gpu": 1, "node": "n1", "phase": "Running", "scheduler": scheduler}
    story.pod("t/x", cpu="12", **running)
    story.gang("A", 2, of=1, cpu="4")
    assert set(story.placed) == {"t/x"}

    story.pod("t/x", cpu="8", **running)

    assert set(story.placed) == {"t/x", "t/A-0", "t/A-1"}
