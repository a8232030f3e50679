"""Kubernetes' own groups and the scheduler-plugins project: what people already have."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode, dialects
from scheduler.model import Group, GroupKey, Options, Pod
from tests.builders import in_group, pod, pod_group
from tests.unit.dialects.reading import stated_gang

NATIVE = "PodGroup.scheduling.k8s.io"
CURRENT = "PodGroup.scheduling.x-k8s.io"
OLDER = "PodGroup.scheduling.sigs.k8s.io"
OLDEST = "pod-group.scheduling.sigs.k8s.io/"


def read(**changes: Any) -> Pod:
    return decode.pod(pod("t/A-0", **changes))


def group(obj: dict[str, Any]) -> Group:
    found = decode.group(obj)
    assert found is not None
    return found


def native(version: str, spec: Any) -> dict[str, Any]:
    return pod_group("t/A", min=1) | {"apiVersion": f"scheduling.k8s.io/{version}", "spec": spec}


# ── Native ──


def test_a_pod_names_its_native_group() -> None:
    found = read(**in_group("A"))
    assert found.declaration == stated_gang("A", "native", group=GroupKey(NATIVE, "t", "A"))
    assert found.fault == ""


def test_a_native_groups_name_may_be_as_long_as_any_objects() -> None:
    name = "train." + "x" * 240
    assert read(**in_group(name)).declaration == stated_gang(
        name, "native", group=GroupKey(NATIVE, "t", name)
    )


@pytest.mark.parametrize("name", ["", None, 3, "A/b", "a b", "x" * 254, "-a"])
def test_a_native_group_that_cannot_be_named_is_a_fault(name: Any) -> None:
    found = read(spec={"schedulingGroup": {"podGroupName": name}})
    assert found.declaration is None
    assert found.fault.startswith("spec.schedulingGroup.podGroupName: ")


@pytest.mark.parametrize("field", [{}, [], "A", True])
def test_a_scheduling_group_of_the_wrong_shape_is_a_fault(field: Any) -> None:
    assert read(spec={"schedulingGroup": field}).fault.startswith("spec.schedulingGroup")


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1", "v1"])
def test_every_version_of_the_native_group_says_the_same(version: str) -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "topo/rack"}]},
    }
    found = group(native(version, spec))
    assert found.key == GroupKey(NATIVE, "t", "A")
    assert (found.options, found.gang, found.fault) == (
        Options(min_available=4, required="topo/rack"),
        True,
        "",
    )


def test_a_basic_policy_is_no_gang() -> None:
    found = group(pod_group("t/A", kind="basic"))
    assert (found.gang, found.fault, found.options) == (False, "", Options())


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "spec.schedulingPolicy: has neither gang nor basic"),
        (None, "spec.schedulingPolicy: has neither gang nor basic"),
        ({"schedulingPolicy": {"future": {}}}, "spec.schedulingPolicy: has neither gang nor basic"),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: null"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount: 0"),
        ({"schedulingPolicy": {"gang": "4"}}, "spec.schedulingPolicy.gang.minCount: null"),
        (
            {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "schedulingConstraints": {"topology": [{"level": "rack"}]},
            },
            "spec.schedulingConstraints.topology[0].key: null",
        ),
    ],
)
def test_a_native_group_that_cannot_be_used_says_why(spec: Any, fault: str) -> None:
    assert group(native("v1beta1", spec)).fault.startswith(fault)


# ── scheduler-plugins ──


@pytest.mark.parametrize(("kind", "key"), [("coscheduling", CURRENT), ("sigs", OLDER)])
def test_a_label_names_the_pod_group(kind: str, key: str) -> None:
    found = read(**in_group("A", kind=kind))
    assert found.declaration == stated_gang("A", "coscheduling", group=GroupKey(key, "t", "A"))
    same = group(pod_group("t/A", min=3, kind=kind, timeout=120))
    assert same.key == GroupKey(key, "t", "A")
    assert same.options == Options(min_available=3, timeout=120.0)


def test_the_current_label_wins_over_the_older_ones() -> None:
    labels = {
        "scheduling.x-k8s.io/pod-group": "new",
        "pod-group.scheduling.sigs.k8s.io": "old",
        OLDEST + "name": "oldest",
    }
    assert read(labels=labels).declaration == stated_gang(
        "new", "coscheduling", group=GroupKey(CURRENT, "t", "new")
    )
    del labels["scheduling.x-k8s.io/pod-group"]
    assert read(labels=labels).declaration == stated_gang(
        "old", "coscheduling", group=GroupKey(OLDER, "t", "old")
    )


@pytest.mark.parametrize("prefix", [OLDEST, "pod-group.scheduling.x-k8s.io/"])
def test_the_oldest_labels_need_no_object(prefix: str) -> None:
    labels = {prefix + "name": "A", prefix + "min-available": "3"}
    assert read(labels=labels).declaration == stated_gang(
        "A", "coscheduling", Options(min_available=3)
    )
    assert read(labels={prefix + "name": "A"}).declaration == stated_gang("A", "coscheduling")


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        ({"scheduling.x-k8s.io/pod-group": ""}, "scheduling.x-k8s.io/pod-group: "),
        ({"pod-group.scheduling.sigs.k8s.io": "a b"}, "pod-group.scheduling.sigs.k8s.io: "),
        ({OLDEST + "name": ""}, OLDEST + "name: "),
        ({OLDEST + "name": "A", OLDEST + "min-available": "0"}, OLDEST + "min-available: "),
        ({OLDEST + "name": "A", OLDEST + "min-available": "x"}, OLDEST + "min-available: "),
    ],
)
def test_a_label_that_cannot_be_read_is_a_fault(labels: dict[str, str], fault: str) -> None:
    found = read(labels=labels)
    assert found.declaration is None
    assert found.fault.startswith(fault)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"minMember": 0}, "spec.minMember: 0 is not"),
        ({"minMember": "three"}, 'spec.minMember: "three" is not'),
        ({"scheduleTimeoutSeconds": 0}, "spec.scheduleTimeoutSeconds: 0 is not"),
        ({"scheduleTimeoutSeconds": -1}, "spec.scheduleTimeoutSeconds: -1 is not"),
        ({"scheduleTimeoutSeconds": 10**9}, "spec.scheduleTimeoutSeconds: 1000000000 is not"),
        ({"scheduleTimeoutSeconds": 10**40}, "spec.scheduleTimeoutSeconds: a huge number is not"),
    ],
)
def test_a_pod_group_that_cannot_be_used_says_why(spec: Any, fault: str) -> None:
    assert group(pod_group("t/A", kind="coscheduling") | {"spec": spec}).fault.startswith(fault)


@pytest.mark.parametrize("spec", [None, {}, {"minMember": None}])
def test_a_pod_group_may_leave_the_minimum_open(spec: Any) -> None:
    found = group(pod_group("t/A", kind="coscheduling") | {"spec": spec})
    assert (found.options, found.fault) == (Options(), "")


# ── Objects in general ──


@pytest.mark.parametrize(
    "obj",
    [
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"},
        {"apiVersion": "example.org/v1", "kind": "PodGroup"},
        {"kind": "PodGroup"},
        {"apiVersion": 3, "kind": ["PodGroup"]},
        {},
    ],
)
def test_other_kinds_are_no_groups(obj: dict[str, Any]) -> None:
    assert decode.group({"metadata": {"name": "A"}, **obj}) is None


def test_a_group_without_a_name_is_none() -> None:
    assert decode.group(pod_group("t/A", min=1) | {"metadata": {}}) is None
    assert decode.group(None) is None  # type: ignore[arg-type]


def test_a_group_without_namespace_and_uid_gets_both() -> None:
    found = group(pod_group("t/A", min=1) | {"metadata": {"name": "A"}})
    assert (found.key.namespace, found.uid) == ("default", "default/A")


def test_precedence_is_native_before_labels() -> None:
    found = read(**in_group("A"), labels={"scheduling.x-k8s.io/pod-group": "B"})
    assert found.declaration is not None
    assert (found.declaration.dialect, found.declaration.name) == ("native", "A")


def test_a_fault_in_the_dialect_that_counts_is_not_papered_over_by_another() -> None:
    found = read(**in_group("A b"), labels={"scheduling.x-k8s.io/pod-group": "B"})
    assert found.declaration is None
    assert found.fault


def test_every_dialect_has_its_own_name_and_kinds() -> None:
    names = [dialect.NAME for dialect in dialects.DIALECTS]
    kinds = [kind for dialect in dialects.DIALECTS for kind in dialect.KINDS]
    assert len(set(names)) == len(names)
    assert len(set(kinds)) == len(kinds)


def test_a_workload_of_1_35_is_held_until_a_gang_is_named() -> None:
    ref = {"workloadRef": {"name": "w", "podGroup": "workers"}}
    pod = read(spec=ref)
    assert pod.fault.startswith("spec.workloadRef: ")
    assert "muster.scheduler/gang" in pod.fault
    named = read(gang="A", min=2, spec=ref)
    assert (named.fault, named.declaration and named.declaration.name) == ("", "A")
