"""A gang whose members all ask for something else is planned in bounded time, or refused."""

from __future__ import annotations

from typing import Any

from scheduler import decode
from scheduler.core import asking, engine, fit, seating
from scheduler.core.messages import NodeSeen, Synced
from scheduler.model import Pod
from scheduler.settings import Settings
from tests.builders import apart, node, pod


def cluster() -> engine.State:
    state = engine.new_state(Settings(levels=("topo/rack",)))
    for number in range(40):
        obj = node(f"n{number:02}", gpu=8, rack=f"r{number // 8}")
        engine.step(state, NodeSeen(decode.node(obj)), 0.0)
    engine.step(state, Synced(), 0.0)
    return state


def members(count: int) -> list[Pod]:
    return [
        decode.pod(pod(f"t/a-{at}", gpu=1, cpu=f"{at + 1}m", gang="a", min=count))
        for at in range(count)
    ]


def test_members_that_differ_only_beside_their_accelerators_are_planned_as_one_kind() -> None:
    answer = fit.would_fit(cluster(), members(300))
    assert answer["fits"] is True
    assert len(answer["nodes"]) == 300
    assert len(set(answer["nodes"].values())) == 38


def test_more_kinds_than_can_be_told_apart_are_refused() -> None:
    pods = [
        decode.pod(pod(f"t/a-{at}", gpu=1, gang="a", min=30, spec={"nodeSelector": {"x": f"{at}"}}))
        for at in range(seating.MOST_KINDS + 14)
    ]
    assert fit.would_fit(cluster(), pods)["fits"] is False


def test_a_question_about_too_many_gangs_is_refused() -> None:
    pods = [decode.pod(pod(f"t/s-{at}", gpu=1)) for at in range(asking.MOST_GANGS + 1)]
    assert "more than" in fit.would_fit(cluster(), pods)["reason"]


def test_members_that_keep_off_each_other_do_so_as_one_kind_as_well() -> None:
    alone: dict[str, Any] = {"labels": {"app": "a"}, "spec": apart("a")}
    pods = [
        decode.pod(pod(f"t/a-{at}", gpu=1, cpu=f"{at + 1}m", gang="a", min=20, **alone))
        for at in range(20)
    ]
    answer = fit.would_fit(cluster(), pods)
    assert answer["fits"] is True
    assert len(set(answer["nodes"].values())) == 20
