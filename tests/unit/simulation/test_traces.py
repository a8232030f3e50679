"""The trace sample is what its header says, and bad traces are named."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import MusterError
from scheduler.simulation import traces
from scheduler.simulation.traces import TraceJob

SOURCE = Path(__file__).parents[4] / "shared/traces/gavel-philly/2869ce.trace"
DAY = 86_400


def test_the_sample_is_a_busy_day() -> None:
    jobs = traces.philly_day()
    assert 150 <= len(jobs) <= 400
    assert all(0 <= job.arrival_s < DAY for job in jobs)
    assert all(traces.SHORTEST_S <= job.duration_s <= traces.LONGEST_S for job in jobs)
    assert sum(job.gpus > 8 for job in jobs) >= 40, "gangs of several pods"


def test_its_durations_are_drawn_as_the_header_says() -> None:
    jobs = traces.philly_day()
    assert traces.with_durations(jobs, traces.SEED) == jobs
    assert traces.with_durations(jobs, traces.SEED + 1) != jobs


def test_its_header_names_source_change_and_seed() -> None:
    folder = resources.files("scheduler.simulation").joinpath("data")
    head = folder.joinpath("philly_day.csv").read_text().split(traces.COLUMNS[0])[0]
    for words in ("Philly", "Gavel", "scaled", f"random.Random({traces.SEED})", "ATTRIBUTION.md"):
        assert words in head
    credit = folder.joinpath("ATTRIBUTION.md").read_text()
    assert "CC BY 4.0" in credit
    assert "Copyright (c) 2020 Stanford Future Data Systems" in credit


@pytest.mark.skipif(not SOURCE.is_file(), reason=f"needs the original trace, {SOURCE.name}")
def test_its_arrivals_and_sizes_are_those_of_the_original() -> None:
    original = traces.parse_gavel(SOURCE.read_text().splitlines())
    cut = traces.window(original, 27 * DAY, 96 * DAY, divide=120)
    assert traces.with_durations(cut, traces.SEED) == traces.philly_day()


def test_half_of_the_durations_are_below_the_median_and_a_tenth_above_p90() -> None:
    drawn = traces.with_durations([TraceJob(0, 1)] * 20_000, seed=1)
    below = sum(job.duration_s < traces.MEDIAN_S for job in drawn) / len(drawn)
    above = sum(job.duration_s > traces.P90_S for job in drawn) / len(drawn)
    assert below == pytest.approx(0.5, abs=0.02)
    assert above == pytest.approx(0.1, abs=0.01)


@given(st.integers(1, 4096), st.integers(1, 16))
def test_pods_of_a_gang_are_few_equal_and_hold_it(gpus: int, per_pod: int) -> None:
    pods = traces.pods_of(gpus, per_pod)
    assert set(pods) == {min(gpus, per_pod)}
    assert sum(pods) >= gpus > sum(pods[1:])


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], "first line"),
        (["arrival_s,gpus"], "first line"),
        (["arrival_s,gpus,duration_s", "1,2"], "line 2"),
        (["# c", "arrival_s,gpus,duration_s", "1,2,3", "1,x,3"], "line 4"),
        (["arrival_s,gpus,duration_s", "1,0,3"], "gpus: '0' is out of range"),
        (["arrival_s,gpus,duration_s", "nan,1,3"], "arrival_s: 'nan' is out of range"),
        (["arrival_s,gpus,duration_s", "1,x,3"], "gpus: 'x' is not a whole number"),
        (["arrival_s,gpus,duration_s", "1,1,inf"], "duration_s: 'inf' is out of range"),
    ],
)
def test_a_bad_trace_is_refused_by_name_and_line(lines: list[str], named: str) -> None:
    with pytest.raises(MusterError, match=named) as caught:
        traces.parse(lines, "x.csv")
    assert "x.csv" in str(caught.value)


def test_jobs_come_in_order_of_arrival() -> None:
    jobs = traces.parse(["arrival_s,gpus,duration_s", "5,1,1", "2,4,1"], "x.csv")
    assert [job.gpus for job in jobs] == [4, 1]


def test_a_gavel_line_gives_its_last_two_columns() -> None:
    assert traces.parse_gavel(["model\tcommand\t-n\t1\t99\t6.0\t4\n"]) == [TraceJob(6.0, 4)]
    with pytest.raises(MusterError, match=r"line 1: .*begins with the line arrival_s,gpus,dur"):
        traces.parse_gavel(["arrival,gpus,seconds"])
