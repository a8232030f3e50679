"""The page of results: each benchmark replaces its own section and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import publish, report

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(publish, "PAGE", tmp_path / "RESULTS.md")
    return tmp_path / "RESULTS.md"


def told(name: str, *rows: Json) -> None:
    report.report(name, rows)


def test_a_section_has_the_command_the_machine_and_the_figures(page: Path) -> None:
    told("waiting", {"arm": "muster", "cpu_share": {"muster": 0.25}, "gangs": 1000})
    publish.publish(["waiting"])
    text = page.read_text()
    assert "## What gangs cost that wait" in text
    assert "`python -m benchmarks." in text
    assert report.versions(())["machine"] in text
    assert "| muster | muster 0.25 | 1,000 |" in text


def test_only_the_named_section_is_replaced_and_the_order_is_fixed(page: Path) -> None:
    for name in ("zebra", "scale", "waiting"):
        told(name, {"value": 1})
        publish.publish([name])
    told("scale", {"value": 2})
    publish.publish(["scale"])
    text = page.read_text()
    marks = [line for line in text.splitlines() if line.startswith("<!--")]
    assert marks == ["<!-- waiting -->", "<!-- scale -->", "<!-- zebra -->"]
    assert text.count("| 2 |") == 1
    assert text.count("| 1 |") == 2


def test_publishing_twice_changes_nothing(page: Path) -> None:
    told("scale", {"value": 1}, {"value": 2, "more": 3})
    publish.publish(["scale"])
    once = page.read_text()
    publish.publish(["scale"])
    assert page.read_text() == once


def test_rows_of_different_kinds_have_tables_of_their_own(page: Path) -> None:
    told("budget", {"what": "idle", "share": 0.01}, {"what": "soak", "curve": list(range(40))})
    publish.publish(["budget"])
    assert "| soak | 0 … 39 |" in page.read_text()
    assert page.read_text().count("| --- | --- |") == 2


def test_the_picture_goes_beside_the_page(page: Path) -> None:
    told("zebra", {"value": 1})
    (report.RESULTS / "zebra.svg").write_text("<svg/>")
    publish.publish(["zebra"])
    assert page.with_name("zebra.svg").read_text() == "<svg/>"


def test_a_benchmark_that_was_not_run_is_told() -> None:
    with pytest.raises(SystemExit, match="run the benchmark cluster first"):
        publish.publish(["cluster"])


def test_a_path_of_this_machine_is_not_published() -> None:
    words = ["--kubeconfig", "/home/me/.kube/config", "--nodes", "100"]
    assert report.command("cluster", words) == (
        "python -m benchmarks.cluster --kubeconfig config --nodes 100"
    )


def test_numbers_in_results_are_read_as_json(page: Path) -> None:
    told("cluster")
    file = report.RESULTS / "cluster.json"
    whole = json.loads(file.read_text()) | {"bars": [], "rows": []}
    file.write_text(json.dumps(whole))
    publish.publish(["cluster"])
    assert "| bar | wanted | got | met |" in page.read_text()
