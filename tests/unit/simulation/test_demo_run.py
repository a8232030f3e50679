"""The demo says so when anything went wrong."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.service import Service
from scheduler.settings import Settings
from scheduler.simulation.cluster import EmbeddedCluster
from scheduler.simulation.demo_run import Demo, find_problems
from scheduler.simulation.fleet import Fleet
from scheduler.simulation.jobs import GangJob
from scheduler.simulation.observer import GangSeen, Observer


@pytest.fixture
def shown() -> Demo:
    """A demo of one gang of two pods that went well."""
    cluster = EmbeddedCluster([])
    service = Service(Settings(), cluster.actuator, clock=cluster.clock, timer=cluster.timer)
    demo = Demo(
        cluster, service, Observer(cluster), [GangJob("g", (8, 8), 0, 60)], Fleet(), train=False
    )
    demo.observer.gangs["t/g"] = GangSeen("t/g", min=2, arrived=0.0, started=1.0)
    demo.observer.pods_bound = 2
    return demo


def test_all_is_well(shown: Demo) -> None:
    find_problems(shown)
    assert shown.problems == []


@pytest.mark.parametrize(
    ("broken", "value", "said"),
    [
        ("partial_moments", 3, "3 times a gang was seen bound in part"),
        ("pods_bound", 1, "1 pods were bound, not 2"),
    ],
)
def test_a_wrong_count_is_a_problem(shown: Demo, broken: str, value: Any, said: str) -> None:
    setattr(shown.observer, broken, value)
    find_problems(shown)
    assert shown.problems == [said]


def test_a_gang_that_never_started_is_named(shown: Demo) -> None:
    shown.observer.gangs["t/g"].started = None
    find_problems(shown)
    assert shown.problems == ["1 gangs never started, such as t/g"]


def test_a_failure_of_the_engine_is_a_problem(shown: Demo) -> None:
    shown.service.metrics.step_failures.labels("PodSeen").inc()
    find_problems(shown)
    assert shown.problems == ["the engine failed on 1 events; see the log above"]
