"""LeaderWorkerSet: one gang a group."""

from __future__ import annotations

import pytest

from scheduler.model import GroupKey, Options
from tests.unit.dialects.controller_pods import env, lws, lws_set
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

PREFIX = "leaderworkerset.sigs.k8s.io/"
KEY = GroupKey("LeaderWorkerSet.leaderworkerset.x-k8s.io", "t", "serve")
VOLCANO = "scheduling.k8s.io/group-name"


def test_a_group_is_a_gang_of_its_size_with_a_leader() -> None:
    leader, worker = read(lws(0, 4, group=2)), read(lws(3, 4, group=2))
    assert leader.declaration == stated_gang(
        "serve-2", "leaderworkerset", Options(min_available=4, size=4, role="leader"), KEY
    )
    assert worker.declaration is not None
    assert worker.declaration.options == Options(min_available=4, size=4, role="worker")
    assert (leader.index, worker.index) == (0, 3)


def test_the_size_wins_over_the_environment() -> None:
    assert declared(lws(0, 4, variables=env(PET_NNODES=2))).options.min_available == 4


def test_with_an_exclusive_topology_the_leader_comes_first_and_all_share_a_domain() -> None:
    keys = {PREFIX + "exclusive-topology": "topo/rack"}
    assert declared(annotated(lws(0, 4), keys)).options == Options(
        min_available=4, size=4, role="leader", required="topo/rack", first=1
    )
    assert declared(annotated(lws(0, 1), keys)).options.first is None


def test_subgroups_are_segments() -> None:
    keys = {PREFIX + "subgroup-size": "2", PREFIX + "subgroup-exclusive-topology": "topo/rack"}
    found = declared(annotated(lws(0, 4), keys)).options
    assert (found.segment_size, found.segment_level) == (2, "topo/rack")


@pytest.mark.parametrize(
    ("size", "keys"),
    [
        (4, {"subgroup-size": "2"}),
        # The first subgroup has the leader and two more here: no segment is of three and of two.
        (5, {"subgroup-size": "2", "subgroup-exclusive-topology": "topo/rack"}),
        (
            5,
            {
                "subgroup-size": "2",
                "subgroup-exclusive-topology": "topo/rack",
                "subgroup-policy-type": "LeaderExcluded",
            },
        ),
    ],
    ids=["sharing nothing", "leader beside", "leader excluded"],
)
def test_subgroups_that_are_no_segments_ask_for_nothing(size: int, keys: dict[str, str]) -> None:
    stated = {PREFIX + key: value for key, value in keys.items()}
    found = declared(annotated(lws(0, size), stated)).options
    assert found == Options(min_available=size, size=size, role="leader")


@pytest.mark.parametrize(
    ("size", "policy", "first"),
    [(4, "LeaderCreated", None), (4, "LeaderReady", 1), (1, "LeaderReady", None)],
)
def test_the_set_tells_whether_workers_wait_for_the_leader(
    size: int, policy: str, first: int | None
) -> None:
    found = group(lws_set(size, policy))
    assert found.key == KEY
    assert found.options == Options(min_available=size, size=size, first=first)


def test_a_set_without_a_size_has_groups_of_one() -> None:
    obj = lws_set(1)
    obj["spec"]["leaderWorkerTemplate"] = {}
    assert terms(obj).min_available == 1


def test_a_set_that_cannot_be_used_says_where() -> None:
    obj = lws_set(1)
    obj["spec"]["leaderWorkerTemplate"] = {"size": 0}
    assert group(obj).fault.startswith("spec.leaderWorkerTemplate.size: ")


def test_the_pod_group_that_it_makes_for_volcano_says_less_than_the_pods() -> None:
    made = annotated(lws(0, 4), {VOLCANO: "serve-0-6f4c9f6b5b"})
    assert declared(made).dialect == "leaderworkerset"
    own = annotated(lws(0, 4), {VOLCANO: "mine"})
    assert declared(own).dialect == "volcano"


@pytest.mark.parametrize(
    ("key", "value"),
    [("name", ""), ("name", "a b"), ("group-index", None), ("group-index", "x")],
)
def test_a_label_that_cannot_be_read_is_named(key: str, value: str | None) -> None:
    assert fault(labelled(lws(0, 4), {PREFIX + key: value})).startswith(PREFIX + key)


@pytest.mark.parametrize(
    ("key", "value"), [("size", "x"), ("size", "0"), ("exclusive-topology", "a b")]
)
def test_an_annotation_that_cannot_be_read_is_named(key: str, value: str) -> None:
    assert fault(annotated(lws(0, 4), {PREFIX + key: value})).startswith(PREFIX + key)
