"""What is replayed: jobs become gangs at a load, and jobs can be made up from published figures."""

from __future__ import annotations

import statistics
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import MusterError
from scheduler.simulation.trace import synthetic
from scheduler.simulation.trace.workload import workload
from scheduler.simulation.traces import TraceJob


@given(
    st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(1, 64), st.integers(1, 5_000)),
        min_size=2,
        max_size=20,
        unique_by=lambda job: job[0],
    ),
    st.sampled_from([0.3, 0.9, 2.0]),
)
def test_arrivals_are_stretched_to_the_load(jobs: list[tuple[int, int, int]], load: float) -> None:
    found = workload([TraceJob(*job) for job in jobs], 8, 512, load)
    asked = sum(gang.total * gang.duration_s for gang in found.gangs)
    span = found.gangs[-1].arrival_s - found.gangs[0].arrival_s
    assert asked / (512 * span) == pytest.approx(load, rel=0.05, abs=0.01) or span < 1
    assert found.gangs[0].arrival_s == 0
    assert [gang.arrival_s for gang in found.gangs] == sorted(g.arrival_s for g in found.gangs)


def test_jobs_become_few_pods_alike_and_too_large_ones_are_left_out() -> None:
    jobs = [TraceJob(5, 20, 10), TraceJob(6, 4, 10), TraceJob(7, 33, 10)]
    found = workload(jobs, 8, 32, None)
    assert [(gang.pods, gang.gpus) for gang in found.gangs] == [(3, 8), (1, 4)]
    assert [gang.arrival_s for gang in found.gangs] == [0, 1]
    assert (found.left_out, found.stretched) == (1, 1.0)
    assert workload(jobs, 1, 32, None).gangs[0].pods == 20


@pytest.mark.parametrize(
    ("jobs", "load", "named"),
    [
        ([TraceJob(0, 64, 1)], None, "no job that fits"),
        ([TraceJob(0, 1, 1), TraceJob(0, 1, 1)], 0.9, "load of this trace"),
        ([TraceJob(0, 1, 0), TraceJob(9, 1, 0)], 0.9, "load of this trace"),
    ],
)
def test_a_load_that_cannot_be_made_is_refused(
    jobs: list[TraceJob], load: float | None, named: str
) -> None:
    with pytest.raises(MusterError, match=named):
        workload(jobs, 8, 32, load)


@pytest.mark.parametrize("name", synthetic.summaries())
def test_made_up_jobs_have_the_published_figures(name: str) -> None:
    summary = synthetic.summary_of(name)
    jobs = synthetic.jobs(summary, 20_000, summary.max_gpus, seed=1)
    assert statistics.fmean(job.gpus for job in jobs) == pytest.approx(summary.mean_gpus, rel=0.15)
    median = statistics.median(job.duration_s for job in jobs)
    assert median == pytest.approx(summary.median_s, rel=0.1)
    assert all(job.gpus & (job.gpus - 1) == 0 for job in jobs), "powers of two"
    assert synthetic.jobs(summary, 50, 64, seed=1) == synthetic.jobs(summary, 50, 64, seed=1)
    assert synthetic.jobs(summary, 50, 64, seed=1) != synthetic.jobs(summary, 50, 64, seed=2)
    assert max(job.gpus for job in synthetic.jobs(summary, 2_000, 64, seed=1)) <= 64


def test_an_unknown_cluster_is_named_with_those_there_are() -> None:
    with pytest.raises(MusterError, match=r"'Mars'.*Seren"):
        synthetic.summary_of("Mars")


def test_the_figures_name_their_source_and_licence() -> None:
    folder = resources.files("scheduler.simulation").joinpath("data")
    assert "ATTRIBUTION.md" in folder.joinpath("clusters.csv").read_text("utf-8")
    credit = folder.joinpath("ATTRIBUTION.md").read_text("utf-8")
    assert "clusters.csv" in credit
    assert "Acme" in credit
