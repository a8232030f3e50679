"""A pod that was read before is read again from what has changed, with the same result."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode, dialects
from scheduler.errors import DecodeError
from scheduler.model import Pod
from scheduler.settings import BIND_ANNOTATIONS
from tests.unit.decode.test_decode_hostile import paths, rich_pod, values, with_value

Json = dict[str, Any]

HINT = "muster.scheduler/hint"


def written(obj: Any) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def fresh(obj: Any) -> Pod | None:
    try:
        return decode.pod_bytes(written(obj))
    except DecodeError:
        return None


def again(obj: Any, before: Pod | None) -> Pod | None:
    try:
        return decode.pod_bytes(written(obj), before)
    except DecodeError:
        return None


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry for each time that the dialects looked at a pod."""
    seen: list[Any] = []
    real = dialects.declaration

    def counted(source: Any) -> Any:
        seen.append(source)
        return real(source)

    monkeypatch.setattr(dialects, "declaration", counted)
    return seen


def bound(pod: Json) -> None:
    pod["spec"]["nodeName"] = "n7"
    pod["metadata"]["annotations"][HINT] = '{"v":1}'
    for key, _, value in (text.partition("=") for text in BIND_ANNOTATIONS):
        pod["metadata"]["annotations"][key] = value
    pod["status"].pop("nominatedNodeName", None)


def condition(pod: Json) -> None:
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "wait"}]
    pod["metadata"]["resourceVersion"] = "8"
    pod["metadata"]["managedFields"] = []


def running(pod: Json) -> None:
    pod["status"] |= {"phase": "Running", "startTime": "2026-01-05T08:00:01Z"}
    for one in pod["status"]["containerStatuses"]:
        one["state"] = {"running": {}}
        one["restartCount"] = 1


def deleting(pod: Json) -> None:
    pod["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z"


def failed(pod: Json) -> None:
    pod["status"] |= {"phase": "Failed", "reason": "OutOfcpu"}


def woken(pod: Json) -> None:
    pod["metadata"]["annotations"]["muster.scheduler/woken"] = "3"


@pytest.mark.parametrize("change", [bound, condition, running, deleting, failed, woken])
def test_what_passes_is_read_without_the_dialects(
    change: Callable[[Json], None], readings: list[Any]
) -> None:
    obj = rich_pod()
    before = fresh(obj)
    change(obj)
    wanted = fresh(obj)
    readings.clear()
    assert again(obj, before) == wanted
    assert readings == []


def test_nothing_that_is_read_has_changed(readings: list[Any]) -> None:
    obj = rich_pod()
    before = fresh(obj)
    condition(obj)
    assert again(obj, before) is before


def gang(pod: Json) -> None:
    pod["metadata"]["annotations"]["muster.scheduler/gang"] = "B"


def gates(pod: Json) -> None:
    del pod["spec"]["schedulingGates"]


def resized(pod: Json) -> None:
    pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"] = "77"


def impossible(pod: Json) -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod["status"]["conditions"] = [pending]


def larger(pod: Json) -> None:
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"


def owned(pod: Json) -> None:
    pod["metadata"]["ownerReferences"][0]["uid"] = "u2"


def another(pod: Json) -> None:
    pod["metadata"]["uid"] = "another"


@pytest.mark.parametrize(
    ("change", "looks"),
    [(resized, 0), (impossible, 0), (gang, 1), (gates, 1), (larger, 1), (owned, 1), (another, 1)],
)
def test_what_decides_is_read_anew(
    change: Callable[[Json], None], looks: int, readings: list[Any]
) -> None:
    obj = rich_pod()
    del obj["spec"]["resources"]
    obj["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "5"}
    del obj["status"]["initContainerStatuses"]
    obj["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "2"}}
    before = fresh(obj)
    change(obj)
    wanted = fresh(obj)
    readings.clear()
    assert again(obj, before) == wanted != before
    assert len(readings) == looks


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1, "2": 3}, {"a1": 23}),
        ({"a": 1, "b": 23}, {"a": 12, "b": 3}),
        ({"a": "x"}, {"b": "x"}),
        ({"a": "x"}, {"a": "y"}),
        ({"a": None}, {}),
    ],
)
def test_annotations_that_are_not_the_same_are_not_taken_for_it(first: Json, second: Json) -> None:
    """Also those whose parts would run together to the same text."""
    one, two = rich_pod(), rich_pod()
    one["metadata"]["annotations"] |= first
    two["metadata"]["annotations"] |= second
    found, other = fresh(one), fresh(two)
    assert found is not None
    assert other is not None
    assert found.digest != other.digest


@pytest.mark.parametrize("obj", [{"metadata": {"name": "x"}, "spec": [1]}, {"metadata": []}, [], 3])
def test_an_object_of_another_shape_is_read_as_a_whole(obj: Any) -> None:
    assert again(obj, fresh(rich_pod())) == fresh(obj)


PLACES = paths(rich_pod())


@settings(max_examples=300)
@given(st.data())
def test_reading_again_is_reading(data: st.DataObject) -> None:
    """Any edits of any fields, one after the other: both readings are equal after each."""
    obj = rich_pod()
    before = fresh(obj)
    edits: list[Callable[[Json], None]] = [
        bound,
        condition,
        running,
        deleting,
        failed,
        woken,
        gates,
    ]
    for _ in range(data.draw(st.integers(1, 6))):
        changed = copy.deepcopy(obj)
        if data.draw(st.booleans()):
            try:
                data.draw(st.sampled_from(edits))(changed)
            except (TypeError, KeyError, AttributeError, ValueError, IndexError):
                continue
        else:
            place = data.draw(st.sampled_from(PLACES))
            try:
                changed = with_value(obj, place, data.draw(values))
            except (TypeError, KeyError, AttributeError, ValueError, IndexError):
                continue
        obj = changed
        found, wanted = again(obj, before), fresh(obj)
        assert found == wanted
        assert (found and found.digest) == (wanted and wanted.digest)
        before = found if found is not None else before
