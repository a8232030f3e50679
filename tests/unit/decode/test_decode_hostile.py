"""Whatever an object holds, decoding it never raises and never changes another object's reading."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode
from scheduler.decode import wire
from scheduler.errors import DecodeError
from scheduler.model import Node, Pod
from tests import builders

SLOW = settings(max_examples=400)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "1", "-1", "Always", "Exists", "1e999999999", "x" * 300]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def rich_pod() -> dict[str, Any]:
    """A pod with something in every field that is read."""
    term = {
        "labelSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
        },
        "namespaces": ["x"],
        "topologyKey": "topo/rack",
    }
    terms = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
        ]
    }
    side = {
        "name": "side",
        "restartPolicy": "Always",
        "ports": [{"hostPort": 7}],
        "resources": {"limits": {"cpu": "1"}},
    }
    obj = builders.pod(
        "t/A-0",
        gpu=4,
        gang="A",
        min=3,
        size=4,
        role="worker",
        index=1,
        gates=["g"],
        priority=3,
        owner=("Job", "j", "u"),
        labels={"app": "train"},
        annotations={"muster.scheduler/hint": "{}"},
        options={"role-min": '{"worker": 2}', "timeout": "90s", "topology-required": "rack"},
        spec={
            "nodeSelector": {"a": "b"},
            "affinity": {
                "nodeAffinity": {REQUIRED: terms},
                "podAntiAffinity": {REQUIRED: [term]},
            },
            "initContainers": [side],
            "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "9"}, "limits": {"memory": "9Gi"}},
            "schedulingGroup": {"podGroupName": "A"},
            "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        status={
            "nominatedNodeName": "n1",
            "startTime": "2026-01-05T08:00:00Z",
            "reason": "OutOfcpu",
            "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "2"}}],
            "initContainerStatuses": [{"name": "side", "resources": {"requests": {"cpu": "2"}}}],
        },
    )
    obj["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    return obj


def rich_node() -> dict[str, Any]:
    return builders.node(
        "n1",
        gpu=8,
        rack="r1",
        block="b1",
        taints=["k=v:NoSchedule"],
        annotations={"muster.scheduler/gpu-topology": "{}"},
    )


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, its root apart."""
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return []
    return [place for key, item in inner for place in [(*at, key), *paths(item, (*at, key))]]


def with_value(obj: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(obj)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def outcome(read: Callable[[Any], Pod | Node], what: Any) -> Pod | Node | str:
    try:
        return read(what)
    except DecodeError:
        return "no object with a name"


def test_the_rich_pod_is_read_without_a_fault() -> None:
    pod = decode.pod(rich_pod())
    assert pod.fault == ""
    assert pod.anti_affinity
    assert pod.constraints.terms
    assert pod.requests["cpu"] == 9250


WRONG: list[Any] = [None, 3, "x", True, [], {}, [None], {"x": None}]


@pytest.mark.parametrize("path", paths(rich_pod()), ids=str)
def test_any_one_field_of_a_pod_may_be_anything(path: tuple[Any, ...]) -> None:
    for value in WRONG:
        obj = with_value(rich_pod(), path, value)
        found = outcome(decode.pod, obj)
        still_named = path != ("metadata",) and (path != ("metadata", "name") or value == "x")
        assert isinstance(found, Pod) == still_named
        assert found == outcome(decode.pod_bytes, json.dumps(obj).encode())


@pytest.mark.parametrize("path", paths(rich_node()), ids=str)
def test_any_one_field_of_a_node_may_be_anything(path: tuple[Any, ...]) -> None:
    for value in WRONG:
        obj = with_value(rich_node(), path, value)
        found = outcome(decode.node, obj)
        assert found == outcome(decode.node_bytes, json.dumps(obj).encode())


@SLOW
@given(st.data())
def test_many_fields_of_a_pod_may_be_anything_at_once(data: st.DataObject) -> None:
    obj = rich_pod()
    for _ in range(data.draw(st.integers(1, 5))):
        path = data.draw(st.sampled_from(paths(obj)))
        obj = with_value(obj, path, data.draw(values))
    found = outcome(decode.pod, obj)
    if isinstance(found, Pod):
        hash(found.constraints)
        assert len(found.fault.encode()) < 1000
        assert all(type(units) is int and units > 0 for units in found.requests.values())
    assert found == outcome(decode.pod_bytes, json.dumps(obj).encode())


@SLOW
@given(st.data())
def test_many_fields_of_a_node_may_be_anything_at_once(data: st.DataObject) -> None:
    obj = rich_node()
    for _ in range(data.draw(st.integers(1, 5))):
        path = data.draw(st.sampled_from(paths(obj)))
        obj = with_value(obj, path, data.draw(values))
    found = outcome(decode.node, obj)
    if isinstance(found, Node):
        assert all(type(units) is int and units >= 0 for units in found.allocatable.values())
    assert found == outcome(decode.node_bytes, json.dumps(obj).encode())


@SLOW
@given(values)
def test_anything_at_all_is_an_object_or_a_clear_error(value: Any) -> None:
    outcome(decode.pod, value)
    outcome(decode.node, value)
    assert decode.group(value) is None


@pytest.mark.parametrize("read", [decode.pod_bytes, decode.node_bytes])
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"pod"',
        b"\xff\xfe",
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"p"}',
        b'{"metadata":{"name":NaN}}',
        b"[" * 1_000_000,
        b'{"metadata":{"name":"p"},"spec":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    ],
    ids=lambda raw: repr(raw[:20]) if isinstance(raw, bytes) else raw.__name__,
)
def test_bytes_that_are_no_object_are_an_error(read: Callable[[bytes], Any], raw: bytes) -> None:
    with pytest.raises(DecodeError):
        read(raw)


def test_a_megabyte_in_any_value_is_read_or_refused_in_a_few_words() -> None:
    big = "x" * 1_000_000
    obj = rich_pod()
    for path in paths(rich_pod()):
        changed = with_value(obj, path, big)
        found = outcome(decode.pod, changed)
        if isinstance(found, Pod):
            assert len(found.fault) < 1000
            assert len(found.nominate_because) < 200


class Noting(dict[str, Any]):
    """A JSON object that notes which of its fields are asked for."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


@pytest.mark.parametrize(
    ("obj", "read", "cut"),
    [
        (rich_pod(), decode.pod, wire.pod_json),
        (rich_node(), decode.node, wire.node_json),
    ],
    ids=["pod", "node"],
)
def test_every_field_that_is_asked_for_comes_through_the_bytes(
    obj: dict[str, Any], read: Callable[[Any], Any], cut: Callable[[bytes], Any]
) -> None:
    noting = {key: Noting(obj[key]) for key in ("metadata", "status")}
    read({**obj, **noting})
    for key, part in noting.items():
        filled = {"metadata": {"name": "x"}, key: dict.fromkeys(part.asked, "x")}
        assert cut(json.dumps(filled).encode())[key].keys() >= part.asked


def test_an_object_that_is_read_is_not_changed() -> None:
    for obj, read in ((rich_pod(), decode.pod), (rich_node(), decode.node)):
        before = copy.deepcopy(obj)
        read(obj)
        assert obj == before
