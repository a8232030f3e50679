"""Who has which GPUs, from the kubelet's own file."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_nodes import CHECKPOINT, Root, held
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.agent.checkpoint import read_checkpoint
from scheduler.agent.holding import gpus_in_use
from scheduler.agent.reading import Failed, Held, NotThere, Reading
from scheduler.core.devices import Matrix, NodeDevices

GPU = "nvidia.com/gpu"
IDS = {"GPU-a": 0, "GPU-b": 1, "GPU-c": 2, "GPU-d": 3, "0000:03:00.0": 0}
READING = Reading(NodeDevices(Matrix(4, mig=(3,))), IDS, "a test")


def in_use(root: Root) -> dict[str, tuple[int, ...]]:
    found = read_checkpoint(root.folder)
    assert isinstance(found, list), found
    return gpus_in_use(found, READING)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_devices_by_numa_node_or_in_one_list(root: Root) -> None:
    root.checkpoint(
        [held("new", GPU, {"0": ["GPU-b"], "1": ["GPU-a"]}), held("old", GPU, ["GPU-c"])]
    )

    assert in_use(root) == {"new": (0, 1), "old": (2,)}


def test_containers_of_one_pod_are_put_together(root: Root) -> None:
    root.checkpoint([held("p", GPU, {"0": ["GPU-c"]}), held("p", GPU, {"0": ["GPU-a"]})])

    assert in_use(root) == {"p": (0, 2)}


@pytest.mark.parametrize(
    ("resource", "device", "gpus"),
    [
        (GPU, "GPU-b", (1,)),
        (GPU, "GPU-b::7", (1,)),
        (GPU, "2", (2,)),
        (GPU, "nvidia2", (2,)),
        (GPU, "nvidia2/gi1", ()),
        (GPU, "4", ()),
        (GPU, "GPU-elsewhere", ()),
        (GPU, "GPU-d", ()),
        ("nvidia.com/mig-1g.5gb", "MIG-a", ()),
        ("example.com/fast-gpu", "GPU-a", (0,)),
        ("amd.com/gpu", "0000:03:00.0", (0,)),
        ("rdma/hca", "1", ()),
        ("example.com/nic", "0000:04:00.0", ()),
    ],
)
def test_the_names_of_gpus(root: Root, resource: str, device: str, gpus: tuple[int, ...]) -> None:
    root.checkpoint([held("p", resource, {"-1": [device]})])

    assert in_use(root) == ({"p": gpus} if gpus else {})


def test_nothing_given_yet(root: Root) -> None:
    root.checkpoint(None)

    assert in_use(root) == {}


def test_no_file(root: Root) -> None:
    found = read_checkpoint(root.folder)

    assert isinstance(found, NotThere)
    assert "mount the node's /var/lib/kubelet/device-plugins below --root" in found.reason


@pytest.mark.parametrize("text", ["", "{", "\ud800".encode("utf-8", "surrogatepass")])
def test_a_file_that_cannot_be_read(root: Root, text: str | bytes) -> None:
    root.write(CHECKPOINT, "")
    (root.folder / CHECKPOINT).write_bytes(text.encode() if isinstance(text, str) else text)

    found = read_checkpoint(root.folder)

    assert isinstance(found, Failed)
    assert CHECKPOINT in found.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
entries = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("PodUID", "ResourceName", "DeviceIDs"), json_values),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(entries | json_values, max_size=4) | json_values)
def test_entries_that_are_not_understood_are_passed_over(root: Root, found: object) -> None:
    good = held("good", GPU, ["GPU-a"])
    root.checkpoint([*found, good] if isinstance(found, list) else [good, found])

    assert in_use(root)["good"] == (0,)


def test_what_a_container_has_is_kept_apart(root: Root) -> None:
    root.checkpoint([held("p", "rdma/hca", ["1"]), held("p", GPU, {"0": ["GPU-a", 5]})])

    assert read_checkpoint(root.folder) == [
        Held("p", "rdma/hca", ("1",)),
        Held("p", GPU, ("GPU-a",)),
    ]
