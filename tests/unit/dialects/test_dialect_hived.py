"""HiveD's YAML annotation."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import Options
from tests.unit.dialects.controller_pods import hived
from tests.unit.dialects.reading import annotated, declared, fault, read, stated_gang

SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"


def test_an_affinity_group_is_a_gang() -> None:
    found = declared(hived("a", "team/job1", [(1, 8), (3, 4)]))
    assert found == stated_gang("team.job1", "hived", Options(min_available=4, size=4))


def test_a_pod_without_a_group_is_alone() -> None:
    found = read(hived("a", None, []))
    assert (found.declaration, found.fault) == (None, "")


BOMB = "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b,*b]"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a: [",
        "- x",
        BOMB,
        "{" * 9_000,
        "x" * 20_000,
        "affinityGroup: {name: ''}",
        "affinityGroup: {name: a, members: [{podNumber: 0}]}",
        "affinityGroup: {name: a, members: [{podNumber: many}]}",
        "affinityGroup: x",
        "affinityGroup: {name: 2020-01-01}",
        "? [a]\n: b",
        "!!python/object/apply:os.system [ls]",
        "x: 2020-99-99",
        "\x00",
    ],
    ids=lambda value: value[:30],
)
def test_what_cannot_be_read_is_a_fault(value: Any) -> None:
    assert fault(annotated(hived("a", "g", [(1, 1)]), {SPEC: value})).startswith(SPEC)
