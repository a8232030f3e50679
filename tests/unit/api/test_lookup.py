"""Which gang the last part of /v1/gangs/{namespace}/{name} means."""

from __future__ import annotations

import pytest

from scheduler.api.lookup import named

JOB, TORCH = "t/a#Job.batch", "t/a#PyTorchJob.kubeflow.org"
GANGS = [{"key": key} for key in (JOB, TORCH, "t/a#pod", "t/B", "t/alone#pod")]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("t/B", ["t/B"]),
        ("t/b", []),
        ("t/a", [JOB, TORCH]),
        (JOB, [JOB]),
        ("t/a#job", [JOB]),
        ("t/a#pytorchjob.kubeflow.org", [TORCH]),
        ("t/a#jobset", []),
        ("t/a#pod", ["t/a#pod"]),
        ("t/alone", ["t/alone#pod"]),
        ("u/a", []),
    ],
)
def test_a_name_means(name: str, keys: list[str]) -> None:
    assert [gang["key"] for gang in named(GANGS, name)] == keys
