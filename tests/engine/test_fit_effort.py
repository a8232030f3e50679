"""What one question may cost, and what planning unlike members may: counted, never timed.

A row is one node that one placement may use, or what takes as long to look at (`Work`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import planner
from scheduler import decode
from scheduler.core import asking, engine, explain, fit, roles
from scheduler.core.messages import NodeSeen, PodSeen, Synced
from scheduler.core.placement import NoRoom
from scheduler.core.role_attempt import RoleAsk
from scheduler.core.work import CELLS_A_ROW, Work
from scheduler.model import Pod
from scheduler.settings import Settings
from tests.builders import node, pod


def cluster(nodes: int) -> engine.State:
    """Racks of 16 nodes of 8 GPUs, of which every third has some taken."""
    state = engine.new_state(Settings(levels=("topo/block", "topo/rack")))
    for at in range(nodes):
        obj = node(f"n{at:05}", gpu=8, block=f"b{at // 256}", rack=f"r{at // 16}")
        engine.step(state, NodeSeen(decode.node(obj)), 0.0)
        if at % 3 == 0:
            taken = pod(f"t/x{at}", gpu=1 + at % 8, node=f"n{at:05}")
            engine.step(state, PodSeen(decode.pod(taken)), 0.0)
    engine.step(state, Synced(), 0.0)
    return state


@pytest.fixture(scope="module")
def large() -> engine.State:
    return cluster(5_000)


def gangs(count: int, kinds: int, members: int, **more: Any) -> list[Pod]:
    """So many gangs with so many members of every kind."""
    least = {"min": kinds * members} | more
    return [
        decode.pod(
            pod(
                f"t/{gang}-{kind}-{at}",
                gpu=kind % 8 + 1,
                cpu=f"{kind + 1}m",
                gang=f"{gang}",
                **least,
            )
        )
        for gang in range(count)
        for kind in range(kinds)
        for at in range(members)
    ]


def asked(
    state: engine.State, pods: list[Pod], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], Work]:
    """The answer and the work that it took."""
    made: list[Work] = []

    class Counted(Work):
        def __init__(self, most: int) -> None:
            super().__init__(most)
            made.append(self)

    monkeypatch.setattr(fit, "Work", Counted)
    answer = fit.would_fit(state, pods)
    [work] = made
    return answer, work


WORST = {
    "one gang of as many kinds as there may be": (1, 16, 12),
    "the same in four gangs": (4, 16, 12),
    "half the kinds with as many pods as there may be": (1, 8, 512),
    "as many gangs as there may be": (64, 1, 64),
    "gangs of two kinds": (32, 2, 20),
}


@pytest.mark.parametrize(("count", "kinds", "members"), WORST.values(), ids=list(WORST))
def test_no_question_looks_at_much_more_than_it_may(
    large: engine.State,
    count: int,
    kinds: int,
    members: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = gangs(count, kinds, members)
    answer, work = asked(large, pods, monkeypatch)
    # What is begun is ended: the largest such thing is an attempt that is settled.
    assert work.rows <= asking.most_rows(5_000) + 2 * kinds * 1.25 * 5_000
    assert bool(answer.get("undecided")) == (work.was_cut and not answer["fits"])
    assert asked(large, pods, monkeypatch)[0] == answer


def test_what_a_question_may_look_at_grows_with_the_cluster_only_where_it_must() -> None:
    assert asking.most_rows(10) == asking.most_rows(5_000) == 700_000
    assert asking.most_rows(50_000) == 800_000


def test_an_answer_that_would_cost_too_much_says_so_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = cluster(40)
    before = explain.snapshot_state(state)
    monkeypatch.setattr(asking, "MOST_ROWS", 100)
    monkeypatch.setattr(asking, "LEAST_TIMES", 1)
    answer = fit.would_fit(state, gangs(6, 1, 2))
    assert (answer["fits"], answer["never"], answer["undecided"]) == (False, False, True)
    assert answer["reason"] == (
        "not decided: 6 gangs on 40 nodes take longer to judge than one question may keep others "
        "waiting; ask about fewer gangs, or about fewer kinds of pods"
    )
    assert fit.would_fit(state, gangs(1, 1, 2))["fits"] is True
    assert explain.snapshot_state(state) == before


def test_a_no_that_was_found_within_the_limit_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    state = cluster(40)
    monkeypatch.setattr(asking, "MOST_ROWS", 51)
    monkeypatch.setattr(asking, "LEAST_TIMES", 1)
    answer = fit.would_fit(state, gangs(1, 1, 1000))
    assert "undecided" not in answer
    assert answer["never"] is True


def test_one_gang_is_not_looked_at_twice_to_tell_why_it_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, work = asked(cluster(40), gangs(1, 1, 1000), monkeypatch)
    assert 40 <= work.rows <= 50


# ── planning unlike members ──


def unlike(kinds: int, members: int, seed: int) -> list[RoleAsk]:
    rng = np.random.default_rng(seed)
    return [
        RoleAsk(
            int(rng.integers(1, 8)) * members,
            np.array([rng.choice([0, 1, 2, 4, 8]), rng.integers(1, 9) * 4_000, 16_000 + at]),
            rng.random(5_000) < 0.9,
        )
        for at in range(kinds)
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("kinds", "members"), [(8, 1), (16, 4), (8, 60)])
def test_attempts_at_unlike_members_end_and_are_the_same_again(
    kinds: int, members: int, seed: int
) -> None:
    fabric, free = planner.cluster(5_000, seed)
    asks = unlike(kinds, members, seed)
    work, again = Work(), Work()
    found = roles.place_roles(fabric, asks, free, [0], work=work)
    # The first attempt, the best one settled, and what was under way when there was enough.
    one_round = kinds * 1.25 * 5_000 + _cells(asks)
    assert work.rows <= roles.MOST_ROWS + 3 * one_round + roles.BEFORE_NO // CELLS_A_ROW
    repeated = roles.place_roles(fabric, asks, free, [0], work=again)
    assert again.rows == work.rows
    assert isinstance(found, NoRoom) == isinstance(repeated, NoRoom)
    if not isinstance(found, NoRoom) and not isinstance(repeated, NoRoom):
        assert [seats.rows.tolist() for seats in found] == [
            seats.rows.tolist() for seats in repeated
        ]


def _cells(asks: list[RoleAsk]) -> int:
    """Rows for the knapsacks of all roles, with three levels and every tenth node in them."""
    return sum(500 * 3 * (ask.count + 1) for ask in asks) // CELLS_A_ROW


@pytest.mark.parametrize(("nodes", "kinds"), [(5_000, 2), (1_600, 3)])
def test_gangs_of_usual_size_are_tried_as_if_there_were_no_end(
    nodes: int, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric, free = planner.cluster(nodes, 1)
    rng = np.random.default_rng(kinds)
    asks = [
        RoleAsk(4, np.array([gpus, 4_000, 16_000]), rng.random(nodes) < 0.5)
        for gpus in range(1, kinds + 1)
    ]
    answers = []
    for limit in (roles.MOST_ROWS, 10**12):
        monkeypatch.setattr(roles, "MOST_ROWS", limit)
        found = roles.place_roles(fabric, asks, free, [0])
        assert not isinstance(found, NoRoom)
        answers.append([seats.rows.tolist() for seats in found])
    assert answers[0] == answers[1]
