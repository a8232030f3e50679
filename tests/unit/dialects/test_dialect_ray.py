"""KubeRay: head and worker groups of a RayCluster."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import ray, ray_cluster
from tests.unit.dialects.reading import declared, fault, group, labelled, read, stated_gang, terms

KEY = GroupKey("RayCluster.ray.io", "t", "rc")


def test_a_cluster_is_a_gang_of_a_head_and_worker_groups() -> None:
    assert declared(ray("head")) == stated_gang("rc", "kuberay", Options(role="head"), KEY)
    assert declared(ray("worker")) == stated_gang("rc", "kuberay", Options(role="gpus"), KEY)


def test_a_jobs_submitter_is_not_of_the_cluster() -> None:
    found = read(labelled(ray("head"), {"ray.io/node-type": None}))
    assert found.declaration is None


@pytest.mark.parametrize(
    ("groups", "scales", "options"),
    [
        ([], False, Options(min_available=1, size=1)),
        ([{"replicas": 3}], False, Options(min_available=4, size=4)),
        ([{"replicas": 2}, {"replicas": 1}], False, Options(min_available=4, size=4)),
        ([{"replicas": 2, "numOfHosts": 4}], False, Options(min_available=9, size=9)),
        ([{"replicas": 1, "minReplicas": 2}], False, Options(min_available=3, size=3)),
        ([{"replicas": 5, "maxReplicas": 3}], False, Options(min_available=4, size=4)),
        ([{"minReplicas": 2}], False, Options(min_available=3, size=3)),
        ([{"replicas": 3, "suspend": True}], False, Options(min_available=1, size=1)),
        ([{"replicas": 4, "minReplicas": 1, "maxReplicas": 8}], True, Options(min_available=2)),
        ([{"replicas": 4, "minReplicas": 0}], True, Options(min_available=1)),
    ],
    ids=str,
)
def test_a_cluster_sums_up_what_must_be_there(
    groups: list[Any], scales: bool, options: Options
) -> None:
    assert terms(ray_cluster(*groups, scales=scales)) == options


@pytest.mark.parametrize("field", ["replicas", "minReplicas", "maxReplicas", "numOfHosts"])
def test_a_cluster_that_cannot_be_used_says_where(field: str) -> None:
    found = group(ray_cluster({field: "x"}))
    assert found.fault.startswith(f"spec.workerGroupSpecs[0].{field}: ")


def test_a_name_that_cannot_be_read_is_named() -> None:
    assert fault(labelled(ray("head"), {"ray.io/cluster": ""})).startswith("ray.io/cluster")
