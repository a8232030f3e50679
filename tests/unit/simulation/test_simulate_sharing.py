"""Shared GPUs: the trace is read as it is meant, nobody is overbooked, measures match an oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import MusterError
from scheduler.simulation.trace import filling, fragments, openb, sharing
from scheduler.simulation.trace.devices import Devices, Share
from scheduler.simulation.trace.fragments import Costs, Kinds

NODES = """sn,cpu_milli,memory_mib,gpu,model
b,16000,64000,2,T4
a,32000,64000,4,V100
c,96000,64000,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,4000,1000,1,500,
p1,4000,1000,2,1000,T4|A10
p2,8000,1000,0,0,
"""


def devices(*nodes: tuple[int, list[int]]) -> Devices:
    """Nodes as (CPUs, thousandths free on each device)."""
    width = max(len(free) for _, free in nodes)
    return Devices(
        tuple(f"n{number}" for number in range(len(nodes))),
        np.array(["T4"] * len(nodes)),
        np.array([cpus * 1000 for cpus, _ in nodes]),
        np.array([1_000_000] * len(nodes)),
        np.array([free + [0] * (width - len(free)) for _, free in nodes]),
    )


def share(milli: int, cpus: int = 1, gpus: int = 1) -> Share:
    return Share(cpus * 1000, 10, gpus, milli)


shares = st.sampled_from(
    [
        share(160),
        share(470, 2),
        share(810, 3),
        share(1000, 8),
        share(1000, 4, 2),
        share(1000, 30, 4),
        share(0, 6, 0),
    ]
)
"""Kinds like those of the trace."""


def test_nodes_with_gpus_are_read_in_order_of_their_names() -> None:
    found = openb.read_nodes(NODES.splitlines(), "nodes.csv")
    assert found.names == ("a", "b")
    assert found.models.tolist() == ["V100", "T4"]
    assert found.milli.tolist() == [[1000] * 4, [1000, 1000, 0, 0]]
    assert (found.total, found.cpu.tolist()) == (6000, [32000, 16000])


def test_pods_are_read_with_their_shares_and_models() -> None:
    found = openb.read_pods(PODS.splitlines(), "pods.csv")
    assert found == [
        Share(4000, 1000, 1, 500),
        Share(4000, 1000, 2, 1000, frozenset({"T4", "A10"})),
        Share(8000, 1000, 0, 0),
    ]
    nodes = openb.read_nodes(NODES.splitlines(), "nodes.csv")
    assert nodes.fits(found[1]).tolist() == [False, True], "only on a model that it asks for"
    assert nodes.fits(found[2]).all()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (PODS.replace("cpu_milli", "cpus"), r"pods.csv.*no column cpu_milli"),
        (PODS.replace("p1,4000", "p1,many"), r"pods.csv, line 3: cpu_milli is 'many'"),
        (PODS.replace("1,500", "1,1500"), r"line 2: gpu_milli 1500 of 1"),
        (PODS.replace("2,1000", "2,500"), r"line 3: gpu_milli 500 of 2"),
        ("\n".join(PODS.splitlines()[:1]), "no pod asks for a GPU"),
        ("", "no column name"),
    ],
)
def test_bad_pods_are_refused_by_file_line_and_column(text: str, named: str) -> None:
    with pytest.raises(MusterError, match=named):
        openb.read_pods(text.splitlines(), "pods.csv")


def test_no_load_is_made_of_pods_without_gpus() -> None:
    with pytest.raises(MusterError, match="no pod asks for a GPU"):
        openb.arrivals([share(0, 4, 0)], 1000, 1.0, random.Random(0))


def test_one_rare_kind_with_gpus_is_enough() -> None:
    pods = [share(0, 0, 0)] * 99 + [share(500)]
    assert Kinds(pods, 0.95).milli.tolist() == [500]
    assert filling.run("muster", devices((8, [1000])), pods, 0.5, seed=1).at_end == 50


def test_nodes_without_any_gpu_are_refused() -> None:
    with pytest.raises(MusterError, match="no node has a GPU"):
        openb.read_nodes(NODES.splitlines()[:1], "nodes.csv")


@given(st.lists(shares, min_size=1, max_size=30), st.sampled_from([0.2, 1.0, 3.0]), st.integers())
def test_what_arrives_makes_up_the_load(pods: list[Share], load: float, seed: int) -> None:
    if not any(pod.total for pod in pods):
        return
    target = load * 20_000
    order = openb.arrivals(pods, 20_000, load, random.Random(seed))
    arrived = sum(pod.total for pod in order)
    assert target - 4000 <= arrived <= target, "short by less than the largest pod"
    assert set(order) <= set(pods)
    if sum(pod.total for pod in pods) <= target:
        # All of the trace come first, each once.
        assert sorted(order[: len(pods)], key=repr) == sorted(pods, key=repr)


@pytest.mark.parametrize("policy", filling.POLICIES)
@settings(max_examples=20)
@given(pods=st.lists(shares, min_size=1, max_size=40), seed=st.integers(0, 99))
def test_no_policy_overbooks_a_device_or_turns_away_who_fits(
    policy: str, pods: list[Share], seed: int
) -> None:
    if not any(pod.total for pod in pods):
        return
    nodes = devices((8, [1000] * 2), (32, [1000] * 4), (4, [1000]))
    rng = random.Random(seed)
    pick = filling.policy_of(policy, nodes, pods, np.array([2, 0, 1]), rng)
    used = refused = 0
    for pod in pods:
        rows = np.flatnonzero(nodes.fits(pod))
        if not rows.size:
            refused += 1
            continue
        row, device = pick(pod, rows)
        assert row in rows
        # `take` raises where a device has too little; so the sum is right if it is right here.
        nodes.take(row, pod, device)
        used += pod.total
        assert int(nodes.milli.sum()) == nodes.total - used
        assert min(nodes.cpu) >= 0
    fresh = devices((8, [1000] * 2), (32, [1000] * 4), (4, [1000]))
    pick = filling.policy_of(policy, fresh, pods, np.array([2, 0, 1]), random.Random(seed))
    filled = sharing.fill(fresh, pods, pick)
    assert (filled.refused, filled.at_end) == (refused, pytest.approx(100 * used / 7000, abs=7))


def test_the_curve_follows_what_has_arrived() -> None:
    pods = [share(1000, 1), share(500, 1), share(1000, 1), share(500, 1)]
    nodes = devices((99, [1000]), (99, [1000]))
    filled = sharing.fill(nodes, pods, sharing.tightest_fit(nodes, np.array([0, 1])))
    # 1 of 2, then 1.5; the third finds only half a device; the last one fills it.
    assert len(filled.curve) == 151
    assert [filled.curve[at] for at in (0, 49, 50, 75, 125, 150)] == [0, 0, 50, 75, 75, 100]
    assert filled.refused == 1


def test_take_refuses_what_has_no_room() -> None:
    nodes = devices((2, [300, 800]))
    with pytest.raises(AssertionError, match="no room"):
        nodes.take(0, share(500, 1), 0)
    with pytest.raises(AssertionError, match="too few GPUs"):
        nodes.take(0, share(900, 1))
    with pytest.raises(AssertionError, match="no room"):
        devices((2, [300, 800])).take(0, share(100, 9))


def test_a_share_goes_on_the_tightest_device() -> None:
    nodes = devices((9, [1000, 600, 700, 200]))
    nodes.take(0, share(500))
    assert nodes.milli.tolist() == [[1000, 100, 700, 200]]
    nodes.take(0, share(1000, 1, 1))
    assert nodes.milli.tolist() == [[0, 100, 700, 200]]


def test_best_fit_weighs_cpus_and_gpus_and_tightest_only_gpus() -> None:
    nodes = devices((100, [500]), (10, [600]), (10, [600]))
    rank = np.array([0, 2, 1])
    rows = np.arange(3)
    assert sharing.best_fit(nodes, rank)(share(100), rows) == (2, None), "ties by rank"
    assert sharing.tightest_fit(nodes, rank)(share(100), rows) == (0, None)


# ── measures ──


def slow_measures(cpu: int, free: Sequence[int], pods: Sequence[Share]) -> tuple[float, float]:
    """By the words of the definition, one pod after the other."""
    fragment = waste = 0.0
    for pod in pods:
        if not pod.gpus:
            continue
        enough = [left for left in free if left >= pod.milli]
        fits = cpu >= pod.cpu and len(enough) >= pod.gpus
        fragment += sum(left for left in free if left < pod.milli) if fits else sum(free)
        slots = sum(left // pod.milli for left in free) // pod.gpus
        count = min(slots, cpu // pod.cpu) if pod.cpu else slots
        waste += sum(free) - count * pod.total
    return fragment / len(pods), waste / len(pods)


@given(
    st.integers(0, 40),
    st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    st.lists(shares, min_size=1, max_size=20),
)
def test_fragments_and_waste_are_what_their_words_say(
    cpus: int, free: list[int], pods: list[Share]
) -> None:
    if not any(pod.gpus for pod in pods):
        return
    kinds = Kinds(pods)
    got = kinds.measure(np.array([cpus * 1000]), np.array([free]))
    want = slow_measures(cpus * 1000, free, pods)
    assert got[0][0] / kinds.total == pytest.approx(want[0])
    assert got[1][0] / kinds.total == pytest.approx(want[1])


def test_rare_kinds_are_not_looked_at() -> None:
    kinds = Kinds([share(500)] * 90 + [share(160)] * 6 + [share(810)] * 4, 0.95)
    assert kinds.milli.tolist() == [500, 160]
    assert (kinds.count.tolist(), kinds.total) == ([90, 6], 96)


@settings(max_examples=30)
@given(st.lists(shares, min_size=2, max_size=25), st.integers(0, 99))
def test_costs_that_are_kept_are_those_computed_anew(pods: list[Share], seed: int) -> None:
    if not any(pod.gpus for pod in pods):
        return
    nodes = devices((8, [1000] * 2), (32, [1000] * 4), (9, [1000] * 2))
    rng = random.Random(seed)

    def judge(fragment: fragments.Floats, waste: fragments.Floats) -> fragments.Floats:
        return fragment + 2 * waste

    kept = Costs(nodes, Kinds(pods), judge)
    for pod in pods:
        rows = np.flatnonzero(nodes.fits(pod))
        if rows.size:
            cost, at = kept.of(pod, rows)
            fresh, fresh_at = Costs(nodes, Kinds(pods), judge).of(pod, rows)
            assert cost.tolist() == fresh.tolist()
            assert at.tolist() == fresh_at.tolist()
            row = rows[rng.randrange(rows.size)]
            nodes.take(row, pod)
            kept.changed(int(row))


def test_muster_pairs_shares_that_fill_a_device() -> None:
    pods = [share(810)] * 5 + [share(470)] * 5 + [share(160)] * 5
    nodes = devices((99, [530, 190, 1000]), (99, [1000]))
    pick = filling.policy_of("muster", nodes, pods, np.array([1, 0]), random.Random(0))
    assert pick(share(160), np.arange(2)) == (0, 1), "where only this kind fits"


def test_muster_keeps_cpus_beside_free_gpus() -> None:
    pods = [share(1000, 10)] * 9 + [share(0, 10, 0)]
    nodes = devices((20, [1000, 1000]), (20, [0, 1000]), (20, [0, 0]))
    pick = filling.policy_of("muster", nodes, pods, np.array([0, 1, 2]), random.Random(0))
    assert pick(share(0, 20, 0), np.arange(3))[0] == 2, "no GPU is left without a processor"
    assert pick(share(0, 10, 0), np.arange(2))[0] == 1, "one GPU needs only half of the CPUs"
