"""Gangs that talk little fill what others left; those that talk much find whole domains."""

from __future__ import annotations

from .story import Story

LIGHT = {"communication": "light"}


def cluster(racks: int = 3) -> Story:
    """Racks of two nodes; one GPU of four nodes is in use in the first two racks."""
    story = Story()
    for rack in range(racks):
        for node in range(2):
            name = f"n{rack}{node}"
            story.node(name, gpu=8, block="b", rack=f"r{rack}")
            if rack < 2:
                story.pod(f"x/{name}", gpu=5 + node, node=name, scheduler="other")
    return story


def racks_of(story: Story, gang: str) -> set[str]:
    return {node[1] for pod, node in story.bound.items() if pod.startswith(f"t/{gang}-")}


def test_a_light_gang_leaves_the_whole_rack_to_an_intensive_one() -> None:
    story = cluster()
    story.gang("small", 8, of=1, options=LIGHT)
    story.gang("large", 2, of=8)

    assert racks_of(story, "small") == {"0", "1"}
    assert racks_of(story, "large") == {"2"}


def test_a_gang_that_says_nothing_is_placed_close_together() -> None:
    story = cluster()
    story.gang("small", 8, of=1)

    assert racks_of(story, "small") == {"2"}


def test_the_fullest_nodes_are_used_first() -> None:
    story = cluster()
    story.gang("small", 5, of=1, options=LIGHT)

    assert sorted(story.bound[f"t/small-{at}"] for at in range(5)) == [
        "n00",
        "n01",
        "n01",
        "n11",
        "n11",
    ]


def test_beyond_the_leftovers_no_more_whole_racks_are_broken_than_needed() -> None:
    story = cluster(racks=5)
    story.gang("many", 14, of=1, options=LIGHT)

    assert racks_of(story, "many") == {"0", "1", "2"}
    story.gang("large", 4, of=8)
    assert racks_of(story, "large") == {"3", "4"}


def test_a_required_rack_holds_for_a_light_gang_too_and_the_broken_one_is_taken() -> None:
    story = cluster()
    story.gang("small", 5, of=1, options=LIGHT | {"topology-required": "rack"})
    assert racks_of(story, "small") == {"0"}
    story.gang("wide", 6, of=1, options=LIGHT | {"topology-required": "rack"})
    assert racks_of(story, "wide") == {"2"}, "only the whole rack has room for six"


def test_a_light_gang_without_gpus_stays_off_gpu_nodes_as_any_other() -> None:
    story = cluster()
    story.node("cpu", block="b", rack="r9")
    story.gang("plain", 2, options=LIGHT)

    assert {story.bound[f"t/plain-{at}"] for at in range(2)} == {"cpu"}
