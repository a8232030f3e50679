"""Topology objects: what is read of each kind, and what a gang gets from them."""

from __future__ import annotations

from typing import Any

import pytest
from cases.story import Story
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import decode, dialects
from scheduler.core.patterns import compiled
from scheduler.core.topology import Topology
from scheduler.model import Chart, ChartLevel, ChartMember, GroupKey, Node, Requirement
from tests.unit.decode.test_decode_hostile import paths, values, with_value
from tests.unit.dialects import controller_pods as made
from tests.unit.dialects.topology_objects import (
    BLOCK,
    HOST,
    RACK,
    domains,
    hypernode,
    kai_levels,
    layers,
    levels,
    member,
    nodes,
)

Json = dict[str, Any]

SPINE, LEAF = "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"


def read(obj: Json) -> Chart:
    found = decode.chart(obj)
    assert found is not None
    return found


def charted(obj: Json) -> Chart:
    found = read(obj)
    assert found.warnings == ()
    return found


# ── what an object says ──


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1beta2"])
def test_kueues_levels_go_from_the_top_down(version: str) -> None:
    assert charted(levels([BLOCK, RACK, HOST], version=version)) == Chart(
        GroupKey("Topology.kueue.x-k8s.io", "", "default"),
        (ChartLevel(BLOCK), ChartLevel(RACK), ChartLevel(HOST)),
    )


def test_kais_levels_are_the_same() -> None:
    found = charted(kai_levels([BLOCK, RACK]))
    assert found.key == GroupKey("Topology.kai.scheduler", "", "cluster-topology")
    assert [level.label for level in found.levels] == [BLOCK, RACK]


def test_koordinators_layers_are_ordered_by_their_parents() -> None:
    obj = layers(
        ("NodeTopologyLayer", "BlockLayer", ()),
        ("BlockLayer", "SpineLayer", [LEAF]),
        ("SpineLayer", "", [SPINE]),
    )
    assert charted(obj).levels == (ChartLevel(SPINE, "spine"), ChartLevel(LEAF, "block"))


def test_a_circle_of_parents_is_read_all_the_same() -> None:
    assert len(read(layers(("a", "b", ["x/a"]), ("b", "a", ["x/b"]))).levels) == 2


def test_a_hypernode_is_a_domain_of_a_tier() -> None:
    labels = {"matchLabels": {"rack": "r1"}}
    labels |= {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}  # type: ignore[dict-item]
    obj = hypernode(
        "s0",
        1,
        member(exactMatch={"name": "n1"}),
        member(regexMatch={"pattern": "^n[2-3]$"}),
        member(labelMatch=labels),
        member("HyperNode", exactMatch={"name": "s1"}),
        tier_name="rack",
    )
    wanted = (
        ChartMember(True, "n1"),
        ChartMember(True, pattern="^n[2-3]$"),
        ChartMember(
            True, selector=(Requirement("rack", "In", ("r1",)), Requirement("gpu", "Exists", ()))
        ),
        ChartMember(False, "s1"),
    )
    key = GroupKey("HyperNode.topology.volcano.sh", "", "s0")
    assert charted(obj) == Chart(key, (), 1, "rack", wanted)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(.|..)*Z", ".?" * 100 + "Z", "a*a*a*a*a*a*b"])
def test_a_pattern_that_others_match_for_ever_is_matched_at_once(pattern: str) -> None:
    found = read(hypernode("s0", 1, member(regexMatch={"pattern": pattern})))

    [member_of] = found.members
    assert compiled(member_of.pattern).search("a" * 250) is None or pattern == "(a+)+$"


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        (levels([BLOCK, "", RACK]), "spec.levels[1].nodeLabel"),
        (levels([7]), "spec.levels[0].nodeLabel"),
        (layers(("BlockLayer", "", ["no label!"])), "spec.networkTopologySpec[0]"),
        (hypernode("s0", "one"), "spec.tier"),
        (hypernode("s0", -1), "spec.tier"),
        (hypernode("s0", 1, {"type": "Rack"}), "spec.members[0].type"),
        (hypernode("s0", 1, member()), "spec.members[0].selector"),
        (hypernode("s0", 1, member(regexMatch={"pattern": r"(a)\1"})), "regexMatch.pattern"),
        (hypernode("s0", 1, member(regexMatch={"pattern": "(x{900}){900}"})), "regexMatch.pattern"),
        (hypernode("s0", 1, member(regexMatch={"pattern": "n["})), "regexMatch.pattern"),
        (hypernode("s0", 1, member(regexMatch={"pattern": "n" * 300})), "regexMatch.pattern"),
    ],
)
def test_what_cannot_be_read_is_named_and_left_out(obj: Json, field: str) -> None:
    found = read(obj)
    assert len(found.warnings) == 1
    assert field in found.warnings[0]


@pytest.mark.parametrize("kind", dialects.CHARTS)
@pytest.mark.parametrize(
    "spec", [None, [], "x", {"levels": 1, "networkTopologySpec": {}, "tier": 1}]
)
def test_hostile_objects_are_read_as_nothing(kind: str, spec: object) -> None:
    name, _, group = kind.partition(".")
    obj = {"apiVersion": f"{group}/v1", "kind": name, "metadata": {"name": "x"}, "spec": spec}
    found = read(obj)
    assert (found.levels, found.members) == ((), ())


@pytest.mark.parametrize("obj", [{}, {"kind": "Topology"}, levels([BLOCK], name=""), []])
def test_other_objects_are_none_of_these(obj: Any) -> None:
    assert decode.chart(obj) is None


RICH = [
    levels([BLOCK, RACK, HOST]),
    kai_levels([BLOCK]),
    layers(("BlockLayer", "SpineLayer", [LEAF]), ("SpineLayer", "", [SPINE])),
    hypernode(
        "s0",
        1,
        member(exactMatch={"name": "n1"}),
        member(regexMatch={"pattern": "^n[2-3]$"}),
        member(labelMatch={"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}),
        member("HyperNode", exactMatch={"name": "s1"}),
        tier_name="rack",
    ),
]


@settings(max_examples=300)
@given(st.data())
def test_whatever_an_object_holds_it_is_read_and_harms_nothing(data: st.DataObject) -> None:
    obj = data.draw(st.sampled_from(RICH))
    place = data.draw(st.sampled_from(paths(obj)))
    found = decode.chart(with_value(obj, place, data.draw(values)))
    nodes_there = [Node("n1", labels={BLOCK: "b", RACK: "r"}), Node("n2", labels={SPINE: "s"})]
    topology = Topology.of(nodes_there, (), [found] if found is not None else [])
    for node in nodes_there:
        gaps = [value is None for value in topology.path(node.name)]
        assert gaps == sorted(gaps)


# ── what a gang gets from them ──


def site(**settings: Any) -> Story:
    """Two blocks of two racks of two nodes, whose labels nobody knows by themselves."""
    story = Story(levels=(), **settings)
    for block in (1, 2):
        for rack in (1, 2):
            for node in (1, 2):
                labels = {"corp/hall": f"b{block}", "corp/row": f"r{rack}"}
                story.node(f"b{block}r{rack}n{node}", gpu=8, labels=labels)
    return story


def asking(required: str, *, size: int = 2) -> list[Json]:
    key = "muster.scheduler/topology-required"
    return [
        made.pod(f"a-{at}", gang="A", min=size, gpu=8, annotations={key: required})
        for at in range(size)
    ]


def start(story: Story, pods: list[Json]) -> set[str]:
    for pod in pods:
        story.put_pod(pod)
    return {node[:4] for node in story.bound.values()}


def test_without_objects_the_labels_mean_nothing() -> None:
    story = site()
    assert start(story, asking("corp/row")) == set()
    assert "unknown" in story.reason("t/a-0")


@pytest.mark.parametrize(
    "obj",
    [
        levels(["corp/hall", "corp/row"]),
        kai_levels(["corp/hall", "corp/row"]),
        layers(("RowLayer", "HallLayer", ["corp/row"]), ("HallLayer", "", ["corp/hall"])),
    ],
    ids=["kueue", "kai", "koordinator"],
)
def test_an_object_that_appears_later_makes_the_gang_start(obj: Json) -> None:
    story = site()
    start(story, asking("corp/row"))
    assert story.bound == {}
    story.object(obj)
    story.advance(1)
    assert len({node[:4] for node in story.bound.values()}) == 1
    hint = story.effects("bind")[0]["hint"]
    assert hint["levels"] == ["corp/hall", "corp/row"]


def test_an_object_that_is_deleted_takes_its_levels_along() -> None:
    story = site()
    story.object(levels(["corp/hall", "corp/row"]))
    story.delete("default", kind="Topology")
    assert start(story, asking("corp/row")) == set()


def test_the_settings_win_over_objects() -> None:
    story = Story(levels=("corp/hall",))
    story.node("n1", gpu=8, labels={"corp/hall": "h", "corp/row": "r"})
    story.object(levels(["corp/hall", "corp/row"]))
    assert start(story, asking("corp/row", size=1)) == set()
    assert "known levels: corp/hall" in story.reason("t/a-0")


def test_of_two_objects_the_one_that_most_nodes_carry_counts() -> None:
    story = site()
    story.object(levels(["corp/hall", "corp/absent", "corp/row"], name="a"))
    story.object(levels(["corp/hall", "corp/row"], name="b"))
    story.object(kai_levels(["corp/hall"]))
    assert len(start(story, asking("corp/row"))) == 1


def test_objects_that_no_node_carries_leave_the_labels_to_be_detected() -> None:
    story = Story(levels=())
    story.node("n1", gpu=8, labels={"corp/rack": "r"})
    story.object(levels(["other/block", "other/rack"]))
    assert start(story, asking("rack", size=1)) == {"n1"}


def test_koordinators_layers_are_names_of_levels() -> None:
    story = site()
    story.object(layers(("RowLayer", "HallLayer", ["corp/row"]), ("HallLayer", "", ["corp/hall"])))
    rule = '{"gatherStrategy":[{"layer":"HallLayer","strategy":"MustGather"}]}'
    key = "gang.scheduling.koordinator.sh/network-topology-spec"
    pods = [made.koordinator(f"a-{at}", min_available="4") | {} for at in range(4)]
    for pod in pods:
        pod["metadata"]["annotations"][key] = rule
        pod["spec"]["containers"][0]["resources"] = {"limits": {made.GPU: "8"}}
    assert {name[:2] for name in start(story, pods)} in ({"b1"}, {"b2"})


# ── HyperNodes ──


def hypernodes(story: Story) -> None:
    for block in (1, 2):
        for rack in (1, 2):
            pattern = {"pattern": f"^b{block}r{rack}n"}
            leaf = hypernode(f"b{block}r{rack}", 1, member(regexMatch=pattern), tier_name="row")
            story.object(leaf)
        inside = domains(f"b{block}r1", f"b{block}r2")
        story.object(hypernode(f"b{block}", 2, *inside, tier_name="hall"))


def volcano_gang(size: int, topology: Json) -> list[Json]:
    pods = [made.volcano("worker", at, gpu=8) for at in range(size)]
    return [made.volcano_group({"minMember": size, "networkTopology": topology}), *pods]


@pytest.mark.parametrize(
    ("topology", "size", "domain"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, 2, 4),
        ({"mode": "hard", "highestTierName": "row"}, 2, 4),
        ({"mode": "hard", "highestTierAllowed": 2}, 4, 2),
        ({"mode": "hard", "highestTierName": "hall"}, 4, 2),
        ({"mode": "hard", "highestTierAllowed": 9}, 4, 2),
    ],
)
def test_a_hard_tier_is_a_level(topology: Json, size: int, domain: int) -> None:
    story = site()
    hypernodes(story)
    group, *pods = volcano_gang(size, topology)
    story.object(group)
    assert len({node[:domain] for node in start(story, pods)}) == 1
    assert len(story.bound) == size


def test_a_hard_tier_that_is_too_small_holds_the_gang() -> None:
    story = site()
    hypernodes(story)
    group, *pods = volcano_gang(3, {"mode": "hard", "highestTierAllowed": 1})
    story.object(group)
    assert start(story, pods) == set()


def test_hypernodes_that_come_later_are_picked_up() -> None:
    story = site()
    group, *pods = volcano_gang(2, {"mode": "hard", "highestTierAllowed": 1})
    story.object(group)
    assert start(story, pods) == set()
    hypernodes(story)
    story.advance(1)
    assert len({node[:4] for node in story.bound.values()}) == 1


def test_domains_are_found_again_after_a_restart() -> None:
    story = site()
    hypernodes(story)
    story.restart()
    group, *pods = volcano_gang(2, {"mode": "hard", "highestTierName": "row"})
    story.object(group)
    assert len(start(story, pods)) == 1


def test_node_names_may_be_listed() -> None:
    story = site()
    story.object(hypernode("pair", 1, *nodes("b1r1n2", "b2r2n1")))
    group, *pods = volcano_gang(2, {"mode": "hard", "highestTierAllowed": 1})
    story.object(group)
    start(story, pods)
    assert sorted(story.bound.values()) == ["b1r1n2", "b2r2n1"]


# ── one node as a level ──


@pytest.mark.parametrize("name", ["kubernetes.io/hostname", "hostname", "node"])
def test_a_gang_may_ask_for_one_node(name: str) -> None:
    story = Story()
    story.node("n1", gpu=4, block="b1", rack="r1")
    story.node("n2", gpu=8, block="b1", rack="r1")
    story.pod("t/first", gpu=2)
    for pod in asking(name):
        pod["spec"]["containers"][0]["resources"] = {"limits": {made.GPU: "4"}}
        story.put_pod(pod)
    assert {story.bound["t/a-0"], story.bound["t/a-1"]} == {"n2"}
    assert story.effects("bind")[-1]["hint"]["levels"][-1] == HOST


def test_it_is_no_level_once_nobody_asks() -> None:
    story = site()
    for pod in asking("node", size=1):
        story.put_pod(pod)
    assert story.effects("bind")[-1]["hint"]["levels"] == [HOST]
    story.delete("t/a-0")
    story.pod("t/b", gang="B", min=1, gpu=8)
    assert story.effects("bind")[-1]["hint"]["levels"] == []


def test_a_gang_that_no_node_can_take_whole_is_held() -> None:
    story = site()
    assert start(story, asking("node")) == set()
    assert "in one hostname" in story.reason("t/a-0")


def test_kueues_slices_may_be_nodes() -> None:
    keys = {
        "kueue.x-k8s.io/podset-slice-required-topology": HOST,
        "kueue.x-k8s.io/podset-slice-size": "2",
    }
    story = Story()
    for number in range(4):
        story.node(f"n{number}", gpu=8, block="b1", rack="r1")
    for at in range(4):
        story.put_pod(made.pod(f"a-{at}", gang="A", min=4, index=at, gpu=4, annotations=keys))
    assert story.bound["t/a-0"] == story.bound["t/a-1"] != story.bound["t/a-2"]
    assert story.bound["t/a-2"] == story.bound["t/a-3"]


def test_who_was_refused_by_levels_that_are_others_now_is_tried_again() -> None:
    story = site()
    story.object(levels(["corp/hall", "corp/row"]))
    assert start(story, asking("corp/row", size=4)) == set()
    assert "2 of 4 placeable in one row" in story.reason("t/a-0")
    story.object(levels(["corp/row"]))
    story.advance(1)
    assert len({node[2:4] for node in story.bound.values()}) == 1
    assert len(story.bound) == 4


def test_what_is_reserved_stays_where_it_is_when_levels_change() -> None:
    story = site(auto=False)
    story.object(levels(["corp/hall", "corp/row"]))
    start(story, asking("corp/row"))
    planned = dict(story.reserved)
    assert len(planned) == 2
    story.object(levels(["corp/row"]))
    assert story.reserved == planned
    for pod in planned:
        story.outcome(pod)
    assert story.bound == planned
