"""Koordinator's annotations, on pods and on the PodGroup of the scheduler-plugins project."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.model import GroupKey, Options
from tests.builders import pod_group
from tests.unit.dialects.controller_pods import koordinator
from tests.unit.dialects.reading import (
    annotated,
    declared,
    fault,
    labelled,
    read,
    stated_gang,
    terms,
)

PREFIX = "gang.scheduling.koordinator.sh/"
CURRENT = "scheduling.x-k8s.io/pod-group"
OLDER = "pod-group.scheduling.sigs.k8s.io"


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({}, Options()),
        ({"min_available": "3"}, Options(min_available=3)),
        ({"min_available": "3", "total_number": "5"}, Options(min_available=3, size=5)),
        ({"min_available": "3", "total_number": "2"}, Options(min_available=3, size=3)),
        ({"min_available": "3", "total_number": "0"}, Options(min_available=3)),
        ({"waiting_time": "10m0s"}, Options(timeout=600.0)),
        ({"mode": "Strict"}, Options()),
        ({"mode": "NonStrict", "match_policy": "once-satisfied"}, Options()),
        ({"match_policy": "only-waiting"}, Options()),
        ({"match_policy": "waiting-and-running"}, Options()),
        (
            {"groups": '["t/B","t/A"]'},
            Options(partners=(("t", "A"), ("t", "B"))),
        ),
        ({"groups": "[]"}, Options()),
        # Itself is among its partners, whether it says so or not.
        ({"groups": '["u/B"]'}, Options(partners=(("t", "A"), ("u", "B")))),
    ],
    ids=str,
)
def test_a_gang_by_annotations_needs_no_object(keys: dict[str, str], options: Options) -> None:
    assert declared(koordinator("A-0", **keys)) == stated_gang("A", "koordinator", options)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", ""),
        ("name", "a b"),
        ("min-available", "0"),
        ("min-available", "many"),
        ("total-number", "-1"),
        ("waiting-time", "-5s"),
        ("waiting-time", "soon"),
        ("mode", "strict"),
        ("match-policy", "sometimes"),
        ("groups", "t/A"),
        ("groups", '["A"]'),
        ("groups", '["t/A/B"]'),
        ("groups", "[1]"),
        ("groups", json.dumps([f"t/g{at}" for at in range(65)])),
        ("groups", "[" * 30_000),
        ("network-topology-spec", "{"),
        ("network-topology-spec", '{"gatherStrategy":[{"layer":"rackLayer"}]}'),
        ("network-topology-spec", '{"gatherStrategy":[{"strategy":"MustGather"}]}'),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str) -> None:
    assert fault(annotated(koordinator("A-0"), {PREFIX + key: value})).startswith(PREFIX + key)


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        (CURRENT, "PodGroup.scheduling.x-k8s.io"),
        (OLDER, "PodGroup.scheduling.sigs.k8s.io"),
    ],
)
def test_a_label_names_the_gang_before_the_annotation(label: str, kind: str) -> None:
    pod = labelled(koordinator("A-0", min_available="3"), {label: "B"})
    assert declared(pod) == stated_gang(
        "B", "koordinator", Options(min_available=3), GroupKey(kind, "t", "B")
    )


def test_the_annotation_wins_over_the_label_with_the_minimum() -> None:
    oldest = {OLDER + "/name": "B", OLDER + "/min-available": "2"}
    pod = annotated(labelled(koordinator("A-0"), oldest), {PREFIX + "min-available": "3"})
    assert declared(pod) == stated_gang("B", "koordinator", Options(min_available=3))


def test_a_label_alone_stays_with_the_scheduler_plugins_project() -> None:
    bare = annotated(labelled(koordinator("A-0"), {CURRENT: "B"}), {PREFIX + "name": None})
    assert declared(bare).dialect == "coscheduling"


def test_a_stray_annotation_without_any_name_declares_nothing() -> None:
    stray = annotated(koordinator("A-0", min_available="3"), {PREFIX + "name": None})
    found = read(stray)
    assert (found.declaration, found.fault) == (None, "")


@pytest.mark.parametrize("kind", ["coscheduling", "sigs"])
def test_the_annotations_of_a_pod_group_count_too(kind: str) -> None:
    keys = {
        PREFIX + "total-number": "4",
        PREFIX + "groups": '["t/B"]',
        PREFIX + "mode": "NonStrict",
        PREFIX + "waiting-time": "30s",
    }
    found = terms(pod_group("t/A", min=3, kind=kind, annotations=keys))
    assert found == Options(
        min_available=3, size=4, timeout=30.0, partners=(("t", "A"), ("t", "B"))
    )


def test_a_bad_annotation_of_a_pod_group_is_its_fault() -> None:
    obj: dict[str, Any] = pod_group("t/A", min=3, kind="sigs", annotations={PREFIX + "mode": "no"})
    from scheduler import decode

    found = decode.group(obj)
    assert found is not None
    assert found.fault.startswith(f"{PREFIX}mode: ")


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("{}", Options()),
        (
            '{"gatherStrategy":[{"layer":"spineLayer","strategy":"PreferGather"},'
            '{"layer":"rackLayer","strategy":"MustGather"}]}',
            Options(required="rack", preferred="spine"),
        ),
        (
            '{"gatherStrategy":[{"layer":"blockLayer","strategy":"MustGather"},'
            '{"layer":"rackLayer","strategy":"PreferGather","podCountMultiple":2}]}',
            Options(required="block", preferred="rack", segment_size=2, segment_level="rack"),
        ),
        (
            '{"gatherStrategy":[{"layer":"topo/rack","strategy":"MustGather"}]}',
            Options(required="topo/rack"),
        ),
        (
            '{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"},'
            '{"layer":"SpineLayer","strategy":"MustGather"}]}',
            Options(required="block"),
        ),
        (
            '{"gatherStrategy":[{"layer":"AcceleratorLayer","strategy":"PreferGather"},'
            '{"layer":"BlockLayer","strategy":"PreferGather"},'
            '{"layer":"SpineLayer","strategy":"MustGather"}]}',
            Options(required="spine", preferred="accelerator"),
        ),
    ],
)
def test_gathering_is_a_required_or_preferred_level(spec: str, options: Options) -> None:
    pod = annotated(koordinator("A-0"), {PREFIX + "network-topology-spec": spec})
    assert declared(pod).options == options


def test_the_index_is_a_rank() -> None:
    pod = annotated(koordinator("A-0"), {PREFIX + "network-topology-index": "3"})
    assert read(pod).index == 3


def test_two_layers_that_must_be_shared_have_to_be_known() -> None:
    rules = [{"layer": layer, "strategy": "MustGather"} for layer in ("BlockLayer", "corp/hall")]
    stated = {PREFIX + "network-topology-spec": json.dumps({"gatherStrategy": rules})}
    assert "corp/hall is not known" in fault(annotated(koordinator("A-0"), stated))
