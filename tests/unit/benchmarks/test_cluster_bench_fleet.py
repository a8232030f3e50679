"""Nodes of the cluster benchmark, the domains used on them, and the fewest possible."""

from __future__ import annotations

import pytest

from benchmarks.cluster_fleet import domains, fewest, fleet, node_name, place, places
from tests.e2e.controlplane.objects import BLOCK, RACK


def test_sixteen_nodes_are_a_rack_and_sixteen_racks_a_block() -> None:
    assert [place(at) for at in (0, 15, 16, 255, 256)] == [
        ("b0", "r0"),
        ("b0", "r0"),
        ("b0", "r1"),
        ("b0", "r15"),
        ("b1", "r16"),
    ]


def test_every_node_has_a_name_of_its_own_and_carries_its_place() -> None:
    nodes = fleet(600)
    assert len({node["metadata"]["name"] for node in nodes}) == 600
    labels = nodes[300]["metadata"]["labels"]
    assert (labels[BLOCK], labels[RACK]) == place(300)


def test_used_domains_are_counted_once_however_many_pods_are_there() -> None:
    where = places(600)
    used = [node_name(at) for at in (0, 0, 1, 16, 256)]
    assert domains(where, used) == [2, 3]
    assert domains(where, []) == [0, 0]


def test_the_fewest_domains_are_the_largest_ones() -> None:
    where = places(1_000)
    assert fewest(where, 16, pods_per_node=4) == [1, 1]
    assert fewest(where, 500, pods_per_node=4) == [1, 8]
    assert fewest(where, 1_000, pods_per_node=4) == [1, 16]
    assert fewest(where, 1_025, pods_per_node=4) == [2, 17]


def test_a_last_rack_that_is_smaller_is_used_last() -> None:
    where = places(20)
    assert fewest(where, 16 * 4, pods_per_node=4) == [1, 1]
    assert fewest(where, 17 * 4, pods_per_node=4) == [1, 2]


def test_a_gang_for_which_no_room_exists_is_an_error() -> None:
    with pytest.raises(ValueError, match="5 nodes are missing"):
        fewest(places(20), 100, pods_per_node=4)
