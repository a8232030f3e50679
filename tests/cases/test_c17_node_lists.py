"""C17 (what the engine sees of it): unknown, doubled, missing and foreign node names."""

from __future__ import annotations

import builders

from .story import Story


def placed_on_n1() -> Story:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.gang("A", 1, of=4)
    return story


def test_an_unknown_name_fails_and_is_never_chosen() -> None:
    story = placed_on_n1()
    story.gang("B", 1, of=16)
    story.gang("C", 2, of=8)

    answer = story.filter("t/C-0", "n1", "ghost")

    assert answer["nodes"] == []
    assert "ghost" in answer["failed"]["ghost"]
    assert story.filter("t/A-0", "ghost")["nodes"] == []


def test_names_of_a_plain_pod_come_back_as_they_came() -> None:
    story = placed_on_n1()
    story.pod("t/plain")

    assert story.filter("t/plain", "n2", "n1", "n2", "ghost")["nodes"] == [
        "n2",
        "n1",
        "n2",
        "ghost",
    ]


def test_no_nodes_offered_is_an_answer_too() -> None:
    story = placed_on_n1()
    story.pod("t/plain")

    for key in ("t/A-0", "t/plain"):
        answer = story.call("filter", {"Pod": builders.pod(key), "NodeNames": []})
        assert answer["nodes"] == []


def test_both_forms_of_the_request_get_the_same_answer() -> None:
    story = placed_on_n1()
    pod = builders.pod("t/A-0", gpu=4, gang="A", min=1)
    names = story.call("filter", {"Pod": pod, "NodeNames": ["n1", "n2"]})
    nodes = story.call(
        "filter", {"pod": pod, "nodes": {"items": [builders.node("n1"), builders.node("n2")]}}
    )

    assert names["nodes"] == nodes["nodes"] == ["n1"]


def test_a_pod_that_muster_has_never_seen_is_held_unless_it_is_plain() -> None:
    story = placed_on_n1()
    plain = story.call("filter", {"Pod": builders.pod("t/new"), "NodeNames": ["n1"]})
    member = story.call(
        "filter", {"Pod": builders.pod("t/new-2", gpu=1, gang="N"), "NodeNames": ["n1"]}
    )

    assert plain["nodes"] == ["n1"]
    assert member["nodes"] == []
    assert "t/new-2" in member["unresolvable"]["muster"]
