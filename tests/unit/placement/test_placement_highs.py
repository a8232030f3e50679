"""On clusters of up to 1,024 nodes the domain and node counts are those that HiGHS proves."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from placement_oracle import ask_for, fabric_of, members_of, random_ask, random_cluster

from benchmarks.milp import Programme
from scheduler.core import staged
from scheduler.core.placement import Fabric, Seats, place

INSTANCES = int(os.environ.get("MUSTER_ORACLE_INSTANCES", "40"))


@pytest.mark.timeout(60 + 2 * INSTANCES)
def test_no_placement_of_a_gang_uses_fewer_domains_or_nodes() -> None:
    rng = np.random.default_rng(20240607)
    for number in range(INSTANCES):
        fabric = random_cluster(rng)
        ask = random_ask(rng, fabric)
        seats = place(fabric, ask)
        assert isinstance(seats, Seats), number
        assert seats.domains == Programme(fabric, ask).fewest(), number


@pytest.mark.timeout(60 + 2 * INSTANCES)
def test_a_required_level_is_met_in_the_closest_way_or_not_at_all() -> None:
    rng = np.random.default_rng(20240608)
    answers = []
    for number in range(INSTANCES):
        fabric = random_cluster(rng)
        ask = replace(random_ask(rng, fabric, most=96), required=int(rng.integers(2)))
        seats = place(fabric, ask)
        fewest = Programme(fabric, ask).fewest()
        answers.append(fewest)
        assert (seats.domains if isinstance(seats, Seats) else None) == fewest, number
    assert None in answers
    assert any(answers)


@pytest.mark.timeout(60 + 2 * INSTANCES)
def test_four_levels_of_which_some_are_alike_are_no_harder() -> None:
    rng = np.random.default_rng(5)
    for number in range(INSTANCES // 2):
        rack = np.arange(int(rng.integers(128, 700))) // int(rng.choice([4, 8, 16]))
        row = rack // int(rng.choice([1, 2]))
        block = row // int(rng.choice([2, 4, 8]))
        fabric = Fabric(np.stack([block // 2, block, row, rack]).astype(np.int32))
        ask = random_ask(rng, fabric, most=int(rng.choice([64, 256, 800])))
        seats = place(fabric, ask)
        assert isinstance(seats, Seats), number
        assert seats.domains == Programme(fabric, ask).fewest(), number


def test_prices_prove_the_same_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "PRICED_FROM", 0)
    rng = np.random.default_rng(20240609)
    for number in range(INSTANCES // 2):
        fabric = random_cluster(rng)
        ask = random_ask(rng, fabric)
        seats = place(fabric, ask)
        assert isinstance(seats, Seats), number
        assert seats.domains == Programme(fabric, ask).fewest(), number


def test_what_is_too_large_for_an_exact_answer_still_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged, "WORK_LIMIT", 0)
    rng = np.random.default_rng(20240610)
    for number in range(INSTANCES // 2):
        fabric = random_cluster(rng)
        ask = random_ask(rng, fabric)
        seats = place(fabric, ask)
        assert isinstance(seats, Seats), number
        assert seats.counts.sum() == ask.count
        assert (seats.counts > 0).all()
        assert (seats.counts <= ask.fits[seats.rows]).all()
        fewest = Programme(fabric, ask).fewest()
        assert fewest is not None
        assert seats.domains[0] == fewest[0], number


def test_then_too_every_chosen_node_gets_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "WORK_LIMIT", 0)
    ask = ask_for(10, [1, 8, 8], free=[9, 8, 8], near=[1, 0, 0])
    assert members_of(place(fabric_of((), (), ()), ask)) == {0: 1, 1: 8, 2: 1}
