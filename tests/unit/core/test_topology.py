"""Levels and domains from node labels: a domain is its whole path, and no label is no domain."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.presets import PRESETS, ZONE
from scheduler.core.topology import Topology
from scheduler.model import Node

LEVELS = ("topo/block", "topo/rack")


def node(name: str, block: str | None = None, rack: str | None = None, **more: str) -> Node:
    found = {"topo/block": block, "topo/rack": rack, **more}
    return Node(name, labels={key: value for key, value in found.items() if value is not None})


def with_labels(*sets: dict[str, str]) -> list[Node]:
    return [Node(f"n{at}", labels=labels) for at, labels in enumerate(sets)]


def test_nodes_are_rows_by_name_and_domains_are_numbered_by_path() -> None:
    nodes = [node("n3", "b2", "r1"), node("n1", "b1", "r2"), node("n2", "b1", "r1")]
    topology = Topology.build(nodes, LEVELS)
    assert topology.names == ("n1", "n2", "n3")
    assert topology.paths == (
        (("b1",), ("b2",)),
        (("b1", "r1"), ("b1", "r2"), ("b2", "r1")),
    )
    assert topology.fabric.domains.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert topology.domain_path(1, 2) == ("b2", "r1")


def test_the_same_rack_name_in_two_blocks_is_two_domains() -> None:
    topology = Topology.build([node("n1", "b1", "r1"), node("n2", "b2", "r1")], LEVELS)
    one, other = topology.fabric.domains[1]
    assert one != other


def test_without_a_label_or_with_an_empty_one_a_node_is_in_no_domain() -> None:
    nodes = [
        node("n1", "b1", "r1"),
        node("n2", "b1", "r1"),
        node("n3", "b1"),
        node("n4", "b1"),
        node("n5", "b1", ""),
        node("n6", None, "r1"),
        node("n7", "", "r1"),
    ]
    topology = Topology.build(nodes, LEVELS)
    assert topology.fabric.domains[0].tolist() == [0, 0, 0, 0, 0, -1, -1]
    assert topology.fabric.domains[1].tolist() == [0, 0, -1, -1, -1, -1, -1]
    assert topology.paths == ((("b1",),), (("b1", "r1"),))


def test_the_path_of_a_node_has_one_entry_a_level() -> None:
    topology = Topology.build(
        [node("n1", "b1", "r1"), node("n2", None, "r1"), node("n3", "")], LEVELS
    )
    assert topology.path("n1") == ("b1", "r1")
    assert topology.path("n2") == (None, "r1")
    assert topology.path("n3") == (None, None)
    assert topology.path("unknown") == (None, None)


def test_no_levels_and_no_nodes_are_fine() -> None:
    assert Topology.build([node("n1")], ()).fabric.domains.shape == (0, 1)
    empty = Topology.build([], LEVELS)
    assert empty.fabric.domains.shape == (2, 0)
    assert empty.paths == ((), ())


@given(
    st.dictionaries(
        st.sampled_from([f"n{at}" for at in range(8)]),
        st.tuples(*[st.sampled_from([None, "", "1", "2"])] * 3),
    ),
    st.randoms(use_true_random=False),
)
def test_two_nodes_share_a_domain_exactly_if_all_their_labels_agree_down_to_it(
    labelled: dict[str, tuple[str | None, ...]], shuffle: random.Random
) -> None:
    levels = ("a", "b", "c")
    nodes = [
        Node(
            name,
            labels={
                key: value for key, value in zip(levels, values, strict=True) if value is not None
            },
        )
        for name, values in labelled.items()
    ]
    shuffle.shuffle(nodes)
    topology = Topology.build(nodes, levels)
    for level in range(3):
        ids = dict(zip(topology.names, topology.fabric.domains[level].tolist(), strict=True))
        for name, values in labelled.items():
            head = values[: level + 1]
            assert (ids[name] == -1) == (not all(head))
            if all(head):
                assert topology.domain_path(level, ids[name]) == head
        found = sorted({number for number in ids.values() if number >= 0})
        assert found == list(range(len(topology.paths[level])))
        assert list(topology.paths[level]) == sorted(topology.paths[level])


# ── Names of levels ──


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("cloud.provider.com/topology-block", 0),
        ("topology-rack", 1),
        ("block", 0),
        ("rack", 1),
        ("Rack", None),
        ("topology", None),
        ("zone", None),
        ("", None),
    ],
)
def test_a_level_is_called_by_its_key_its_name_or_its_last_word(
    text: str, level: int | None
) -> None:
    keys = ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack")
    assert Topology.build([], keys).resolve(text) == level


def test_a_word_that_fits_two_levels_names_neither() -> None:
    topology = Topology.build([], ("a/outer-rack", "b/inner-rack", "c/rack", "d/x-row", "e/y-row"))
    assert topology.resolve("rack") == 2, "a whole name goes before a last word"
    assert topology.resolve("row") is None
    assert topology.resolve("inner-rack") == 1
    assert Topology.build([], ("a/rack", "b/rack")).resolve("rack") is None


def test_a_level_is_shown_by_the_shortest_text_that_means_it() -> None:
    keys = ("x/topology-block", "topo/rack", "topology.k8s.aws/network-node-layer-3")
    topology = Topology.build([], keys)
    assert [topology.level_name(key) for key in keys] == ["block", "rack", "network-node-layer-3"]
    twins = Topology.build([], ("a/rack", "b/rack"))
    assert [twins.level_name(key) for key in twins.levels] == ["a/rack", "b/rack"]


@pytest.mark.parametrize("keys", [*PRESETS.values(), LEVELS])
def test_the_text_shown_for_a_level_resolves_to_it(keys: tuple[str, ...]) -> None:
    topology = Topology.build([], keys)
    for at, key in enumerate(keys):
        assert topology.resolve(topology.level_name(key)) == at
        assert topology.resolve(key) == at


# ── Levels that look wrong ──


def racks() -> list[Node]:
    return [node(f"n{at}", f"b{at // 4}", f"r{at // 2}") for at in range(8)]


def test_levels_that_divide_each_other_raise_no_doubts() -> None:
    assert Topology.build(racks(), LEVELS).doubts() == []
    assert Topology.build(racks(), LEVELS[1:]).doubts() == []
    same_names = [node(f"n{at}", f"b{at // 4}", f"r{at // 2 % 2}") for at in range(8)]
    assert Topology.build(same_names, LEVELS).doubts() == []
    one_rack_each = [node(f"n{at}", f"b{at // 2}", "r") for at in range(8)]
    assert Topology.build(one_rack_each, LEVELS).doubts() == []
    assert Topology.build([], LEVELS).doubts() == []


def test_a_level_that_no_node_has_is_told_once() -> None:
    (doubt,) = Topology.build(racks(), ("topo/blok", "topo/rack")).doubts()
    assert doubt.startswith("no node has topo/blok")


def test_a_block_below_its_racks_is_told() -> None:
    (doubt,) = Topology.build(racks(), LEVELS[::-1]).doubts()
    assert doubt.startswith("topo/block divides no topo/rack")


# ── Detection ──


def detected(*sets: dict[str, str]) -> tuple[str, ...]:
    return Topology.detect(with_labels(*sets))


OCI = "oci.oraclecloud.com/rdma."
LEGACY = "network.topology.nvidia.com/"


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        (
            {
                "topology.k8s.aws/network-node-layer-3": "nn-3",
                "topology.k8s.aws/network-node-layer-1": "nn-1",
                "topology.k8s.aws/network-node-layer-2": "nn-2",
                "topology.k8s.aws/zone-id": "usw2-az2",
                ZONE: "us-west-2a",
            },
            (ZONE, *(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))),
        ),
        (
            {
                "cloud.google.com/gce-topology-host": "h",
                "cloud.google.com/gce-topology-subblock": "s",
                "cloud.google.com/gce-topology-block": "b",
            },
            tuple(
                f"cloud.google.com/gce-topology-{name}" for name in ("block", "subblock", "host")
            ),
        ),
        (
            {
                "topology.gke.io/host": "h",
                "topology.gke.io/rack": "r",
                "topology.gke.io/cluster": "c",
            },
            ("topology.gke.io/cluster", "topology.gke.io/rack", "topology.gke.io/host"),
        ),
        (
            {
                OCI + "local_block_id": "4tjxbt4s6ua",
                OCI + "network_block_id": "7xmzl4p4wba",
                OCI + "hpc_island_id": "af7ubvouuyq",
                OCI + "host_id": "ab3zs7y7v7q",
            },
            (OCI + "hpc_island_id", OCI + "network_block_id", OCI + "local_block_id"),
        ),
        (
            {
                "ib.coreweave.cloud/leafgroup": "12",
                "ib.coreweave.cloud/superpod": "1",
                "ib.coreweave.cloud/fabric": "f",
                "ib.coreweave.cloud/speed": "400G",
            },
            tuple(f"ib.coreweave.cloud/{name}" for name in ("fabric", "superpod", "leafgroup")),
        ),
        (
            {
                "backend.coreweave.cloud/leafgroup": "12",
                "backend.coreweave.cloud/fabric": "f",
                "backend.coreweave.cloud/flavor": "roce",
            },
            ("backend.coreweave.cloud/fabric", "backend.coreweave.cloud/leafgroup"),
        ),
        (
            {"crusoe.ai/pod.id": "p", "crusoe.ai/ib.partition.id": "i"},
            ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"),
        ),
        (
            {f"fabric.topograph.run/tier-{tier}": f"s{tier}" for tier in range(3)},
            tuple(f"fabric.topograph.run/tier-{tier}" for tier in (2, 1, 0)),
        ),
        (
            {LEGACY + "leaf": "l", LEGACY + "core": "c", LEGACY + "spine": "s"},
            (LEGACY + "core", LEGACY + "spine", LEGACY + "leaf"),
        ),
        (
            {LEGACY + "block": "b", LEGACY + "datacenter": "d", LEGACY + "spine": "s"},
            (LEGACY + "datacenter", LEGACY + "spine", LEGACY + "block"),
        ),
    ],
)
def test_the_labels_of_known_providers_are_ordered_broadest_first(
    labels: dict[str, str], levels: tuple[str, ...]
) -> None:
    assert detected({"kubernetes.io/hostname": "n0", **labels}) == levels


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_every_preset_is_found_broadest_first(preset: tuple[str, ...]) -> None:
    shuffled = dict.fromkeys(sorted(preset, key=lambda key: key[::-1]), "x")
    assert detected({"kubernetes.io/hostname": "n0", **shuffled}) == preset


def test_only_levels_that_are_in_use_count() -> None:
    keys = [f"fabric.topograph.run/tier-{tier}" for tier in range(3)]
    assert detected({keys[0]: "s1", keys[1]: "s2"}, {keys[2]: ""}) == (keys[1], keys[0])
    aws = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)]
    assert detected(dict.fromkeys(aws, "nn")) == tuple(aws)


def test_the_preset_on_most_nodes_wins() -> None:
    gke = {"cloud.google.com/gce-topology-block": "b"}
    crusoe = {"crusoe.ai/pod.id": "p"}
    assert detected(gke, crusoe, crusoe) == ("crusoe.ai/pod.id",)
    assert detected(gke, gke, crusoe) == ("cloud.google.com/gce-topology-block",)


def test_nodes_with_infiniband_at_coreweave_have_their_superpods_as_a_level() -> None:
    ib = {f"ib.coreweave.cloud/{name}": "1" for name in ("fabric", "superpod", "leafgroup")}
    both = ib | {f"backend.coreweave.cloud/{name}": "1" for name in ("fabric", "leafgroup")}
    assert detected(both, both) == tuple(ib)
    roce = {key: value for key, value in both.items() if key not in ib}
    assert detected(both, roce, roce) == tuple(roce)


def test_a_broad_label_on_a_few_nodes_takes_no_others_out_of_their_racks() -> None:
    tier = [f"fabric.topograph.run/tier-{tier}" for tier in range(3)]
    leaf = {tier[0]: "s0"}
    two, three = leaf | {tier[1]: "s1"}, leaf | {tier[1]: "s1", tier[2]: "s2"}
    assert detected(two, two, three) == (tier[1], tier[0])
    assert detected(two, three, three) == (tier[2], tier[1], tier[0])
    assert detected(leaf, leaf, three) == (tier[0],)
    assert detected({"a/rack": "1"}, {"a/rack": "1"}, {"a/rack": "1", "b/block": "1"}) == (
        "a/rack",
    )


@pytest.mark.parametrize(
    ("labels", "levels"),
    [
        ({"topo/rack": "r", "topo/block": "b"}, ("topo/block", "topo/rack")),
        ({"cloud.provider.com/topology-rack": "r"}, ("cloud.provider.com/topology-rack",)),
        ({"example.org/my_rack": "r"}, ("example.org/my_rack",)),
        ({"topo/rack": ""}, ()),
        ({"topo/bracket": "r", "topo/racks": "r"}, ()),
        ({"kubernetes.io/hostname": "n"}, ()),
        ({}, ()),
    ],
)
def test_keys_that_end_in_block_or_rack_are_found_without_a_preset(
    labels: dict[str, str], levels: tuple[str, ...]
) -> None:
    assert detected(labels) == levels


def test_of_two_rack_keys_the_one_on_more_nodes_is_taken() -> None:
    assert detected({"a/rack": "1"}, {"b/rack": "1"}, {"b/rack": "1"}) == ("b/rack",)
    assert detected({"b/rack": "1"}, {"a/rack": "1"}) == ("a/rack",)


def test_the_zone_stands_above_only_if_it_takes_no_node_out_of_its_rack() -> None:
    zoned = {ZONE: "z", "topo/rack": "r"}
    assert detected(zoned, {ZONE: "z"}, {}) == (ZONE, "topo/rack")
    assert detected(zoned, {"topo/rack": "r"}) == ("topo/rack",)
    assert detected({ZONE: "z"}, {}) == (ZONE,)
    assert detected({ZONE: ""}) == ()


def test_detection_does_not_depend_on_the_order_of_nodes() -> None:
    sets = [{"a/rack": "1"}, {"b/rack": "1"}, {"b/block": "1", "a/rack": "2"}, {ZONE: "z"}]
    nodes = with_labels(*sets)
    assert Topology.detect(nodes) == Topology.detect(nodes[::-1])
