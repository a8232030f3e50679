"""Members that come back: to the NVLink domain of the others, and to their own segment."""

from __future__ import annotations

from .story import Story

CLIQUE = "nvidia.com/gpu.clique"


def trays(story: Story, *cliques: str) -> None:
    """One node of four GPUs for each letter, all in one rack."""
    for number, clique in enumerate(cliques):
        story.node(f"n{number}", gpu=4, block="b", rack="r", labels={CLIQUE: clique})


def test_a_replacement_joins_the_nvlink_domain_of_the_others() -> None:
    story = Story()
    trays(story, "x", "x", "x", "y", "y")
    story.pod("x/full", gpu=4, node="n2", scheduler="other")
    story.gang("A", 2, of=4, options={"nvlink-domain": "required"})
    assert story.bound == {"x/full": "n2", "t/A-0": "n0", "t/A-1": "n1"}

    story.delete("t/A-0")
    story.pod("x/late", gpu=4, node="n0", scheduler="other")
    story.pod("t/A-0", gang="A", min=2, gpu=4, uid="again", options={"nvlink-domain": "required"})
    assert "in one NVLink domain" in story.reason("t/A-0")
    story.delete("x/full")
    assert story.bound["t/A-0"] == "n2"


def test_a_member_comes_back_to_its_own_segment() -> None:
    story = Story(grace_s=0)
    for number, rack in enumerate(("r1", "r1", "r1", "r2", "r2", "r2")):
        story.node(f"n{number}", gpu=4, block="b", rack=rack)
    options = {"segment-size": "2", "segment-topology": "rack"}
    members = [f"t/A-{at}" for at in range(4)]
    story.pod("x/a", gpu=4, node="n2", scheduler="other")
    story.pod("x/b", gpu=4, node="n5", scheduler="other")
    for at, key in enumerate(members):
        story.pod(key, gang="A", min=4, gpu=4, index=at, options=options)
    assert [story.bound[key] for key in members] == ["n0", "n1", "n3", "n4"]

    story.delete("t/A-3")
    story.pod("x/c", gpu=4, node="n4", scheduler="other")
    story.delete("x/a")
    story.pod("t/A-3", gang="A", min=4, gpu=4, index=3, uid="again", options=options)
    assert "t/A-3" not in story.bound, "there is room in the other rack only"
    story.delete("x/b")
    assert story.bound["t/A-3"] == "n5"


def test_why_names_the_nvlink_domain_with_most_room() -> None:
    story = Story()
    trays(story, "x", "x", "y")
    story.gang("A", 3, of=4, options={"nvlink-domain": "required"})
    told = story.why("t/A")
    assert told["reason"].startswith("never fits: 2 of 3 placeable in one NVLink domain")
    assert (told["level"], told["best_domain"], told["fits_in_best"]) == ("gpu.clique", ["x"], 2)


def test_without_the_label_the_wish_for_a_domain_says_what_is_missing() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.gang("A", 1, of=4, options={"nvlink-domain": "required"})
    assert "no node is in an NVLink domain" in story.reason("t/A-0")


def test_a_required_nvlink_domain_does_not_relax_and_a_level_beside_it_does() -> None:
    story = Story()
    trays(story, "x", "y")
    asked = {"topology-required": "clique", "topology-relax-after": "10s"}
    story.gang("A", 2, of=4, options=asked)
    story.advance(100)
    assert story.bound == {}
    assert "never fits" in story.reason("t/A-0")

    story = Story()
    for name, rack in (("n0", "r1"), ("n1", "r2")):
        story.node(name, gpu=4, block="b", rack=rack, labels={CLIQUE: "x"})
    asked = {"topology-required": "rack", "topology-relax-after": "10s"}
    story.gang("A", 2, of=4, options=asked | {"nvlink-domain": "required"})
    assert story.bound == {}
    story.advance(11)
    assert story.bound == {"t/A-0": "n0", "t/A-1": "n1"}


def test_segments_of_unlike_members_are_not_silently_forgotten() -> None:
    story = Story()
    trays(story, "x", "y")
    options = {"segment-size": "2"}
    story.pod("t/A-0", gang="A", min=2, gpu=4, cpu="16", memory="32Gi", options=options)
    story.pod("t/A-1", gang="A", min=2, gpu=2, cpu="16", memory="32Gi", options=options)
    told = story.why("t/A")["warnings"]
    assert told == ["segment-size has no effect: the members ask for different things"]
