"""YuniKorn: task groups of an application."""

from __future__ import annotations

import pytest

from scheduler.model import Options
from tests.unit.dialects.controller_pods import yunikorn
from tests.unit.dialects.reading import annotated, declared, fault, labelled, read, stated_gang

PREFIX = "yunikorn.apache.org/"
TWO = {"master": 1, "worker": 3}
ROLES = (("master", 1), ("worker", 3))


@pytest.mark.parametrize(
    ("task", "groups", "options"),
    [
        ("worker", TWO, Options(min_available=4, role="worker", role_min=ROLES)),
        # Only the first pod defines the groups; the others name theirs.
        ("worker", None, Options(role="worker")),
        (None, TWO, Options(min_available=4, role_min=ROLES)),
        ("w", {"w": 0}, Options(role="w", role_min=(("w", 0),))),
    ],
    ids=str,
)
def test_task_groups_are_roles(
    task: str | None, groups: dict[str, int] | None, options: Options
) -> None:
    assert declared(yunikorn("a", task, groups)) == stated_gang("app-0001", "yunikorn", options)


def test_an_application_without_task_groups_is_no_gang() -> None:
    found = read(yunikorn("a", None))
    assert (found.declaration, found.fault) == (None, "")


@pytest.mark.parametrize("key", [PREFIX + "app-id", "applicationId", "spark-app-selector"])
def test_every_spelling_of_the_application(key: str) -> None:
    bare = labelled(yunikorn("a", "w"), {"applicationId": None, key: "app-7"})
    assert declared(bare).name == "app-7"


def test_the_application_may_be_an_annotation() -> None:
    pod = annotated(yunikorn("a", "w"), {PREFIX + "app-id": "app-8"})
    assert declared(pod).name == "app-8"


def test_a_placeholders_timeout_is_the_deadline_of_a_reservation() -> None:
    key = PREFIX + "schedulingPolicyParameters"
    said = "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard"
    assert declared(annotated(yunikorn("a", "w"), {key: said})).options.timeout == 30.0
    hard = annotated(yunikorn("a", "w"), {key: "gangSchedulingStyle=Hard"})
    assert declared(hard).options.timeout is None


def test_a_spark_driver_comes_before_the_executors_that_it_makes() -> None:
    groups = {"spark-driver": 1, "spark-executor": 4}
    driver = yunikorn("d", "spark-driver", groups, labels={"spark-role": "driver"})
    assert declared(driver).options.first == 1
    executor = yunikorn("e", "spark-executor", groups, labels={"spark-role": "executor"})
    assert declared(executor).options.first is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task-group-name", ""),
        ("task-groups", ""),
        ("task-groups", "{}"),
        ("task-groups", "[]"),
        ("task-groups", '[{"name":"w"}]'),
        ("task-groups", '[{"name":"w","minMember":-1}]'),
        ("task-groups", '[{"name":"w","minMember":1},{"name":"w","minMember":2}]'),
        ("task-groups", "[" * 20_000),
        ("schedulingPolicyParameters", "placeholderTimeoutInSeconds=soon"),
        ("app-id", "a b"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: str) -> None:
    assert fault(annotated(yunikorn("a", "w"), {PREFIX + key: value})).startswith(PREFIX + key)
