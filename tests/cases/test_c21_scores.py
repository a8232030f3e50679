"""C21: scores are integers from 0 to 10, one for every node that was offered."""

from __future__ import annotations

from .story import Story


def test_the_node_that_is_left_with_less_scores_higher() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.node("n3", gpu=8)
    story.pod("other/a", gpu=4, node="n1", scheduler="default-scheduler")
    story.pod("other/b", gpu=6, node="n3", scheduler="default-scheduler")
    story.gang("A", 2, of=4, min=3)

    scores = story.prioritize("t/A-0", "n1", "n2", "n3")

    assert scores["n1"] > scores["n2"] > 0
    assert scores["n3"] == 0, "it does not fit"


def test_equal_nodes_score_equally_however_many_there_are() -> None:
    story = Story()
    names = [f"n{number:03}" for number in range(500)]
    for name in names:
        story.node(name, gpu=8)
    story.pod("t/plain")

    assert set(story.prioritize("t/plain", *names).values()) == {
        story.prioritize("t/plain", names[0])[names[0]]
    }
    assert story.prioritize("t/plain") == {}


def test_nodes_without_anything_and_nodes_unknown_score_zero_or_more() -> None:
    story = Story()
    story.node("empty", cpu="0", memory="0", pods="0")
    story.pod("t/plain", cpu=None, memory=None)

    assert story.prioritize("t/plain", "empty", "ghost") == {"empty": 0, "ghost": 0}


def test_a_pod_without_gpus_prefers_nodes_without() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.node("n2")
    story.pod("t/plain")

    scores = story.prioritize("t/plain", "n1", "n2")

    assert scores["n2"] > scores["n1"]


def test_a_pod_without_gpus_strands_as_few_of_them_as_it_can() -> None:
    story = Story()
    for name, used in (("full", 8), ("half", 4), ("idle", 0)):
        story.node(name, gpu=8)
        if used:
            story.pod(f"x/{name}", gpu=used, node=name, scheduler="other")
    story.node("plain")
    story.pod("t/web", cpu="100")

    scores = story.prioritize("t/web", "full", "half", "idle", "plain")

    assert scores["plain"] > scores["full"] > scores["half"] > scores["idle"] > 0


def test_the_planned_node_gets_all() -> None:
    story = Story(start="follow")
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    story.gang("A", 1, of=4)

    assert story.prioritize("t/A-0", "n1", "n2") == {"n1": 10, "n2": 0}
