"""Members that come back: to the NVLink domain of the others, and to their own segment."""

from __future__ import annotations

import pytest
from unit.dialects import controller_pods as made

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


SLICES = {
    "kueue.x-k8s.io/podset-slice-required-topology": "topo/rack",
    "kueue.x-k8s.io/podset-slice-size": "2",
}


def training(story: Story, workers: int, *only: int, master: bool = True) -> None:
    """A PyTorchJob whose workers alone state slices, as Kueue has them by template."""
    keys = {"variables": made.env(PET_NNODES=workers + 1), "gpu": 8}
    if master:
        story.put_pod(made.kubeflow("master", 0, **keys))
    for at in only or range(workers):
        pod = made.kubeflow("worker", at, annotations=SLICES, **keys)
        pod["metadata"]["uid"] += f"-{len(story.lines)}"
        story.put_pod(pod)


def rack_of(story: Story, worker: int) -> str:
    return story.placed[f"t/mnist-worker-{worker}"][:2]


def racks_of_two(story: Story, *racks: str) -> None:
    for rack in racks:
        for at in range(2):
            story.node(f"{rack}n{at}", gpu=8, block="b", rack=rack)


def test_slices_are_counted_from_the_first_pod_that_states_them() -> None:
    story = Story()
    racks_of_two(story, "r1", "r2", "r3")
    training(story, 4)

    assert len(story.placed) == 5
    assert rack_of(story, 0) == rack_of(story, 1) != rack_of(story, 2) == rack_of(story, 3)
    assert story.ranks("t/mnist")["t/mnist-master-0"] == 0, "the master is in none of them"


@pytest.mark.parametrize("lost", [False, True])
def test_a_worker_comes_back_to_its_own_slice_past_the_master(*, lost: bool) -> None:
    story = Story(grace_s=0)
    racks_of_two(story, "r1", "r2")
    for rack in ("r1", "r2"):
        story.node(f"{rack}n2", gpu=8, block="b", rack=rack)
    story.pod("x/full", gpu=8, node="r2n2", scheduler="other")
    training(story, 4)
    assert [rack_of(story, at) for at in range(4)] == ["r1", "r1", "r2", "r2"]
    assert story.placed["t/mnist-master-0"] == "r1n2"

    story.pod("x/late", gpu=8, node=story.placed["t/mnist-worker-1"], scheduler="other")
    story.delete("t/mnist-worker-1")
    if lost:
        story.pod("x/later", gpu=8, node="r1n2", scheduler="other")
        story.delete("t/mnist-master-0")
    story.delete("x/full")
    training(story, 4, 1, master=False)
    assert "t/mnist-worker-1" not in story.placed, "there is room beside the other slice only"
    story.delete("x/late")
    assert rack_of(story, 1) == "r1"


def test_segments_of_workers_are_kept_beside_a_launcher_without_gpus() -> None:
    story = Story()
    racks_of_two(story, "r1", "r2", "r3")
    story.pod("x/a", gpu=8, node="r1n0", scheduler="other")
    story.node("cpu", block="b", rack="r1")
    options = {"segment-size": "2", "segment-topology": "rack"}
    more = {"gang": "A", "min": 5, "options": options, "cpu": "64", "memory": "128Gi"}
    story.pod("t/A-l", role="launcher", **more)
    for at in range(4):
        story.pod(f"t/A-{at}", gpu=8, index=at, role="worker", **more)

    places = [story.bound[f"t/A-{at}"][:2] for at in range(4)]
    assert places in (["r2", "r2", "r3", "r3"], ["r3", "r3", "r2", "r2"])
    assert story.bound["t/A-l"] == "cpu"
    assert "warnings" not in story.state["gangs"]["t/A"]


def test_a_required_level_holds_those_beside_the_segments_too() -> None:
    story = Story()
    for block, nodes in (("b1", 2), ("b2", 3)):
        for at in range(nodes):
            story.node(f"{block}n{at}", gpu=8, block=block, rack=f"{block}r{at // 2}")
    keys = {"gang": "A", "min": 3, "gpu": 8}
    near = {"topology-required": "block"}
    story.pod("t/A-m", role="master", options=near, **keys)
    for at in range(2):
        cut = near | {"segment-size": "2", "segment-topology": "rack"}
        story.pod(f"t/A-{at}", index=at, role="worker", options=cut, **keys)

    assert {node[:2] for node in story.bound.values()} == {"b2"}, "b1 has no room for the master"
