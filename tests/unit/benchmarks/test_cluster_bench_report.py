"""Rows, bars, tables and the picture of the cluster benchmark."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import cluster, report
from benchmarks.cluster_bars import bars, ratio
from benchmarks.cluster_processes import busy_ticks, calm, counter, used_ticks
from benchmarks.cluster_samples import GangResult, Sample, row, rows, sample_of
from benchmarks.cluster_table import bars_table, length, markdown, number, picture, table


def gang(seconds: float, **other: Any) -> GangResult:
    told = {"partial_pod_s": 1.0, "beyond_pod_s": 0.0, "domains": [1, 2], "fewest": [1, 2]}
    return GangResult(pods=4, complete_to_bound_s=seconds, **{**told, **other})


def sample(*seconds: float, arm: str = "burst", load: str = "1x500", **other: Any) -> Sample:
    told: dict[str, Any] = {
        "arm": arm,
        "nodes": 5_000,
        "load": load,
        "repeat": 0,
        "gangs": [gang(value) for value in seconds],
        "singles_s": [],
        "pods": 4 * len(seconds),
        "bound": 4 * sum(map(math.isfinite, seconds)),
        "seconds": 2.0,
        "creating_s": 1.0,
        "filter_calls": 7,
        "cycles": 9,
        "cpu_s": {"muster": 1.5},
        "peak_mb": {"muster": 90},
    }
    return Sample(**{**told, **other})


# ── rows ──


def test_a_row_is_the_median_over_all_gangs_of_all_repeats() -> None:
    found = row([sample(1.0, 2.0), sample(3.0, 4.0), sample(9.0, 10.0)])
    assert found["complete_to_bound_s"] == 3.5
    assert found["spread_s"] == [1.5, 9.5]
    assert found["worst_s"] == 10.0
    assert (found["repeats"], found["unbound"]) == (3, 0)


def test_a_row_has_the_keys_that_were_promised() -> None:
    promised = "arm nodes load complete_to_bound_s worst_s pods_per_s domains partial_pod_s"
    assert set(f"{promised} filter_calls cpu_s rss_mb".split()) <= row([sample(1.0)]).keys()


def test_rates_are_pods_over_seconds() -> None:
    found = row([sample(1.0, 1.0), sample(1.0, 1.0, seconds=4.0)])
    assert found["pods_per_s"] == pytest.approx((8 / 2 + 8 / 4) / 2)
    assert found["created_per_s"] == 8.0


def test_a_gang_that_never_started_is_told_and_leaves_no_number() -> None:
    found = row([sample(1.0, math.inf, math.inf)])
    assert (found["complete_to_bound_s"], found["worst_s"], found["unbound"]) == (None, None, 8)
    json.dumps(found, allow_nan=False)


def test_domains_are_medians_but_the_worst_gang_tells_how_many_are_too_many() -> None:
    spread = [gang(1.0), gang(1.0), gang(1.0, domains=[2, 9], fewest=[1, 4])]
    found = row([sample(gangs=spread)])
    assert found["domains"] == [1, 2]
    assert found["domains_over"] == [1, 5]


def test_pod_seconds_add_up_over_gangs_and_the_worst_repeat_counts_for_those_beyond() -> None:
    calm_one = sample(gangs=[gang(1.0, partial_pod_s=2.0), gang(1.0, partial_pod_s=3.0)])
    bad = sample(gangs=[gang(1.0, partial_pod_s=8.0, beyond_pod_s=6.0)])
    found = row([calm_one, bad, calm_one])
    assert (found["partial_pod_s"], found["beyond_pod_s"]) == (5.0, 6.0)


def test_cpu_is_a_median_and_memory_a_maximum_of_each_process() -> None:
    usages = [{"muster": 1.0, "kwok": 0.2}, {"muster": 3.0}, {"muster": 2.0}]
    peaks = [{"muster": 80}, {"muster": 95}, {"muster": 90}]
    repeats = zip(usages, peaks, strict=True)
    found = row([sample(1.0, cpu_s=usage, peak_mb=peak) for usage, peak in repeats])
    assert found["cpu_s"] == {"muster": 2.0, "kwok": 0.0}
    assert found["rss_mb"] == {"muster": 95}


def test_only_a_churn_tells_of_singles() -> None:
    assert "single_s" not in row([sample(1.0)])
    churned = row([sample(1.0, load="churn", singles_s=[0.1, 0.3]), sample(1.0, singles_s=[0.2])])
    assert (churned["single_s"], churned["single_p99_s"]) == (0.2, 0.3)


def test_samples_of_one_kind_become_one_row() -> None:
    kinds = [sample(1.0), sample(1.0, arm="stock"), sample(2.0), sample(1.0, load="churn")]
    assert [(made["arm"], made["load"]) for made in rows(kinds)] == [
        ("burst", "1x500"),
        ("stock", "1x500"),
        ("burst", "churn"),
    ]


def test_a_sample_survives_being_written_down() -> None:
    told = sample(1.5, math.inf, singles_s=[0.5])
    assert sample_of(json.loads(json.dumps(asdict(told)))) == told


# ── bars ──


def measured(**seconds: float | None) -> list[dict[str, Any]]:
    """Rows of 1x500 at 5,000 nodes, by arm; underscores are dashes."""
    return [
        row([sample(1.0, arm=arm.replace("_", "-"))]) | {"complete_to_bound_s": value}
        for arm, value in seconds.items()
    ]


def verdict(found: list[dict[str, Any]], name: str) -> tuple[Any, Any]:
    [bar] = [bar for bar in found if name in bar["name"]]
    return bar["got"], bar["ok"]


def test_ratios_within_one_run_are_held_against_the_bars() -> None:
    found = bars(measured(native=5.0, native_topology=19.0, burst=1.0, stock=1.0))
    assert verdict(found, "1x500 at 5000: native / burst") == (5.0, True)
    assert verdict(found, "native-topology / burst") == (19.0, False)
    assert verdict(found, "burst / stock") == (1.0, True)


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    found = bars(measured(burst=1.0, native=None))
    assert verdict(found, "1x500 at 5000: native / burst") == (None, None)
    assert verdict(found, "burst / stock") == (None, None)
    assert verdict(found, "100x16 at 5000") == (None, None)


def test_more_nodes_may_cost_little_more() -> None:
    small = row([sample(1.0, nodes=1_000)])
    assert verdict(bars([small, row([sample(1.3)])]), "burst / burst at 1000") == (1.3, True)
    assert verdict(bars([small, row([sample(1.4)])]), "burst / burst at 1000") == (1.4, False)


def test_one_domain_too_many_or_one_stalled_gang_misses_its_bar() -> None:
    good = row([sample(1.0)])
    bad = row([sample(gangs=[gang(1.0, domains=[1, 3], beyond_pod_s=0.5)])])
    assert verdict(bars([good]), "domains beyond") == (0, True)
    assert verdict(bars([good, bad]), "domains beyond") == (1, False)
    assert verdict(bars([good, bad]), "pod-seconds beyond") == (0.5, False)


def test_other_arms_are_not_held_to_the_bars_of_ours() -> None:
    bad = row([sample(arm="stock", gangs=[gang(1.0, domains=[9, 99])])])
    assert verdict(bars([row([sample(1.0)]), bad]), "domains beyond") == (0, True)


def test_nothing_is_divided_by_zero() -> None:
    assert ratio(1.0, 0.0) is None
    assert ratio(None, 1.0) is None
    assert ratio(1.0, 4.0) == 0.25


# ── for people ──


def test_tables_are_markdown_with_a_line_for_each_row() -> None:
    text = table([row([sample(1.0)]), row([sample(math.inf)])])
    lines = text.splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "(4 never)" in lines[3]
    assert markdown(["a"], [["1"]]) == "| a |\n| --- |\n| 1 |"


def test_a_bar_that_is_missed_stands_out() -> None:
    text = bars_table(bars(measured(native=4.0, burst=1.0)))
    assert "| 1x500 at 5000: native / burst | >= 5 | 4 | **no** |" in text
    assert "not measured" in text


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, "—"), (0.0, "0"), (0.1234, "0.123"), (12.34, "12.3"), (1234.5, "1,234"), (7, "7")],
)
def test_numbers_have_the_digits_that_count(value: float | None, want: str) -> None:
    assert number(value) == want


def test_a_factor_of_ten_is_always_as_long() -> None:
    one, ten, hundred = (length(seconds, 100.0, 400.0) for seconds in (1.0, 10.0, 100.0))
    assert hundred == pytest.approx(400.0)
    assert ten - one == pytest.approx(hundred - ten)
    assert length(0.0, 100.0, 400.0) > 0


def test_the_picture_is_well_formed_and_shows_what_was_measured() -> None:
    drawn = picture([*measured(native=5.0, burst=1.0), *measured(stock=None)])
    tree = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    bars_drawn = [item for item in tree.iter(f"{space}rect") if item.get("x")]
    assert len(bars_drawn) == 2
    texts = [item.text for item in tree.iter(f"{space}text")]
    assert "native" in texts
    assert "stock" not in texts


def test_a_report_can_be_made_again_from_stored_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    file = tmp_path / "samples.jsonl"
    lines = [json.dumps({"load_average": 0.5}), json.dumps(asdict(sample(1.0)))]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")

    cluster.main(["--again", str(file)])

    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["bench"], told["host"]) == ("cluster", {"load_average": 0.5})
    assert told["rows"] == [row([sample(1.0)])]
    assert {"name", "want", "got", "ok"} == told["bars"][0].keys()
    assert (tmp_path / "results" / "cluster.svg").exists()


# ── what processes used ──


def test_ticks_are_read_behind_whatever_name_the_process_has() -> None:
    numbers = " ".join(str(at) for at in range(3, 53))
    assert used_ticks(f"12 (a) b (c) S {numbers}") == used_ticks(f"12 (plain) S {numbers}")
    assert used_ticks(f"12 (plain) S {numbers}") == 13 + 14


def test_a_machine_is_busy_when_it_neither_idles_nor_waits_for_a_disk() -> None:
    assert busy_ticks("cpu  1 20 300 4000 50000 600 7 8 900 900") == 1 + 20 + 300 + 600 + 7 + 8


def test_a_row_tells_the_worst_that_others_took() -> None:
    repeats = [sample(1.0, others_cpu=value) for value in (0.1, 0.7, 0.2)]
    assert row(repeats)["others_cpu"] == 0.7


def test_a_counter_is_summed_over_the_labels_that_were_not_asked_for() -> None:
    text = (
        'x_count{code="200",verb="filter"} 3\nx_count{code="500",verb="filter"} 1.0\n'
        'x_count{code="200",verb="bind"} 9\nx_count_more{verb="filter"} 100\n# x_count 1000\n'
    )
    assert counter(text, "x_count", verb="filter") == 4
    assert counter(text, "x_count") == 13
    assert counter(text, "y_count") == 0


def test_it_is_calm_once_little_is_used_in_a_whole_window() -> None:
    used = iter([0.0, 5.0, 9.0, 9.01])
    seconds = iter(range(100))
    assert calm(lambda: next(used), 0.1, 0.5, lambda: next(seconds), 60.0, lambda _: None)
    assert list(used) == []


def test_what_never_gets_calm_is_given_up() -> None:
    used = iter(range(1_000))
    seconds = iter(range(100))
    assert not calm(lambda: next(used), 0.1, 0.5, lambda: next(seconds), 9.0, lambda _: None)
