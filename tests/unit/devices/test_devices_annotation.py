"""The node's annotations: what is written is read again, and what is bad is as good as none."""

from __future__ import annotations

import json
from typing import Any

import device_boxes as boxes
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices import (
    InUse,
    Link,
    Matrix,
    Nic,
    NodeDevices,
    Unreadable,
    parse_annotation,
    parse_in_use,
    read_in_use,
    read_topology,
    write_in_use,
    write_topology,
)

GOOD: dict[str, Any] = {
    "v": 1,
    "gpus": 3,
    "links": {"0-1": "NV2", "2-0": "SOC", "1-2": "NODE"},
    "numa": [0, 0, -1],
    "nics": [{"name": "mlx5_0", "numa": 0, "near": [1, 0], "later": True}],
    "uuids": ["GPU-a", "GPU-b", "GPU-c"],
    "later": {},
}


def test_a_topology_is_read() -> None:
    assert parse_annotation(json.dumps(GOOD)) == NodeDevices(
        Matrix(
            3,
            (Link(0, 1, "NV2"), Link(0, 2, "SYS"), Link(1, 2, "NODE")),
            (0, 0, None),
            (Nic("mlx5_0", 0, (0, 1)),),
        ),
        ("GPU-a", "GPU-b", "GPU-c"),
    )


def test_only_the_number_of_gpus_is_needed() -> None:
    assert parse_annotation('{"v":1,"gpus":2}') == NodeDevices(Matrix(2, numa=(None, None)))


def test_a_word_of_a_later_driver_costs_only_its_pair() -> None:
    devices = parse_annotation('{"v":1,"gpus":3,"links":{"0-1":"WARP9","1-2":"NV1"}}')

    assert devices is not None
    assert devices.matrix.links == (Link(1, 2, "NV1"),)


@pytest.mark.parametrize("links", ['{"0-1":"NV2","1-0":"PHB"}', '{"0-1":"PHB","1-0":"NV2"}'])
def test_of_two_words_for_one_pair_the_weaker_counts(links: str) -> None:
    devices = parse_annotation(f'{{"v":1,"gpus":2,"links":{links}}}')

    assert devices is not None
    assert devices.matrix.links == (Link(0, 1, "PHB"),)


@pytest.mark.parametrize(
    "matrix",
    [boxes.dgx1_v100(), boxes.dgx_a100(), boxes.power9(), Matrix(0), Matrix(2, mig=(1,))],
    ids=["v100", "a100", "power9", "none", "mig"],
)
def test_what_is_written_is_read_again(matrix: Matrix) -> None:
    text = write_topology(NodeDevices(matrix, tuple(f"GPU-{at}" for at in range(matrix.gpus))))

    devices = parse_annotation(text)

    assert devices is not None
    assert write_topology(devices) == text
    assert devices.matrix.links == matrix.links
    assert (devices.matrix.nics, devices.matrix.mig) == (matrix.nics, matrix.mig)


def test_nodes_of_one_make_share_their_matrix() -> None:
    one, other = (
        parse_annotation(
            write_topology(NodeDevices(boxes.dgx1_p100(), tuple(f"{name}{at}" for at in range(8))))
        )
        for name in "ab"
    )

    assert one is not None
    assert other is not None
    assert one.uuids != other.uuids
    assert one.matrix is other.matrix


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": 2}, "v is 2; only version 1 is known"),
        ({"v": None}, "v is null"),
        ({"v": True}, "v is a boolean"),
        ({"gpus": None}, "gpus has null"),
        ({"gpus": 65}, "gpus has 65"),
        ({"gpus": True}, "gpus has a boolean"),
        ({"gpus": 2.0}, "gpus has 2.0"),
        ({"links": []}, "links is a list"),
        ({"links": {"0-3": "SYS"}}, 'links has "0-3", which is no pair of 3 GPUs'),
        ({"links": {"1-1": "X"}}, 'links has "1-1"'),
        ({"links": {"a": "SYS"}}, 'links has "a"'),
        ({"links": {"0-1": 2}}, 'links["0-1"] has 2, not a text'),
        ({"numa": [0, 1]}, "numa has 2 entries for 3 GPUs"),
        ({"numa": [0, 1, "x"]}, 'numa has "x"'),
        ({"nics": {}}, "nics is an object, not a list"),
        ({"nics": [1]}, "nics has 1, not an object"),
        ({"nics": [{"near": []}]}, "nics[].name has null"),
        ({"nics": [{"name": "a", "near": [3]}]}, "nics[].near has 3"),
        ({"uuids": ["a"]}, "uuids has 1 entries for 3 GPUs"),
        ({"uuids": ["GPU-a", "GPU-b", "GPU-a"]}, "uuids names a GPU twice"),
        ({"uuids": ["GPU-a,GPU-b", "GPU-b", "GPU-c"]}, 'uuids has "GPU-a,GPU-b", which names no'),
        ({"uuids": ["all", "GPU-b", "GPU-c"]}, 'uuids has "all"'),
        ({"uuids": ["2", "GPU-b", "GPU-c"]}, 'uuids has "2"'),
        ({"uuids": ["", "GPU-b", "GPU-c"]}, 'uuids has ""'),
        ({"uuids": ["\ud800", "GPU-b", "GPU-c"]}, 'uuids has "?", which cannot be printed'),
        ({"nics": [{"name": "\ud800"}]}, 'nics[].name has "?", which cannot be printed'),
        ({"mig": [3]}, "mig has 3"),
    ],
)
def test_a_bad_topology_is_none_with_a_reason(change: dict[str, Any], reason: str) -> None:
    text = json.dumps(GOOD | change)

    read = read_topology(text)

    assert parse_annotation(text) is None
    assert isinstance(read, Unreadable)
    assert read.reason.startswith(reason)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '"x"', "[" * 100_000, "{}"])
def test_what_is_no_such_object_is_none(text: str) -> None:
    assert parse_annotation(text) is None
    assert parse_in_use(text) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["v", *GOOD, "mig", "in_use", "by_name", "at"]), json_values
    ).map(lambda changes: json.dumps(GOOD | changes))
    | st.text()
)
def test_nothing_is_raised_whatever_stands_there(text: str) -> None:
    topology, in_use = read_topology(text), read_in_use(text)

    assert isinstance(topology, NodeDevices | Unreadable)
    assert isinstance(in_use, InUse | Unreadable)
    if isinstance(topology, NodeDevices):
        assert read_topology(write_topology(topology)) == topology


def test_use_is_written_and_read() -> None:
    text = write_in_use(InUse({"uid-b": (3, 1), "uid-a": (0,)}))

    assert text == '{"v":1,"in_use":{"uid-a":[0],"uid-b":[1,3]}}'
    assert parse_in_use(text) == InUse({"uid-a": (0,), "uid-b": (1, 3)})


def test_use_by_name_is_written_with_its_time_and_read() -> None:
    text = write_in_use(InUse(by_name={"t/b": (3, 1), "t/a": (0,)}, at=1700000000))

    assert text == '{"v":1,"in_use":{},"by_name":{"t/a":[0],"t/b":[1,3]},"at":1700000000}'
    assert parse_in_use(text) == InUse({}, {"t/a": (0,), "t/b": (1, 3)}, 1700000000)


@pytest.mark.parametrize(
    ("started", "found"),
    [(0.0, None), (9.0, (1,)), (10.0, None), (11.0, None)],
    ids=["not-yet", "before", "in-the-same-second", "after"],
)
def test_a_name_is_of_the_pod_that_had_started_when_it_was_read(
    started: float, found: tuple[int, ...] | None
) -> None:
    use = InUse({"uid-b": (2,)}, {"t/a": (1,), "t/b": (3,)}, at=10)

    assert use.of("uid-a", "t/a", started) == found
    assert use.of("uid-x", "t/x", started) is None
    assert use.of("uid-b", "t/b", started) == (2,), "a uid cannot be mistaken"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v":1}', "in_use is null, not an object"),
        ('{"v":1,"in_use":{"u":0}}', 'in_use["u"] is 0, not a list'),
        ('{"v":1,"in_use":{"u":[64]}}', 'in_use["u"] has 64'),
        ('{"v":1,"in_use":{"u":[-1]}}', 'in_use["u"] has -1'),
        ('{"v":1,"in_use":{},"by_name":[]}', "by_name is a list, not an object"),
        ('{"v":1,"in_use":{},"by_name":{"t/a":[64]}}', 'by_name["t/a"] has 64'),
        ('{"v":1,"in_use":{},"at":-1}', "at has -1"),
        ('{"v":1,"in_use":{},"at":1.5}', "at has 1.5"),
    ],
)
def test_bad_use_is_none_with_a_reason(text: str, reason: str) -> None:
    read = read_in_use(text)

    assert parse_in_use(text) is None
    assert isinstance(read, Unreadable)
    assert read.reason.startswith(reason)
