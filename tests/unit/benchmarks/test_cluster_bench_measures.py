"""From the times of pods to what the cluster benchmark reports of a gang."""

from __future__ import annotations

import math

import pytest

from benchmarks.cluster_measures import (
    GangTimes,
    Member,
    largest,
    middle,
    percentile,
)


def gang(*times: tuple[float, float | None], until: float = 100.0) -> GangTimes:
    return GangTimes([Member(created, bound) for created, bound in times], until)


def test_a_gang_is_timed_from_its_last_pod_created_to_its_last_pod_bound() -> None:
    assert gang((1.0, 4.0), (3.0, 3.5), (2.0, 4.5)).complete_to_bound_s == 1.5


def test_a_gang_with_a_member_that_was_never_bound_takes_for_ever() -> None:
    assert gang((1.0, 4.0), (1.0, None)).complete_to_bound_s == math.inf


def test_a_watch_that_tells_creation_and_binding_at_once_gives_no_negative_time() -> None:
    assert gang((1.0, 1.0), (2.0, 1.5)).complete_to_bound_s == 0.0


def test_bound_members_wait_for_the_last_one() -> None:
    assert gang((0.0, 1.0), (0.0, 2.0), (0.0, 4.0)).partial_pod_s() == pytest.approx(3.0 + 2.0)


def test_bound_members_of_half_a_gang_wait_until_the_end_of_the_measurement() -> None:
    assert gang((0.0, 90.0), (0.0, 95.0), (0.0, None)).partial_pod_s() == pytest.approx(10 + 5)


def test_a_swift_start_leaves_nothing_that_it_does_not_explain() -> None:
    assert gang((0.0, 1.0), (0.5, 1.4), (0.9, 1.9)).beyond_pod_s(pause_s=1.0) == 0.0


def test_members_bound_before_the_gang_exists_are_beyond_a_start() -> None:
    assert gang((0.0, 1.0), (0.0, 2.0), (4.0, 4.5)).beyond_pod_s(pause_s=5.0) == 3.0 + 2.0


def test_a_long_pause_counts_for_all_that_are_bound_by_then() -> None:
    stalled = gang((0.0, 1.0), (0.0, 1.5), (0.0, 5.5))
    assert stalled.beyond_pod_s(pause_s=1.0) == pytest.approx(2 * 4.0)


def test_a_pause_before_the_gang_exists_is_counted_once() -> None:
    early = gang((0.0, 1.0), (8.0, 8.5))
    assert early.beyond_pod_s(pause_s=1.0) == pytest.approx(7.0)


def test_a_member_that_is_missing_for_ever_is_a_pause() -> None:
    assert gang((0.0, 1.0), (0.0, None), until=11.0).beyond_pod_s() == pytest.approx(10.0)


def test_what_is_beyond_is_never_more_than_what_is_partial() -> None:
    found = gang((0.0, 1.0), (3.0, 2.5), (0.0, 9.0), (1.0, 9.1))
    assert 0 < found.beyond_pod_s() <= found.partial_pod_s()


@pytest.mark.parametrize(
    ("values", "want"),
    [([], None), ([3.0], 3.0), ([1.0, 2.0, 4.0], 2.0), ([1.0, 3.0], 2.0), ([1.0, math.inf], None)],
)
def test_the_median_of_what_is_finite(values: list[float], want: float | None) -> None:
    assert middle(values) == want


def test_the_worst_of_gangs_of_which_one_never_started_is_not_a_number() -> None:
    assert largest([1.0, 5.0]) == 5.0
    assert largest([1.0, math.inf]) is None
    assert largest([]) is None


def test_a_percentile_is_one_of_the_values() -> None:
    hundred = [float(value) for value in range(1, 101)]
    assert percentile(hundred, 0.99) == 99.0
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([], 0.5) is None
