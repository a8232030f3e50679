"""A node of the API becomes the node that placement sees."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler import decode
from scheduler.errors import DecodeError
from scheduler.model import Node, Taint
from tests import builders
from tests.builders import GPU


def read(**changes: Any) -> Node:
    return decode.node(builders.node("n1", **changes))


def test_a_gpu_node_is_read_whole() -> None:
    node = read(gpu=8, rack="r1", block="b1", taints=["nvidia.com/gpu=present:NoSchedule"])
    assert (node.name, node.uid) == ("n1", "uid-n1")
    assert node.allocatable == {
        "cpu": 128_000,
        "memory": 2**40,
        "ephemeral-storage": 2**41,
        "pods": 110,
        GPU: 8,
    }
    assert (node.labels["topo/block"], node.labels["topo/rack"]) == ("b1", "r1")
    assert node.taints == (Taint("nvidia.com/gpu", "present", "NoSchedule"),)
    assert (node.ready, node.unschedulable, node.deleting, node.warnings) == (
        True,
        False,
        False,
        (),
    )


def test_what_is_not_stated_has_a_default() -> None:
    assert decode.node({"metadata": {"name": "n1"}}) == Node("n1", uid="n1")


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([], True),
        ([{"type": "MemoryPressure", "status": "False"}], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "Ready"}], False),
        ([{"type": "Ready", "status": True}], False),
        ("Ready", True),
        ([None, 3, {"type": "Ready", "status": "False"}], False),
    ],
)
def test_readiness(conditions: Any, ready: bool) -> None:
    obj = builders.node("n1")
    obj["status"]["conditions"] = conditions
    assert decode.node(obj).ready is ready


def test_the_other_conditions_that_hold_are_named() -> None:
    obj = builders.node("n1")
    obj["status"]["conditions"] += [
        {"type": "XidError", "status": "True"},
        {"type": "DiskPressure", "status": "False"},
        {"type": "CorruptDocker", "status": "True"},
        {"status": "True"},
        None,
    ]
    assert decode.node(obj).conditions == ("CorruptDocker", "XidError")


def test_cordon_and_deletion() -> None:
    assert read(unschedulable=True).unschedulable
    obj = builders.node("n1")
    obj["metadata"]["deletionTimestamp"] = "2026-01-05T08:00:00Z"
    assert decode.node(obj).deleting


def test_only_our_own_annotations_are_kept() -> None:
    ours = {"muster.scheduler/gpu-topology": '{"v":1}'}
    assert read(annotations={**ours, "node.alpha.kubernetes.io/ttl": "0"}).annotations == ours


@pytest.mark.parametrize("text", ["eight", "-8", "", None, [], "1e999999999", True])
def test_an_amount_that_cannot_be_read_counts_as_none_with_a_warning(text: Any) -> None:
    node = read(allocatable={GPU: text})
    assert node.allocatable[GPU] == 0
    assert node.allocatable["cpu"] == 128_000, "the other resources stay usable"
    (warning,) = node.warnings
    assert warning.startswith('status.allocatable["nvidia.com/gpu"]: ')
    assert warning.endswith("; counted as 0")


def test_amounts_are_exact_and_rounded_down() -> None:
    node = read(cpu="7910.9m", memory="9223372036854775808", gpu="8")
    assert (node.allocatable["cpu"], node.allocatable["memory"]) == (7910, 2**63)
    assert node.warnings == ()


def test_without_allocatable_the_capacity_counts() -> None:
    obj = builders.node("n1", gpu=8)
    del obj["status"]["allocatable"]
    assert decode.node(obj).allocatable[GPU] == 8
    obj["status"]["allocatable"] = {}
    assert decode.node(obj).allocatable == {}


def test_a_taint_without_a_key_is_left_out_with_a_warning() -> None:
    node = read(taints=[{"value": "x"}, "k:NoExecute"])
    assert node.taints == (Taint("k", "", "NoExecute"),)
    assert node.warnings == ("spec.taints[0]: has no key; ignored",)


def test_warnings_do_not_pile_up() -> None:
    assert len(read(allocatable={f"x/{at}": "?" for at in range(5000)}).warnings) <= 20


@pytest.mark.parametrize("obj", [None, [], {}, {"metadata": {}}, {"metadata": {"name": 1}}])
def test_something_without_a_name_is_an_error(obj: Any) -> None:
    with pytest.raises(DecodeError, match=r"^node: "):
        decode.node(obj)
