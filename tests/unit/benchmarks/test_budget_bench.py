"""The benchmarks of Muster's own budget and of gangs that wait: what they are about is there."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks import waiting
from benchmarks.budget import population, row
from benchmarks.budget_soak import MEMBERS, POINTS, Obedient, Soak, growth
from benchmarks.budget_stages import each, stages
from benchmarks.cluster_arms import ARMS
from benchmarks.cluster_fleet import fleet

# ── the soak ──


def test_gangs_pass_through_and_memory_is_read_at_even_steps() -> None:
    curve, cpu_s = Soak().pass_through(2 * POINTS)
    assert [gangs for gangs, _ in curve] == list(range(2, 2 * POINTS + 1, 2))
    assert all(mb > 10 for _, mb in curve)
    assert cpu_s > 0


def test_a_soak_in_which_nothing_starts_is_no_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Obedient, "carry_out", lambda self: None)
    with pytest.raises(RuntimeError, match=f"0 pods were bound, not {3 * MEMBERS}"):
        Soak().pass_through(3)


def test_growth_is_that_of_the_second_half() -> None:
    curve = [(1_000, 50.0), (2_000, 80.0), (3_000, 90.0), (5_000, 94.0)]
    assert growth(curve) == 2.0
    assert growth([(10, 50.0), (20, 60.0), (30, 60.0), (40, 60.0)]) == 0.0
    assert growth([(10, 50.0)]) == 0.0


# ── start-up and stages ──


def test_the_population_has_gangs_and_others_and_fits_where_it_sits() -> None:
    pods = list(population("space", nodes=100, pods=500))
    members = [pod for pod in pods if pod["metadata"]["annotations"].get("muster.scheduler/gang")]
    assert (len(pods), len(members)) == (500, 192)
    on_node = Counter(pod["spec"]["nodeName"] for pod in members)
    assert max(on_node.values()) * 2 <= 8
    assert len({pod["metadata"]["name"] for pod in pods}) == 500


def test_no_more_members_than_accelerators() -> None:
    pods = list(population("space", nodes=10, pods=500))
    gangs = Counter(pod["metadata"]["annotations"].get("muster.scheduler/gang") for pod in pods)
    assert {size for gang, size in gangs.items() if gang} == {16}
    assert 500 - gangs[None] <= 40


def test_starts_become_a_row_of_medians() -> None:
    found = [{"ready_s": value, "rss_mb": 90.0} for value in (3.0, 9.0, 4.0)]
    assert row(10, 20, found) == {
        "what": "startup",
        "nodes": 10,
        "pods": 20,
        "repeats": 3,
        "ready_s": 4.0,
        "rss_mb": 90.0,
    }


def test_stages_are_timed_one_by_one() -> None:
    nodes = [json.dumps(node).encode() for node in fleet(8)]
    pods = [json.dumps(pod | uid(at)).encode() for at, pod in enumerate(population("x", 8, 40))]
    found = stages(nodes, pods)
    assert found.pop("what") == "stages"
    assert len(found) == 6
    assert all(value > 0 for value in found.values())


def uid(at: int) -> dict[str, object]:
    return {"metadata": {"namespace": "x", "name": f"p{at}", "uid": f"u{at}"}}


def test_nothing_to_time_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to time"):
        each(len, [])


# ── waiting ──


@pytest.mark.parametrize("nodes", [8, 32, 100])
def test_a_member_fits_but_no_gang_does_until_one_ends(nodes: int) -> None:
    taken = sum(arrival.pods for arrival in waiting.sitting(nodes))
    free = nodes * waiting.PER_NODE - taken
    assert 0 < free < waiting.SIZE <= free + waiting.SIZE < 2 * waiting.SIZE


def test_what_runs_is_created_where_it_sits() -> None:
    sent = waiting.placed(ARMS["burst"], waiting.sitting(8), "space")
    nodes = Counter(json.loads(one.body)["spec"]["nodeName"] for one in sent)
    assert sum(nodes.values()) == 8 * waiting.PER_NODE - waiting.SPARE
    assert max(nodes.values()) == waiting.PER_NODE


def test_one_arm_runs_without_the_flag_that_spares_the_scheduler() -> None:
    flags = {name: list(arm.flags) for name, arm in waiting.WAITING_ARMS.items()}
    assert flags["muster"] == ["--feature-gates=SchedulerPopFromBackoffQ=false"]
    assert flags["muster-gate-on"] == []
    assert waiting.WAITING_ARMS["native"].native


def test_one_arm_leaves_held_pods_alone_for_longer() -> None:
    options = {name: arm.options for name, arm in waiting.WAITING_ARMS.items() if arm.options}
    assert options == {"muster-300": ("--max-backoff", "300")}
