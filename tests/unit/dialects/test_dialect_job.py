"""Kubernetes' own Jobs: which are gangs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import GroupKey, Options
from tests.builders import OURS
from tests.unit.dialects.controller_pods import env, job, job_pod
from tests.unit.dialects.reading import (
    annotated,
    declared,
    fault,
    group,
    labelled,
    read,
    stated_gang,
    terms,
)

KEY = GroupKey("Job.batch", "t", "train")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def test_a_pod_has_its_job_read() -> None:
    found = read(job_pod("train", 3))
    assert found.declaration == stated_gang("train", "job", group=KEY)
    assert found.index == 3


@pytest.mark.parametrize(
    ("made", "gang"),
    [
        (job(4, 4), Options(min_available=4, size=4)),
        (job(4, 8), None),
        (job(8, 4), None),
        (job(1, 1), None),
        (job(4, 4, "NonIndexed"), None),
        (job(4, None, "NonIndexed"), None),
        (job(4, None), None),
        (job(0, 0), None),
        (job(4, 8, "NonIndexed", annotations={MIN_MEMBER: "4"}), Options(min_available=4)),
        (
            job(4, 8, annotations={OURS + "min-available": "4"}),
            Options(min_available=4),
        ),
    ],
)
def test_only_an_indexed_job_that_runs_whole_is_a_gang(made: Any, gang: Options | None) -> None:
    found = group(made)
    assert (found.key, found.fault) == (KEY, "")
    assert found.gang is (gang is not None)
    assert found.options == (gang or Options())


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (job(4, 4) | {"spec": {"parallelism": "x"}}, "spec.parallelism: "),
        (job(4, 4) | {"spec": {"completions": -1}}, "spec.completions: "),
        (job(4, 4, annotations={MIN_MEMBER: "x"}), MIN_MEMBER),
        (job(4, 4, annotations={OURS + "min-available": "x"}), OURS + "min-available"),
    ],
)
def test_a_job_that_cannot_be_used_says_where(made: Any, path: str) -> None:
    assert group(made).fault.startswith(path)


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        (env(PET_NNODES=4), Options(min_available=4, size=4)),
        (env(PET_NNODES="2:4"), Options(min_available=2)),
        (env(WORLD_SIZE=4), Options(min_available=4, size=4)),
    ],
)
def test_the_environment_makes_any_job_a_gang(variables: Any, options: Options) -> None:
    assert declared(job_pod("train", 0, variables=variables)) == stated_gang(
        "train", "job", options
    )


def test_jobs_of_one_node_each_are_no_gang() -> None:
    found = read(job_pod("train", 0, variables=env(PET_NNODES=1)))
    assert (found.declaration, found.fault) == (None, "")


def test_a_minimum_by_our_own_keys_spares_the_look_at_the_job() -> None:
    stated = annotated(job_pod("train", 0), {OURS + "min-available": "3"})
    assert declared(stated) == stated_gang("train", "job", Options(min_available=3))
    other = annotated(job_pod("train", 0), {OURS + "timeout": "30s"})
    assert declared(other).group == KEY


@pytest.mark.parametrize("value", ["", "a b"])
def test_a_name_that_cannot_be_read_is_named(value: str) -> None:
    key = "batch.kubernetes.io/job-name"
    assert fault(labelled(job_pod("train", 0), {key: value})).startswith(key)


def test_terms_need_no_faults() -> None:
    assert terms(job(4, 4)).min_available == 4
