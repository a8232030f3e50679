"""Gangs of a trace: every policy keeps the books, and the simple cases come out as by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.errors import MusterError
from scheduler.simulation.trace import running
from scheduler.simulation.trace.ground import Shape
from scheduler.simulation.trace.measures import Closeness, means, summary
from scheduler.simulation.trace.replaying import Books, Replay, Sample
from scheduler.simulation.trace.running import POLICIES, Rules
from scheduler.simulation.trace.scheduling import (
    Greedy,
    Placed,
    Returned,
    best_fit,
    chooser,
)
from scheduler.simulation.trace.workload import Gang, Workload

TINY = Shape(2, 2, 2, 4)
"""Two blocks of two racks of two nodes of four GPUs: 32 in all."""


def gang(name: str, arrival: float, pods: int, gpus: int, duration: float = 100.0) -> Gang:
    return Gang(name, arrival, pods, gpus, duration)


def replayed(policy: str, gangs: Sequence[Gang], shape: Shape = TINY, **rules: Any) -> Books:
    books = Books(shape, gangs)
    scheduler = running.scheduler_of(policy, Rules(shape, **rules))
    Replay(gangs, scheduler, books).run()
    return books


def starts(books: Books) -> dict[str, float | None]:
    return {name: fate.started for name, fate in books.fates.items()}


@st.composite
def workloads(draw: st.DrawFn) -> list[Gang]:
    count = draw(st.integers(1, 14))
    found, now = [], 0.0
    for number in range(count):
        now += draw(st.sampled_from([0.0, 10.0, 150.0]))
        gpus = draw(st.sampled_from([1, 2, 4]))
        pods = draw(st.integers(1, 32 // gpus))
        seconds = draw(st.sampled_from([1.0, 100.0, 3000.0]))
        found.append(gang(f"g{number:02}", now, pods, gpus, seconds))
    return found


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25)
@given(gangs=workloads())
def test_no_policy_loses_or_overbooks_a_gpu(policy: str, gangs: list[Gang]) -> None:
    # The books raise where a pod lands on a node without room, or twice.
    books = replayed(policy, gangs)
    assert (books.free == TINY.gpus).all(), "everything was given back"
    assert all(fate.started is not None for fate in books.fates.values()), "everything ran"
    assert all(len(fate.rows) == fate.gang.pods for fate in books.fates.values())
    for sample in books.samples:
        assert 0 <= sample.running + sample.held <= TINY.total
    if policy in ("muster", "muster-told", "greedy"):
        assert not any(sample.held for sample in books.samples), "never half a gang"


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=15)
@given(arrivals=st.lists(st.integers(0, 500), min_size=1, max_size=8))
def test_gangs_that_need_everything_run_one_after_the_other(
    policy: str, arrivals: list[int]
) -> None:
    gangs = [gang(f"g{n}", float(at), 8, 4) for n, at in enumerate(sorted(arrivals))]
    free_at, want = 0.0, {}
    for item in gangs:
        want[item.name] = max(free_at, item.arrival_s)
        free_at = want[item.name] + item.duration_s
    assert starts(replayed(policy, gangs)) == want


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_and_nothing_else_matters(policy: str) -> None:
    rng = random.Random(5)
    gangs = [
        gang(f"g{n:02}", 20.0 * n, rng.choice([1, 3, 8]), rng.choice([1, 4]), rng.random() * 900)
        for n in range(40)
    ]
    given_load = Workload(tuple(gangs), 0, 1.0)
    first, second = (running.run(policy, given_load, Rules(TINY, seed=3)) for _ in range(2))
    assert first == second


def test_an_incomplete_gang_gives_up_and_queues_anew() -> None:
    gangs = [
        gang("long", 0, 6, 4, 10_000),
        gang("half", 10, 4, 4, 10),
        gang("later", 20, 2, 4, 10_000),
    ]
    books = replayed("binpack", gangs, give_up_s=3600)
    # Two nodes are free. "half" holds both for an hour, then those behind it have their turn.
    assert starts(books) == {"long": 0, "half": 10_000, "later": 3610}
    assert books.fates["half"].returns == 1
    assert books.fates["half"].held_gpu_s == 8 * 3600


def test_books_refuse_a_node_without_room_and_a_return_of_what_runs() -> None:
    small = gang("a", 0, 1, 4)
    books = Books(TINY, [small, gang("b", 0, 1, 1)])
    books.arrive()
    books.arrive()
    books.apply([Placed("a", 0)], 0)
    with pytest.raises(AssertionError, match="without 1 free"):
        books.apply([Placed("b", 0)], 0)
    with pytest.raises(AssertionError, match="while it ran"):
        books.apply([Returned("a")], 0)


def test_what_incomplete_gangs_hold_is_counted_in_gpu_seconds() -> None:
    gangs = [gang("first", 0, 6, 4, 100), gang("half", 10, 4, 4, 10)]
    books = replayed("spread", gangs)
    # Two nodes are free at second 10, the other two come at 100: 8 GPUs for 90 seconds.
    assert books.fates["half"].held_gpu_s == pytest.approx(8 * 90)
    assert starts(replayed("muster", gangs)) == starts(books)


def test_room_that_is_kept_is_open_to_jobs_that_say_they_end_in_time() -> None:
    gangs = [
        gang("long", 0, 7, 4, 5_000),
        gang("large", 10, 8, 4, 100),
        gang("short", 620, 1, 4, 600),
        gang("endless", 621, 1, 4, 9_000),
    ]
    # "large" has waited ten minutes: for a minute all nodes are kept for it, the idle one, too.
    assert starts(replayed("muster", gangs))["short"] == 670
    told = starts(replayed("muster-told", gangs))
    assert told == {"long": 0, "large": 5_000, "short": 620, "endless": 5_100}


def test_spread_takes_empty_nodes_and_binpack_full_ones() -> None:
    free = np.array([4, 1, 2, 4])
    rng = random.Random(0)
    assert {chooser("spread", rng)(free, 1) for _ in range(20)} == {0, 3}
    assert {chooser("binpack", rng)(free, 1) for _ in range(20)} == {1}
    assert {chooser("binpack", rng)(free, 2) for _ in range(20)} == {2}
    assert {chooser("random", rng)(free, 2) for _ in range(60)} == {0, 2, 3}
    assert chooser("random", rng)(free, 5) is None


def test_greedy_takes_the_tightest_rack_then_block_then_the_roomiest_racks() -> None:
    free = np.array([4, 4, 4, 0, 1, 3, 0, 4])
    assert best_fit(TINY, free, gang("a", 0, 4, 1)) == [2, 2, 2, 2], "a rack that just holds it"
    assert best_fit(TINY, free, gang("a", 0, 2, 4)) == [0, 1], "the only rack with two nodes"
    assert set(best_fit(TINY, free, gang("a", 0, 3, 4)) or ()) == {0, 1, 2}, "one block"
    assert best_fit(TINY, free, gang("a", 0, 4, 4)) == [0, 1, 2, 7]
    assert best_fit(TINY, free, gang("a", 0, 5, 4)) is None


def test_greedy_lets_small_gangs_pass_a_large_one() -> None:
    gangs = [gang("a", 0, 7, 4, 100), gang("large", 1, 4, 4), gang("small", 2, 1, 2)]
    books = Books(TINY, gangs)
    Replay(gangs, Greedy(TINY), books).run()
    assert starts(books) == {"a": 0, "large": 100, "small": 2}


def test_closeness_is_one_for_muster_and_more_for_spread() -> None:
    gangs = [gang(f"g{n:02}", 100.0 * n, 6, 1, 150) for n in range(30)]
    found = {}
    for policy in ("muster", "spread"):
        closeness = Closeness()
        books = Books(TINY, gangs, closeness.watch)
        Replay(gangs, running.scheduler_of(policy, Rules(TINY)), books).run()
        found[policy] = summary(books, closeness)["closeness"]
    assert found["muster"]["racks_over_optimum"] == found["muster"]["blocks_over_optimum"] == 1
    assert found["spread"]["racks_over_optimum"] > 1.5
    assert found["spread"]["gangs"] == found["muster"]["gangs"] == 30


def test_use_is_weighed_by_time_until_the_last_arrival() -> None:
    samples = [Sample(0, 8, 0, 0, 0), Sample(10, 32, 0, 0, 0), Sample(30, 16, 8, 0, 4)]
    told = means(samples, 32, 40)
    assert told["used_pct"] == pytest.approx(100 * (80 + 640 + 160) / (32 * 40), abs=0.01)
    assert told["broken_free_pct"] == pytest.approx(100 * 40 / (240 + 80), abs=0.01)
    assert means(samples[:1], 32, 5) == {"used_pct": 25.0, "broken_free_pct": 0.0}


@pytest.mark.parametrize("text", ["", "2x4x8", "2x4x8x0", "axbxcxd", "2x4x8x8x8", "9999x99x99x8"])
def test_a_shape_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(MusterError, match="shape"):
        Shape.parse(text)


def test_nodes_of_a_shape_lie_in_racks_and_blocks() -> None:
    shape = Shape.parse("2x2x2x4")
    assert shape == TINY
    assert (shape.count, shape.total, str(shape)) == (8, 32, "2x2x2x4")
    assert shape.rack_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert shape.block_of.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    names = [node.name for node in shape.node_objects()]
    assert names == sorted(names)


def test_an_unknown_policy_is_named_with_those_there_are() -> None:
    with pytest.raises(MusterError, match=r"'fast'.*muster, muster-told"):
        running.check(["muster", "fast"], POLICIES)
