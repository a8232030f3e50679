"""Asking whether pods would fit changes nothing and answers what a start would do."""

from __future__ import annotations

import copy

from scheduler import decode
from scheduler.core import engine, explain, fit
from scheduler.core.messages import EffectDone, NodeSeen, Outcome, PodSeen, Synced
from scheduler.settings import Settings
from tests.builders import node, pod


def cluster(*names: str) -> engine.State:
    state = engine.new_state(Settings(levels=("topo/rack",)))
    for name in names:
        engine.step(state, NodeSeen(decode.node(node(name, gpu=8, rack="r1"))), 0.0)
    engine.step(state, Synced(), 0.0)
    return state


AMPLE = {"cpu": "32", "memory": "64Gi"}
"""Beside 8 GPUs."""


def gang(name: str, members: int, gpu: int) -> list[decode.Pod]:
    return [
        decode.pod(pod(f"t/{name}-{index}", gpu=gpu, gang=name, min=members, **AMPLE))
        for index in range(members)
    ]


def test_a_gang_that_fits_is_told_where() -> None:
    state = cluster("n1", "n2")
    answer = fit.would_fit(state, gang("a", 4, 4))
    assert answer["fits"] is True
    assert sorted(answer["nodes"].values()) == ["n1", "n1", "n2", "n2"]
    assert answer["domains"] == {"t/a": ["r1"]}


def test_one_that_does_not_is_told_what_is_short_and_whether_ever() -> None:
    state = cluster("n1", "n2")
    assert fit.would_fit(state, gang("a", 3, 8)) == {
        "fits": False,
        "never": True,
        "reason": "never fits: 2 of 3 placeable, short by 8 nvidia.com/gpu",
        "short_by": {"nvidia.com/gpu": 8},
        "fits_in_best": 2,
        "next": "it cannot start on these nodes: ask for less or for a broader level, or add nodes",
    }
    for member in gang("b", 1, 8):
        step = engine.step(state, PodSeen(member), 1.0)
        for effect in step.effects:
            engine.step(state, EffectDone(effect.id, Outcome.OK), 1.0)
    answer = fit.would_fit(state, gang("a", 2, 8))
    assert (answer["fits"], answer["never"]) == (False, False)


def test_two_gangs_are_judged_together_and_nothing_is_changed() -> None:
    state = cluster("n1", "n2")
    before = copy.deepcopy(explain.snapshot_state(state))
    assert fit.would_fit(state, gang("a", 2, 8) + gang("b", 2, 8))["fits"] is False
    assert fit.would_fit(state, gang("a", 2, 4) + gang("b", 2, 4))["fits"] is True
    assert explain.snapshot_state(state) == before
    assert not state.gangs
    assert not state.pods


def test_a_request_for_one_node_is_judged_and_changes_no_levels() -> None:
    state = cluster("n1", "n2")
    asked = {"topology-required": "node"}
    pair = [
        decode.pod(pod(f"t/a-{at}", gpu=4, gang="a", min=2, options=asked, **AMPLE))
        for at in range(2)
    ]
    answer = fit.would_fit(state, pair)
    assert answer["fits"] is True
    assert len(set(answer["nodes"].values())) == 1
    assert state.topology().levels == ("topo/rack",)
    assert not state.host_askers


def test_an_incomplete_gang_is_told_how_many_pods_are_missing() -> None:
    answer = fit.would_fit(cluster("n1"), gang("a", 4, 1)[:3])
    assert answer == {"fits": False, "never": False, "reason": "3 of 4 pods exist"}


def test_members_with_little_beside_their_gpus_are_warned_of_and_fit_all_the_same() -> None:
    meagre = [decode.pod(pod(f"t/a-{at}", gpu=8, cpu="4", gang="a", min=2)) for at in range(2)]
    answer = fit.would_fit(cluster("n1", "n2"), meagre)
    assert answer["fits"] is True
    assert answer["warnings"] == [
        "t/a-0 and 1 more: asks for cpu 4 and memory 1Gi beside 8 accelerators; "
        "with less than cpu 4 and memory 8Gi for each they may wait for data"
    ]
    slim = [decode.pod(pod("t/b", gpu=1, cpu="3900m", memory="8Gi"))]
    assert fit.would_fit(cluster("n1"), slim)["warnings"] == [
        "t/b: asks for cpu 3900m beside one accelerator; "
        "with less than cpu 4 for each they may wait for data"
    ]
    slices = {"nvidia.com/mig-1g.5gb": "4"}
    assert "warnings" not in fit.would_fit(cluster("n1"), [decode.pod(pod("t/c", requests=slices))])


def test_plain_pods_always_fit() -> None:
    answer = fit.would_fit(cluster("n1"), [decode.pod(pod("t/plain"))])
    assert answer["fits"] is True


def test_where_only_the_minimum_fits_the_rest_is_said_to_wait() -> None:
    pods = [decode.pod(pod(f"t/a-{at}", gpu=8, gang="a", min=2)) for at in range(5)]
    answer = fit.would_fit(cluster("n1", "n2", "n3"), pods)
    assert answer["fits"] is True
    assert len(answer["nodes"]) == 2
    assert answer["reason"] == "3 pods beyond the minimum would wait for room"
