"""The planner's benchmark measures real plans and reports them the way all benchmarks do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import optimal, planner, report, roles
from scheduler.core.placement import Ask, Fabric, place


def test_a_row_tells_time_memory_counts_and_proof() -> None:
    row = planner.measure(planner.Case(64, 4, 8, clusters=2, repeats=2, proofs=2))
    timed = {"p50_ms", "p99_ms", "cpu_p50_ms", "rss_mb"}
    assert row.keys() == {"nodes", "gang", "domains", "optimal"} | timed
    assert (row["nodes"], row["gang"], row["optimal"]) == (64, "4x8", True)
    assert row["domains"] == [1, 1, 4]
    assert 0 < row["p50_ms"] <= row["p99_ms"]


def test_a_gang_that_does_not_fit_has_no_counts_and_that_is_proven_too() -> None:
    row = planner.measure(planner.Case(16, 32, 8, clusters=1, repeats=1, proofs=1))
    assert (row["domains"], row["optimal"]) == (None, True)


def test_without_a_proof_nothing_is_claimed() -> None:
    row = planner.measure(planner.Case(64, 4, 8, clusters=1, repeats=1, proofs=0))
    assert row["optimal"] is None


def test_muster_is_as_close_as_highs_says_is_possible_and_the_greedy_rule_is_not() -> None:
    row = optimal.measure(6)
    assert (row["instances"], row["muster_optimal"]) == (6, 6)
    assert row["greedy_optimal_pct"] < 100
    assert row["greedy_racks_over_pct"] > 0


def test_the_greedy_rule_takes_the_tightest_block_that_holds_all_and_fills_its_racks() -> None:
    domains = np.array([[0, 0, 0, 1, 1], [0, 0, 1, 2, 3]], dtype=np.int32)
    fits = np.array([4, 4, 4, 4, 3])
    ask = Ask(6, fits, fits, 1)
    assert optimal.greedy(Fabric(domains), ask) == (1, 2)
    assert place(Fabric(domains), ask).domains == (1, 1, 2)


def test_the_gap_of_unlike_members_is_told_in_shares() -> None:
    row = roles.measure(12, 30)
    assert row["gangs"] == 30
    assert 0 < row["possible"] < 30
    assert row["place"]["found_pct"] == row["place"]["best_pct"] == 100
    assert 0 < row["attempts"]["best_pct"] <= row["attempts"]["fewest_pct"] <= 100


def test_quick_leaves_out_the_largest_clusters() -> None:
    assert {case.nodes for case in planner.cases(quick=True)} == {512, 5_000}
    assert {case.nodes for case in planner.cases(quick=False)} == {512, 5_000, 50_000}


def test_a_report_is_the_last_line_and_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    path = report.report("sums", [{"case": "one", "p50_ms": 1.5}], ["numpy", "no-such-package"])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == json.loads(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "results" / "sums.json"
    assert (last["bench"], last["rows"]) == ("sums", [{"case": "one", "p50_ms": 1.5}])
    assert last["versions"]["no-such-package"] == "not installed"
    assert {"machine", "python", "numpy", "muster-scheduler"} <= last["versions"].keys()
