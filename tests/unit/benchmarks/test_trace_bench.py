"""The benchmark on traces: what it leaves out it says, two runs are alike, bars judge rightly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import trace, trace_table

Row = dict[str, Any]


def shared_rows(**allocated: float) -> list[Row]:
    return [
        {"trace": f"openb {name}", "policy": policy, "seed": 42, "allocated_pct": value,
         "refused": 1}
        for name in trace.WORKLOADS
        for policy, value in allocated.items()
    ]  # fmt: skip


def test_parts_without_their_data_are_left_out_by_name(tmp_path: Path) -> None:
    jobs, skipped = trace.plan(tmp_path, quick=True)
    assert len(jobs) == 6, "the part that needs nothing"
    assert [why.partition(":")[0] for why in skipped] == ["philly", "shared", "step times"]
    assert all("--traces" in why for why in skipped)


@pytest.fixture(scope="module")
def made_up() -> list[Row]:
    return [
        trace.gang_row(None, "Seren", "1x2x4x8", 8, policy, 60) for policy in ("muster", "spread")
    ]


def test_two_runs_are_identical(made_up: list[Row]) -> None:
    again = [trace.gang_row(None, "Seren", "1x2x4x8", 8, row["policy"], 60) for row in made_up]
    assert again == made_up


EVERY_POLICY = """
import json
from benchmarks import trace
rows = [trace.gang_row(None, "Seren", "1x2x4x8", 8, one, 60) for one in trace.running.POLICIES]
print(json.dumps(rows))
"""


def test_two_processes_come_to_the_same_whatever_the_order_of_their_sets() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-c", EVERY_POLICY],
            cwd=Path(trace.__file__).parents[1],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(json.loads(told[0])) == len(trace.running.POLICIES)


def test_a_philly_file_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "gavel-philly").mkdir()
    lines = "".join(f"m\tc\t-n\t1\t1\t{n * 60}.0\t{1 + n % 9}\n" for n in range(30))
    (tmp_path / "gavel-philly/abc.trace").write_text(lines)
    jobs, skipped = trace.plan(tmp_path, quick=True)
    assert len(jobs) == 12
    row = jobs[-1]()
    assert (row["trace"], row["policy"], row["gangs"]) == ("philly abc", "random", 30)
    assert "step_time" not in row
    assert not [why for why in skipped if why.startswith("philly")]


def test_bars_want_bestfit_as_published_and_muster_above_fgd() -> None:
    good = shared_rows(muster=98.0, fgd=97.3, tightest=94.0, bestfit=94.4, random=87.0)
    bars = trace_table.bars_of(good)
    told = {bar["name"]: bar["ok"] for bar in bars}
    assert told == {
        "openb default: BestFit as published": False,
        "openb default: muster above FGD as published": True,
        "openb default: muster above FGD replayed here": True,
        "openb multigpu50: BestFit as published": False,
        "openb multigpu50: muster above FGD as published": True,
        "openb multigpu50: muster above FGD replayed here": True,
    }
    below = trace_table.bars_of(
        shared_rows(muster=97.0, fgd=97.1, tightest=94.0, bestfit=95.5, random=87.0)
    )
    assert [bar["ok"] for bar in below] == [False, True, False, True, False, False]


def test_bars_want_no_gpu_held_by_half_a_gang(made_up: list[Row]) -> None:
    (bar,) = trace_table.bars_of(made_up)
    assert (bar["want"], bar["got"], bar["ok"]) == (0, 0, True)
    held = [{**row, "partial_gpu_s": 7} for row in made_up]
    assert not trace_table.bars_of(held)[0]["ok"]


def test_tables_and_picture_tell_of_every_policy(
    made_up: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**made_up[0], "policy": policy} for policy in trace.running.POLICIES]
    rows += shared_rows(muster=98.0, fgd=97.3, tightest=94.0, bestfit=93.4, random=87.0)
    text = trace_table.tables(rows, trace_table.bars_of(rows))
    for policy in ("greedy", "binpack", "tightest", "bestfit"):
        assert text.count(f"| {policy} |") == 1
    assert "98.00 % (98.00 to 98.00)" in text
    assert "93.08 %" in text
    assert "7 of 8 bars hold" in text
    monkeypatch.setattr(trace_table, "PICTURE", tmp_path / "trace.svg")
    trace_table.write_pictures(rows)
    ElementTree.fromstring((tmp_path / "trace.svg").read_text())
