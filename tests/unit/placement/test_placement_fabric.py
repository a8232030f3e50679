"""A fabric is a tree, whatever labels are missing, and says so when it is not one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement_oracle import asks, domain_of, fabrics, members_of, objective, topology_order

from scheduler.core.placement import Ask, Fabric, Seats, place


def tree_of(fabric: Fabric) -> nx.DiGraph:
    """Every domain and node as a vertex, with an edge from the one around it."""
    graph = nx.DiGraph()
    graph.add_node("fabric")
    for position in range(fabric.nodes):
        path = [(level, int(fabric.paths[level, position])) for level in range(fabric.levels + 1)]
        nx.add_path(graph, ["fabric", *path])
    return graph


@settings(max_examples=150)
@given(fabrics(max_nodes=12))
def test_domains_and_nodes_form_a_tree(fabric: Fabric) -> None:
    graph = tree_of(fabric)
    assert nx.is_arborescence(graph)
    leaves = [vertex for vertex in graph if graph.out_degree(vertex) == 0]
    assert len(leaves) == fabric.nodes
    assert nx.dag_longest_path_length(graph) == fabric.levels + 1


@settings(max_examples=150)
@given(fabrics(max_nodes=12))
def test_positions_follow_the_paths_and_numbers_follow_the_positions(fabric: Fabric) -> None:
    assert fabric.order.tolist() == topology_order(fabric)
    for level in range(fabric.levels):
        names = [domain_of(fabric, level, node) for node in fabric.order.tolist()]
        firsts = [i for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
        assert fabric.starts[level].tolist() == firsts
        for position, number in enumerate(fabric.paths[level].tolist()):
            assert names[firsts[number]] == names[position]


@settings(max_examples=150)
@given(st.data())
def test_renaming_nodes_changes_names_but_not_how_close_the_members_are(
    data: st.DataObject,
) -> None:
    fabric = data.draw(fabrics())
    ask = data.draw(asks(fabric))
    order = np.array(data.draw(st.permutations(range(fabric.nodes))))
    renamed = Fabric(fabric.domains[:, order])
    moved = {
        name: None if value is None else value[order]
        for name in ("fits", "free", "within", "near")
        for value in [getattr(ask, name)]
    }
    again = Ask(
        count=ask.count,
        per_member=ask.per_member,
        required=ask.required,
        preferred=ask.preferred,
        **moved,
    )
    first, second = place(fabric, ask), place(renamed, again)
    assert type(first) is type(second)
    if isinstance(first, Seats) and isinstance(second, Seats):
        *keys, _ = objective(fabric, ask, members_of(first))
        *same, _ = objective(renamed, again, members_of(second))
        assert keys == same


def test_a_cluster_without_nodes_is_a_fabric_too() -> None:
    fabric = Fabric(np.empty((2, 0), dtype=np.int32))
    assert (fabric.nodes, fabric.levels) == (0, 2)
    nothing = np.empty(0, dtype=np.int64)
    assert not isinstance(place(fabric, Ask(1, nothing, nothing, 1)), Seats)


def test_a_rack_in_two_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="a domain of level 1 lies in more than one broader"):
        Fabric(np.array([[0, 1], [0, 0]], dtype=np.int32))


def test_a_rack_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="a node has a domain at level 1 but none above it"):
        Fabric(np.array([[0, -1], [0, 1]], dtype=np.int32))
