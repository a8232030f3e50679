"""Levels and domains from topology objects, as the core sees them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.charts import charted
from scheduler.core.presets import HOSTNAME
from scheduler.core.topology import Topology
from scheduler.model import Chart, ChartLevel, ChartMember, GroupKey, Node, Requirement


def listed(*labels: str, name: str = "default") -> Chart:
    key = GroupKey("Topology.kueue.x-k8s.io", "", name)
    return Chart(key, tuple(ChartLevel(label) for label in labels))


def domain(name: str, tier: int, *members: ChartMember, called: str = "") -> Chart:
    return Chart(GroupKey("HyperNode.topology.volcano.sh", "", name), (), tier, called, members)


def at(*names: str) -> list[ChartMember]:
    return [ChartMember(True, name) for name in names]


def of(*names: str) -> list[ChartMember]:
    return [ChartMember(False, name) for name in names]


def made(charts: list[Chart], *names: str) -> Topology:
    return Topology.of([Node(name) for name in names], (), charts)


def test_tiers_become_levels_from_the_top_down() -> None:
    charts = [
        domain("top", 2, *of("l1", "l2")),
        domain("l1", 1, *at("a")),
        domain("l2", 1, *at("b")),
    ]
    topology = made(charts, "a", "b", "c")
    assert topology.levels == ("volcano-tier-2", "volcano-tier-1")
    assert topology.path("a") == ("top", "l1")
    assert topology.path("b") == ("top", "l2")
    assert topology.path("c") == (None, None)
    assert topology.source == "HyperNodes of Volcano"


def test_a_tier_that_is_left_out_is_filled_by_the_domain_below() -> None:
    charts = [
        domain("top", 3, *of("mid", "lone")),
        domain("mid", 2, *of("leaf")),
        domain("leaf", 1, *at("a")),
        domain("lone", 1, *at("b")),
        domain("apart", 1, *at("c")),
        domain("wide", 3, *at("d")),
    ]
    topology = made(charts, *"abcd")
    assert topology.path("a") == ("top", "mid", "leaf")
    assert topology.path("b") == ("top", "lone", "lone")
    assert topology.path("c") == ("apart", "apart", "apart")
    assert topology.path("d") == ("wide", None, None)


def test_nodes_are_chosen_by_pattern_and_by_label() -> None:
    chosen = ChartMember(True, selector=(Requirement("rack", "In", ("r1",)),))
    charts = [domain("p", 1, ChartMember(True, pattern="gpu-[0-9]$")), domain("s", 1, chosen)]
    nodes = [Node("my-gpu-7"), Node("x", labels={"rack": "r1"}), Node("gpu-77")]
    topology = Topology.of(nodes, (), charts)
    assert [topology.path(node.name) for node in nodes] == [("p",), ("s",), (None,)]


def test_a_node_in_two_domains_of_a_tier_is_in_the_first_by_name() -> None:
    charts = [domain("b", 1, *at("n")), domain("a", 1, *at("n"))]
    assert made(charts, "n").path("n") == ("a",)


def test_a_domain_of_itself_or_of_a_higher_tier_holds_nothing_by_that() -> None:
    charts = [domain("x", 1, *of("x", "y")), domain("y", 2, *of("x"), *at("n"))]
    assert made(charts, "n").path("n") == ("y",)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("volcano-tier-1", "volcano-tier-1"),
        ("volcano-tier-2", "volcano-tier-1"),
        ("volcano-tier-3", "volcano-tier-3"),
        ("volcano-tier-99", "volcano-tier-3"),
        ("volcano-tier-0", None),
        ("volcano-tier-", None),
        ("volcano-tier-x", None),
        ("rack", "volcano-tier-1"),
        ("volcano.sh/hypercluster", "volcano-tier-3"),
        ("both", None),
    ],
)
def test_a_tier_is_named_by_its_number_or_its_name(text: str, key: str | None) -> None:
    charts = [
        domain("a", 1, *at("n"), called="rack"),
        domain("b", 3, *of("a"), called="volcano.sh/hypercluster"),
        domain("c", 1, called="both"),
        domain("d", 3, called="both"),
    ]
    topology = made(charts, "n")
    found = topology.resolve(text)
    assert (None if found is None else topology.levels[found]) == key


def test_a_level_of_the_settings_may_be_a_tier() -> None:
    node = Node("n", labels={"zone": "z"})
    topology = Topology.of([node], ("zone", "volcano-tier-1"), [domain("leaf", 1, *at("n"))])
    assert topology.path("n") == ("z", "leaf")
    assert topology.source == "the settings"


def test_lists_of_labels_come_before_domains() -> None:
    node = Node("n", labels={"zone": "z"})
    topology = Topology.of([node], (), [domain("leaf", 1, *at("n")), listed("zone")])
    assert topology.levels == ("zone",)
    assert topology.source == "Topology.kueue.x-k8s.io default"


def test_among_lists_alike_the_longest_then_the_first_by_name() -> None:
    nodes = [Node("n", labels={"a": "1", "b": "2"})]
    lists = [listed("a", name="z"), listed("b", "a", name="y"), listed("a", "b", name="x")]
    for order in itertools.permutations(lists):
        assert charted(order, nodes).levels == ("a", "b")


@given(st.data())
def test_every_node_is_in_a_tree_of_domains_whatever_the_objects_say(data: st.DataObject) -> None:
    """Never an exception, and the same whatever the order of objects and nodes."""
    names = st.sampled_from(["n0", "n1", "n2"])
    inner = st.sampled_from(["h0", "h1", "h2", "h3"])
    patterns = st.sampled_from(["0$", "h", "n1"])
    members = st.one_of(
        names.map(lambda name: ChartMember(True, name)),
        inner.map(lambda name: ChartMember(False, name)),
        patterns.map(lambda pattern: ChartMember(True, pattern=pattern)),
        patterns.map(lambda pattern: ChartMember(False, pattern=pattern)),
    )
    charts = [
        domain(name, data.draw(st.integers(0, 4)), *data.draw(st.lists(members, max_size=3)))
        for name in ("h0", "h1", "h2", "h3")
    ]
    topology = made(charts, "n0", "n1", "n2")
    again = made(charts[::-1], "n2", "n1", "n0")
    assert topology.levels == again.levels
    for node in ("n0", "n1", "n2"):
        path = topology.path(node)
        assert path == again.path(node)
        gaps = [value is None for value in path]
        assert gaps == sorted(gaps), "a domain below none"


def test_a_node_is_a_level_only_where_somebody_asks() -> None:
    nodes = [Node("a", labels={"zone": "z"}), Node("b", labels={HOSTNAME: "h", "zone": "z"})]
    lists = [listed("zone", HOSTNAME)]
    assert Topology.of(nodes, (), lists).levels == ("zone",)
    assert Topology.of(nodes, (), lists).resolve("node") is None
    asked = Topology.of(nodes, (), lists, hosts=True)
    assert asked.levels == ("zone", HOSTNAME)
    assert [asked.path(node.name) for node in nodes] == [("z", "a"), ("z", "h")]
    assert {asked.resolve(name) for name in (HOSTNAME, "hostname", "node", "nodetopology")} == {1}
    assert Topology.of(nodes, (HOSTNAME,), ()).levels == (HOSTNAME,)
    assert Topology.of(nodes, ("corp/node",), (), hosts=True).resolve("node") == 0
