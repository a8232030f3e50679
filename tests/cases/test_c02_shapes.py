"""C02: the sum of the free GPUs is enough, but the pods do not fit one by one."""

from __future__ import annotations

from .story import Story


def test_a_gang_that_does_not_fit_reserves_nothing_and_starves_nobody() -> None:
    story = Story()
    for name, gpu in (("n1", 6), ("n2", 2), ("n3", 2), ("n4", 2)):
        story.node(name, gpu=gpu)
    members = story.gang("A", 3, of=4)

    for _ in range(3):
        for member in members:
            assert "1 of 3 placeable" in story.reason(member)
            assert story.reserved == {}
    plans = len(story.log)
    story.advance(3600)
    assert story.log[plans:] == [], "nothing is tried in a loop"

    story.pod("t/s", gpu=6)
    assert story.bound == {"t/s": "n1"}


def test_it_starts_as_soon_as_a_node_grows() -> None:
    story = Story()
    for name, gpu in (("n1", 6), ("n2", 2), ("n3", 2), ("n4", 2)):
        story.node(name, gpu=gpu)
    story.gang("A", 3, of=4)

    story.node("n2", gpu=8)

    assert sorted(story.bound.values()) == ["n1", "n2", "n2"]


def test_eight_single_gpus_are_not_eight_gpus_on_one_node() -> None:
    story = Story()
    for number in range(8):
        story.node(f"n{number}", gpu=1)
    story.pod("t/big", gpu=8)

    answer = story.filter("t/big")

    assert answer["nodes"] == []
    assert "never fits" in answer["unresolvable"]["muster"]
    assert story.why("t/big")["never"] is True
