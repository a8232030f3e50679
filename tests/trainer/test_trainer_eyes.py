"""What can be seen of a run: metrics and health of a pod, lines of JSON, a picture, stragglers."""

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from test_trainer_training import run
from trainer_worlds import Process, environments, run_world

from trainer.curve import svg
from trainer.exposition import Sample, render, write
from trainer.health import METRICS_DIR, Health
from trainer.pace import Pace, scores, stragglers


def parsed(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(s.labels.values()): s.value for s in family.samples}
        for family in text_string_to_metric_families(text)
    }


class TestMetrics:
    def test_the_text_is_prometheus_s(self) -> None:
        odd = 'a"b\\c\nd'
        text = render(
            [
                Sample("m", "Help.", 1.5, labels=(("rank", "0"),)),
                Sample("n", "Other.", 3, "counter"),
                Sample("m", "Help.", 2, labels=(("rank", odd),)),
            ]
        )
        found = parsed(text)
        assert found["m"] == {("0",): 1.5, (odd,): 2.0}
        assert text.count("# TYPE m gauge") == 1
        assert render([]) == ""

    def test_a_file_is_replaced_at_once(self, tmp_path: Path) -> None:
        for value in (1, 2):
            write(tmp_path / "rank-0.prom", [Sample("m", "Help.", value)])
        assert os.listdir(tmp_path) == ["rank-0.prom"]
        assert parsed((tmp_path / "rank-0.prom").read_text())["m"] == {(): 2.0}


class TestHealth:
    @pytest.fixture
    def health(self, tmp_path: Path) -> Iterator[Health]:
        found = Health(tmp_path, 0, stale=100, now=lambda: self.time)
        yield found
        found.close()

    time = 1000.0

    def ask(self, health: Health, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health.port}{path}") as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def report(self, folder: Path, rank: int, at: float) -> None:
        path = folder / f"rank-{rank}.prom"
        write(path, [Sample("muster_train_step", "Steps.", 7, "counter", (("rank", str(rank)),))])
        os.utime(path, (at, at))

    def test_a_pod_without_reports_is_healthy(self, health: Health) -> None:
        assert self.ask(health, "/healthz") == (200, "ok\n")
        assert self.ask(health, "/else")[0] == 404

    def test_all_workers_metrics_come_together(self, health: Health, tmp_path: Path) -> None:
        for rank in (0, 1):
            self.report(tmp_path, rank, at=990)
        status, text = self.ask(health, "/metrics?x=1")
        assert status == 200
        assert parsed(text)["muster_launch_reporting_workers"] == {(): 2.0}
        assert text.count("# TYPE muster_train_step counter") == 1
        assert 'muster_train_step{rank="1"} 7' in text

    def test_a_worker_that_fell_silent_makes_the_pod_unhealthy(
        self, health: Health, tmp_path: Path
    ) -> None:
        self.report(tmp_path, 0, at=990)
        self.report(tmp_path, 1, at=899)
        assert self.ask(health, "/healthz") == (503, "no news of rank-1 for 100 s\n")


class TestStragglers:
    def test_the_score_is_the_best_time_over_one_s_own(self) -> None:
        assert scores([1.0, 2.0, 4.0]) == [1.0, 0.5, 0.25]
        assert scores([0.0, 0.0]) == [1.0, 1.0]
        assert stragglers([1.0, 0.69, 0.7]) == [1]

    @given(st.lists(st.floats(0, 1e6), min_size=1))
    def test_scores_lie_between_0_and_1_and_the_best_has_1(self, own: list[float]) -> None:
        found = scores(own)
        assert all(0 <= score <= 1 for score in found)
        assert max(found) == 1.0

    def test_timers_add_up(self) -> None:
        pace = Pace()
        with pace.timing("data", "own"):
            pass
        before = pace.own
        with pace.timing("own"):
            sum(range(1000))
        assert pace.own > before >= pace.data > 0 == pace.shared

    def test_a_rank_that_is_slow_three_times_running_is_called_a_straggler(
        self, tmp_path: Path
    ) -> None:
        lines = tmp_path / "lines.jsonl"
        changes = {"jsonl": lines, "log_every": 10, "steps": 30}
        run_world(tmp_path, environments([1, 1]), run_at_a_known_pace, changes, [1.0, 4.0])
        found = [json.loads(line) for line in lines.read_text().splitlines()]
        assert [line["straggler_scores"] for line in found] == [[1.0, 0.25]] * 3
        assert [line["stragglers"] for line in found] == [[], [], [1]]

    def test_ranks_tell_each_other_how_long_they_took(self, tmp_path: Path) -> None:
        assert run_world(tmp_path, environments([1, 1, 1]), tell_pace) == [[1.0, 2.0, 3.0]] * 3


def run_at_a_known_pace(process: Process, changes: dict[str, Any], own: list[float]) -> Any:
    from trainer import pace

    pace.exchanged = lambda _own, _size: own
    return run(process, changes)


def tell_pace(process: Process) -> list[float]:
    from trainer.pace import exchanged

    ranks = process.join_world()
    return exchanged(ranks.rank + 1.0, ranks.world_size)


class TestTheCurve:
    def lines(self, text: str) -> int:
        page = ElementTree.fromstring(text)
        assert page.tag == "{http://www.w3.org/2000/svg}svg"
        return sum(one.get("stroke") == "#1f6feb" for one in page)

    def test_is_a_line_through_all_losses(self) -> None:
        assert self.lines(svg([(1, 2.0), (2, 1.0), (3, 0.5)], "Loss <by> step")) == 2

    def test_has_a_gap_where_the_loss_is_no_number(self) -> None:
        assert self.lines(svg([(1, 2.0), (2, float("nan")), (3, 0.5), (4, 0.4)], "")) == 1

    def test_stays_small_for_long_runs(self) -> None:
        history = [(step, 1 / step) for step in range(1, 100_001)]
        assert len(svg(history, "")) < 100_000

    @pytest.mark.parametrize("history", [[], [(5, 1.0)], [(1, float("inf"))], [(1, 2.0), (2, 2.0)]])
    def test_of_almost_nothing_is_a_picture_too(self, history: list[tuple[int, float]]) -> None:
        assert self.lines(svg(history, "")) == max(0, len(history) - 1)


def test_a_run_leaves_metrics_of_each_rank_and_a_picture(tmp_path: Path) -> None:
    changes = {"curve": tmp_path / "curve.svg", "log_every": 10, "steps": 20}
    run_world(tmp_path / "store", environments([1, 1]), run_watched, changes, str(tmp_path))
    for rank in (0, 1):
        found = parsed((tmp_path / f"rank-{rank}.prom").read_text())
        assert found["muster_train_step"] == {(str(rank),): 20.0}
        assert 0 < found["muster_train_straggler_score"][(str(rank),)] <= 1
    assert ElementTree.fromstring((tmp_path / "curve.svg").read_text()) is not None


def run_watched(process: Process, changes: dict[str, Any], folder: str) -> Any:
    os.environ[METRICS_DIR] = folder
    return run(process, changes)


def test_a_picture_that_cannot_be_written_costs_a_warning_only(tmp_path: Path) -> None:
    changes = {"curve": tmp_path / "absent" / "curve.svg", "jsonl": tmp_path, "steps": 5}
    (report,) = run_world(tmp_path / "store", environments([1]), run, changes)
    assert report["steps"] == 5
