"""`muster simulate` as people run it, its step times, and its pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scheduler.commands.simulate import simulate
from scheduler.errors import MusterError
from scheduler.simulation.trace import charts, steptime
from scheduler.simulation.trace.running import POLICIES

PHILLY = "".join(f"model\tcmd\t-n\t1\t9\t{60 * n}.0\t{1 << n % 5}\n" for n in range(40))
OURS = "arrival_s,gpus,duration_s\n0,16,100\n10,8,50\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,64000,4,T4\nb,32000,64000,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,4000,1000,1,500\nq,4000,1000,2,1000\n"
SMALL = {"shape": "1x2x2x8", "policy": ["muster", "spread"]}

Told = dict[str, Any]
Run = Callable[..., Told]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls the command in this process, and reads its last line."""

    def call(text: str | None = None, **options: Any) -> Told:
        given: dict[str, Any] = {
            "nodes": None, "cluster": "Seren", "jobs": None, "shape": "2x4x8x8",
            "gpus_per_pod": 8, "load": None, "as_traced": False, "policy": None, "seed": 1,
            "give_up": 3600.0, "step_times": None,
            "out": tmp_path / "new/picture.svg",
        }  # fmt: skip
        trace = None
        if text is not None:
            trace = tmp_path / "some.trace"
            trace.write_text(text)
        simulate(trace, **{**given, **options})
        told: Told = json.loads(capsys.readouterr().out.splitlines()[-1])
        return told

    return call


def test_without_a_trace_it_makes_jobs_up_the_same_every_time(run: Run, tmp_path: Path) -> None:
    first = run(jobs=60, shape="1x2x4x8")
    picture = (tmp_path / "new/picture.svg").read_bytes()
    assert run(jobs=60, shape="1x2x4x8") == first
    assert (tmp_path / "new/picture.svg").read_bytes() == picture
    assert tuple(first["policies"]) == POLICIES
    assert all(row["gangs"] == 60 for row in first["policies"].values())
    assert run(jobs=60, shape="1x2x4x8", seed=2) != first


def test_a_philly_trace_is_known_by_its_columns(run: Run) -> None:
    told = run(PHILLY, **SMALL)
    assert told["trace"] == "some.trace"
    row = told["policies"]["muster"]
    assert (row["gangs"], row["never_started"], row["partial_gpu_s"]) == (40, 0, 0)
    assert set(row["by_gpus"]) == {"1", "2-8", "9-32"}
    assert run(PHILLY, jobs=7, **SMALL)["policies"]["muster"]["gangs"] == 7


def test_a_trace_with_durations_is_replayed_as_it_is(run: Run) -> None:
    told = run(OURS, as_traced=True, **SMALL)
    assert (told["load"], told["arrivals_times"]) == (None, 1.0)
    row = told["policies"]["muster"]
    assert (row["makespan_s"], row["mean_wait_s"]) == (100, 0.0)
    assert row["closeness"]["racks"] == 1


def test_jobs_that_never_fit_are_left_out_and_counted(run: Run) -> None:
    told = run(OURS + "20,64,5\n", **SMALL)
    assert told["left_out"] == 1
    assert told["policies"]["spread"]["gangs"] == 2


def test_an_openb_trace_is_known_by_its_columns(run: Run, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(NODES)
    told = run(PODS, nodes=nodes)
    assert set(told["policies"]) == {"muster", "fgd", "tightest", "bestfit", "random"}
    assert told["load"] == 1.3
    assert 80 < told["policies"]["muster"]["allocated_pct"] <= 100


@pytest.mark.parametrize(
    ("text", "options", "named"),
    [
        (PODS, {}, "--nodes FILE"),
        (OURS, {"nodes": Path("x")}, "--nodes is for openb"),
        (PODS, {"policy": ["greedy"]}, "there are muster, fgd"),
        (OURS, {"policy": ["bestfit"]}, "there are muster, muster-told"),
        (None, {"shape": "8"}, "blocks x racks"),
        (None, {"cluster": "Mars"}, "'Mars'"),
        ("no tabs\n", {}, "line 1"),
        ("", {}, "the trace has no jobs"),
        ("arrival_s,gpus,duration_s\n", {}, "the trace has no jobs"),
        ("arrival_s,gpus,duration_s\n0,1,5\n", {}, "choose --as-traced"),
        (None, {"gpus_per_pod": 16}, "--gpus-per-pod 16: a node of --shape 2x4x8x8 has 8"),
        (None, {"shape": "9999999x1x1x8"}, "at most 50000 nodes"),
        (None, {"step_times": Path("nowhere")}, "nowhere"),
        (None, {"jobs": 5, "out": Path("/proc/no/picture.svg")}, "choose --out"),
    ],
)
def test_what_cannot_be_done_is_said_by_name(
    run: Run, text: str | None, options: Told, named: str
) -> None:
    with pytest.raises(MusterError, match=named):
        run(text, **options)


def test_without_gangs_of_several_pods_there_is_no_closeness(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,gpus,duration_s\n0,1,5\n")
    simulate(trace, as_traced=True, shape="1x1x1x4", policy=["greedy"], out=tmp_path / "p.svg")
    said = capsys.readouterr()
    assert json.loads(said.out)["gpus_per_pod"] == 4
    (row,) = [line for line in said.err.splitlines() if line.split()[:1] == ["greedy"]]
    assert row.split()[-2:] == ["–", "–"]


def test_a_file_that_cannot_be_read_is_named_on_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scheduler", "simulate", str(tmp_path / "none.trace")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 2
    assert ended.stderr.startswith("muster: cannot read")
    assert "none.trace" in ended.stderr
    assert not ended.stdout


# ── step times ──


def times(folder: Path, model: str, rows: list[str], more: str = "") -> None:
    (folder / model).mkdir(parents=True)
    head = "placement,local_bsz,step_time\n"
    (folder / model / "placements-aws.csv").write_text(head + "\n".join(rows) + "\n")
    scaled = "num_nodes,num_replicas,local_bsz,step_time\n" + more
    (folder / model / "scalability-aws.csv").write_text(scaled)


def test_a_spread_gang_steps_slower_by_the_geometric_mean_of_what_was_measured(
    tmp_path: Path,
) -> None:
    times(tmp_path, "bert", ["4,8,1.0", "1111,8,4.0", "22,8,1.8", "13,8,2.2"], "8,8,8,5.0\n")
    times(tmp_path, "yolo", ["4,8,2.0", "1111,8,2.0"])
    (aws,) = steptime.read(tmp_path, 4)
    assert aws.penalty(4, 1) == 1.0
    assert aws.penalty(4, 2) == pytest.approx(2.0), "the mean of 22 and 13; yolo has neither"
    assert aws.penalty(4, 4) == pytest.approx(2.0), "root of 4 x 1"
    assert aws.penalty(4, 3) == pytest.approx(2.0), "the most nodes that were measured below"
    assert aws.penalty(8, 8) is None, "nothing to compare with"
    assert aws.penalty(16, 5) is None
    told = steptime.told(aws, [(4, 1), (4, 4), (16, 5)])
    assert told == {"mean": 1.5, "worst": 2.0, "known_pct": 66.7}
    assert steptime.read(tmp_path, 3) == []


def test_step_times_that_are_broken_are_named(tmp_path: Path) -> None:
    times(tmp_path, "bert", ["4,8,soon"])
    with pytest.raises(MusterError, match=r"bert/placements-aws\.csv"):
        steptime.read(tmp_path, 4)
    (tmp_path / "bert/placements-aws.csv").unlink()
    with pytest.raises(MusterError, match=r"bert/placements-aws\.csv"):
        steptime.read(tmp_path, 4)


# ── pictures ──


def test_the_picture_is_svg_with_a_line_for_every_policy(run: Run, tmp_path: Path) -> None:
    run(PHILLY, shape="1x2x2x8")
    drawn = ElementTree.fromstring((tmp_path / "new/picture.svg").read_text())
    tags = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert tags.count("path") == 2 * len(POLICIES), "use and breakage over time"
    words = " ".join(element.text or "" for element in drawn.iter())
    for name in ("GPUs that run", "Mean wait", "Domains", "muster", "spread", "racks", "9-32"):
        assert name in words


def test_thinned_values_keep_their_mean() -> None:
    points = [(0.0, 10.0), (30.0, 50.0), (31.0, 0.0), (70.0, 20.0)]
    thin = charts.thinned(points, 100.0, most=7)
    assert len(thin) == 7
    mean = (30 * 10 + 50 + 30 * 20) / 100
    assert sum(value for _, value in thin) / 7 == pytest.approx(mean)
    assert charts.thinned([], 100.0) == []


def test_names_in_pictures_are_escaped() -> None:
    text = charts.page("<a>", [charts.bars("b & c", "", {"<d>": {"<e>": 1.0}})], ["<f>"])
    ElementTree.fromstring(text)
    assert charts.lines("none", "", {"x": []}, 0.0)
