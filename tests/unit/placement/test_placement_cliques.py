"""NVLink domains: one for a gang, or one for each of its segments, beside the levels."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from gang_oracle import Box, domains_used, every_seating, random_boxes, seated, state_of

from scheduler.core.cliques import Cliques, clique_of
from scheduler.core.fabric import Fabric
from scheduler.model import Wish

# ── Stories ───────────────────────────────────────────────────────────────────────────────────────


def test_a_gang_that_requires_one_domain_shares_it_or_waits() -> None:
    boxes = [Box("b", "r1", "x"), Box("b", "r1", "y"), Box("b", "r2", "y"), Box("b", "r2", "z")]
    assert seated(boxes, 2, 8, nvlink=Wish.REQUIRED) == [1, 2]
    assert seated(boxes, 3, 8, nvlink=Wish.REQUIRED) is None
    assert seated(boxes, 2, 8) == [0, 1], "nobody asked, and one rack is closer"


def test_a_gang_that_prefers_one_gets_it_if_it_fits_and_starts_in_any_case() -> None:
    boxes = [Box("b", "r1", "x"), Box("b", "r1", "y"), Box("b", "r2", "y"), Box("b", "r2", "z")]
    assert seated(boxes, 2, 8, nvlink=Wish.PREFERRED) == [1, 2]
    assert seated(boxes, 4, 8, nvlink=Wish.PREFERRED) == [0, 1, 2, 3]


def test_where_the_domains_lie_in_racks_nobody_has_to_ask() -> None:
    boxes = [Box("b", "r", "x"), Box("b", "r", "y"), Box("b", "r", "x"), Box("b", "r", "y", 4)]
    assert seated(boxes, 2, 8) == [0, 2]


def test_the_label_may_stand_where_others_ask_for_a_level() -> None:
    boxes = [Box("b", "r1", "x"), Box("b", "r1", "y"), Box("b", "r2", "y"), Box("b", "r2", "z")]
    for spelling in ("nvidia.com/gpu.clique", "clique", "nvlink-domain"):
        assert seated(boxes, 2, 8, required=spelling) == [1, 2]
        assert seated(boxes, 2, 8, preferred=spelling) == [1, 2]


def test_on_nodes_without_nvlink_domains_the_requirement_cannot_be_met() -> None:
    boxes = [Box("b", "r"), Box("b", "r")]
    assert seated(boxes, 2, 8, nvlink=Wish.REQUIRED) is None
    assert seated(boxes, 2, 8, nvlink=Wish.PREFERRED) == [0, 1]


def test_a_required_rack_holds_beside_a_required_domain() -> None:
    boxes = [Box("b", "r1", "x"), Box("b", "r2", "x"), Box("b", "r2", "x"), Box("b", "r1", "y")]
    assert seated(boxes, 2, 8, nvlink=Wish.REQUIRED, required="rack") == [1, 2]
    assert seated(boxes, 3, 8, nvlink=Wish.REQUIRED, required="rack") is None
    assert seated(boxes, 3, 8, nvlink=Wish.REQUIRED) == [0, 1, 2]


def test_a_node_whose_switches_join_no_other_is_in_no_domain() -> None:
    alone = "00000000-0000-0000-0000-000000000000.0"
    assert clique_of({"nvidia.com/gpu.clique": alone}) == ""
    boxes = [Box("b", "r", alone), Box("b", "r", alone)]
    assert state_of(boxes).cliques() is None


def test_other_labels_name_the_domain_where_there_is_no_clique() -> None:
    labels = {"accelerator.topograph.run/domain": "nvl1"}
    assert clique_of(labels) == "nvl1"
    assert clique_of(labels | {"nvidia.com/gpu.clique": "c.1"}) == "c.1"


# ── The tree with one more level ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("nested", [True, False])
def test_both_trees_are_trees_and_keep_the_levels_apart(nested: bool) -> None:
    rng = np.random.default_rng(5)
    nestings = 0
    for _ in range(150):
        state = state_of(random_boxes(rng, nested=nested))
        known = state.cliques()
        if known is None:
            continue
        nestings += known.nested is not None
        for fabric in [known.first, *([known.nested[0]] if known.nested else [])]:
            assert nx.is_arborescence(_tree(fabric))
    assert nestings > (100 if nested else 10)


def _tree(fabric: Fabric) -> nx.DiGraph:
    graph = nx.DiGraph()
    for position in range(fabric.nodes):
        path = [(level, int(fabric.paths[level, position])) for level in range(fabric.levels + 1)]
        nx.add_path(graph, ["fabric", *path])
    return graph


def test_domains_that_span_racks_stand_above_them() -> None:
    racks = Fabric(np.array([[0, 0, 0, 0], [0, 1, 2, 3]], dtype=np.int32))
    spanning = Cliques(racks, ("x", "y"), np.array([0, 0, 1, 1], dtype=np.int32))
    assert spanning.nested is not None
    fabric, level = spanning.nested
    assert level == 1
    assert fabric.domains.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]]


def test_domains_that_cross_racks_are_no_level() -> None:
    racks = Fabric(np.array([[0, 0, 1, 1]], dtype=np.int32))
    crossing = Cliques(racks, ("x", "y"), np.array([0, 1, 0, 1], dtype=np.int32))
    assert crossing.nested is None


# ── Against all ways there are ────────────────────────────────────────────────────────────────────


def least(boxes: list[Box], members: int, *, one: bool) -> tuple[int, ...] | None:
    """Fewest blocks, racks and nodes, among those ways that keep to one NVLink domain."""
    ways = every_seating(boxes, members)
    if one:
        cliques = (({boxes[node].clique for node in way}, way) for way in ways)
        ways = (way for found, way in cliques if len(found) == 1 and None not in found)
    return min((domains_used(boxes, list(way)) for way in ways), default=None)


@pytest.mark.parametrize("nested", [True, False])
def test_one_domain_in_the_closest_way_or_none(nested: bool) -> None:
    rng = np.random.default_rng(17 + nested)
    placed = 0
    for number in range(250):
        boxes, members = random_boxes(rng, nested=nested), int(rng.integers(1, 5))
        best = least(boxes, members, one=True)
        nodes = seated(boxes, members, nvlink=Wish.REQUIRED)
        assert (None if nodes is None else domains_used(boxes, nodes)) == best, number
        if nodes is not None:
            assert len({boxes[node].clique for node in nodes}) == 1
            placed += 1
    assert placed > 80


def test_who_prefers_one_gets_it_whenever_there_is_one() -> None:
    rng = np.random.default_rng(23)
    both = 0
    for number in range(250):
        boxes, members = random_boxes(rng, nested=False), int(rng.integers(1, 5))
        one, any_way = least(boxes, members, one=True), least(boxes, members, one=False)
        nodes = seated(boxes, members, nvlink=Wish.PREFERRED)
        assert (nodes is None) == (any_way is None), number
        if nodes is not None and one is not None and state_of(boxes).cliques().nested is None:
            assert domains_used(boxes, nodes) == one, number
            both += one != any_way
    assert both > 5


def test_among_equal_racks_fewest_domains_are_used_without_asking() -> None:
    rng = np.random.default_rng(29)
    fewer = 0
    for _ in range(250):
        boxes, members = random_boxes(rng, nested=True), int(rng.integers(1, 5))
        known = state_of(boxes).cliques()
        if known is None or known.nested is None or known.nested[1] != 2:
            continue
        keys = [_with_cliques(boxes, list(way)) for way in every_seating(boxes, members)]
        nodes = seated(boxes, members)
        assert (None if nodes is None else _with_cliques(boxes, nodes)) == min(keys, default=None)
        fewer += bool(keys)
    assert fewer > 60


def _with_cliques(boxes: list[Box], nodes: list[int]) -> tuple[int, ...]:
    """Blocks, racks, NVLink domains and nodes."""
    blocks, racks, used = domains_used(boxes, nodes)
    rackless = {node for node in nodes if boxes[node].domain(1) is None}
    cliques = {
        node if node in rackless or boxes[node].clique is None else boxes[node].clique
        for node in nodes
    }
    return blocks, racks, len(cliques), used
