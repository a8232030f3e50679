"""C28: consecutive ranks are neighbours; indexes that cannot be used spoil nothing."""

from __future__ import annotations

import random

import pytest
from unit.dialects import controller_pods as made

from .story import Story


def three_racks() -> Story:
    story = Story(levels=("topo/rack",))
    for rack in (1, 2, 3):
        for node in range(4):
            story.node(f"r{rack}n{node}", gpu=8, rack=f"r{rack}")
    return story


def pod_of(index: int) -> str:
    """A pod's name that sorts against its index."""
    return f"t/A-{'zyxwvutsrq'[index]}"


@pytest.mark.parametrize("seed", range(100))
def test_index_i_lands_in_rack_i_over_four_whatever_the_order(seed: int) -> None:
    story = three_racks()
    order = list(range(10))
    random.Random(seed).shuffle(order)

    for index in order:
        wish = {"topology-preferred": "rack"}
        story.pod(pod_of(index), gpu=8, gang="A", min=10, index=index, options=wish)

    assert story.ranks("t/A") == {pod_of(index): index for index in range(10)}
    for index in range(10):
        assert story.bound[pod_of(index)][:2] == f"r{index // 4 + 1}"
    assert len(set(story.bound.values())) == 10


def test_members_that_share_a_node_have_consecutive_ranks() -> None:
    story = three_racks()

    story.gang("A", 12, of=2)

    by_node: dict[str, list[int]] = {}
    for pod, rank in story.ranks("t/A").items():
        by_node.setdefault(story.bound[pod], []).append(rank)
    assert sorted(map(sorted, by_node.values())) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_master_is_rank_zero_and_its_workers_follow() -> None:
    story = three_racks()
    for member in range(3):
        story.pod(f"t/A-worker-{member}", gpu=8, gang="A", min=4, role="worker", index=member)
    story.pod("t/A-master-0", gpu=8, gang="A", min=4, role="master", index=0)

    assert story.ranks("t/A") == {
        "t/A-master-0": 0,
        "t/A-worker-0": 1,
        "t/A-worker-1": 2,
        "t/A-worker-2": 3,
    }


UNUSABLE = [[3, 3, 0, 1], ["x", 0, 1, 2], ["-1", 0, 1, 2], ["007", 0, 1, 2], [99, 0, 1, 2]]


@pytest.mark.parametrize("given", UNUSABLE, ids=str)
def test_indexes_that_cannot_be_used_are_ignored_as_a_set(given: list[object]) -> None:
    story = three_racks()
    label = "batch.kubernetes.io/job-completion-index"

    for member, index in enumerate(given):
        story.pod(f"t/A-{member}", gpu=8, gang="A", min=4, labels={label: str(index)})

    assert story.ranks("t/A") == {f"t/A-{member}": member for member in range(4)}


def test_one_missing_index_is_as_good_as_none() -> None:
    story = three_racks()
    for member, index in enumerate([3, None, 1, 0]):
        story.pod(f"t/A-{member}", gpu=8, gang="A", min=4, index=index)

    assert story.ranks("t/A") == {f"t/A-{member}": member for member in range(4)}


def test_a_replaced_member_gets_its_rank_and_its_seat_back() -> None:
    story = three_racks()
    for index in range(10):
        story.pod(f"t/A-{index}-abc", gpu=8, gang="A", min=10, index=index)
    was = story.bound["t/A-5-abc"]
    others = set(story.bound.values()) - {was}

    story.delete("t/A-5-abc")
    story.pod("t/A-5-xyz", gpu=8, gang="A", min=10, index=5)

    assert story.bound["t/A-5-xyz"] == was
    assert story.ranks("t/A")["t/A-5-xyz"] == 5
    assert story.bound["t/A-5-xyz"] not in others


def test_a_replaced_member_stays_in_its_rack_if_its_seat_is_taken() -> None:
    story = three_racks()
    for index in range(6):
        story.pod(f"t/A-{index}", gpu=8, gang="A", min=6, index=index)
    was = story.bound["t/A-5"]
    story.delete("t/A-5")
    story.pod("other/x", gpu=8, node=was, scheduler="default-scheduler")

    story.pod("t/A-5", gpu=8, gang="A", min=6, index=5, uid="again")

    assert story.bound["t/A-5"][:2] == was[:2]
    assert story.bound["t/A-5"] != was


def test_no_two_living_members_have_the_same_rank_even_with_doubled_indexes() -> None:
    story = three_racks()
    for member, index in enumerate([3, 3, None]):
        story.pod(f"t/A-{member}", gpu=1, gang="A", min=3, index=index)
    story.delete("t/A-2")

    story.pod("t/A-9", gpu=1, gang="A", min=3)

    living = {pod: rank for pod, rank in story.ranks("t/A").items() if pod in story.bound}
    assert sorted(living.values()) == [0, 1, 2]


def test_a_binding_that_was_given_up_keeps_its_rank_until_it_is_known() -> None:
    story = Story(auto=False)
    story.node("n1", gpu=1)
    story.node("n2", gpu=1)
    story.gang("A", 1, of=1)
    story.outcome("t/A-0")
    story.pod("t/A-2", gpu=1, gang="A", min=1)
    assert story.reserved == {"t/A-2": "n2"}
    story.outcome("t/A-2", "timeout")
    story.delete("n2", "Node")
    assert story.reserved == {}, "it may have landed there all the same, with rank 1"

    story.pod("t/A-1", gpu=1, gang="A", min=1)
    story.node("n3", gpu=1)

    assert story.reserved == {"t/A-1": "n3"}
    assert story.ranks("t/A") == {"t/A-0": 0, "t/A-2": 1, "t/A-1": 2}


def test_members_that_come_back_at_once_go_each_to_its_own_rack() -> None:
    story = Story(auto=False, levels=("topo/rack",))
    for rack in (1, 2):
        for node in range(4):
            story.node(f"r{rack}n{node}", gpu=8, rack=f"r{rack}")
    others = ("r1n3", "r2n3")
    for node in others:
        story.pod(f"x/{node}", gpu=8, node=node, scheduler="other")
    for index in range(6):
        story.pod(f"t/A-{index}", gpu=8, gang="A", min=6, index=index)
    for index in range(6):
        story.outcome(f"t/A-{index}")
    assert [story.bound[f"t/A-{index}"][:2] for index in range(6)] == ["r1"] * 3 + ["r2"] * 3

    for index in (4, 5):
        story.delete(f"t/A-{index}")
    for node in others:
        story.delete(f"x/{node}")
    urgent = {"start": "nominate"}
    story.gang("B", 4, of=8, priority=10, options=urgent)
    assert len(story.reserved) == 4, "nothing is left for those who come back"
    for index in (5, 4):
        story.pod(f"t/A-{index}", gpu=8, gang="A", min=6, index=index, uid=f"again-{index}")
    story.delete("t/B-0")

    back = {pod: node[:2] for pod, node in story.reserved.items()}
    assert back == {"t/A-4": "r2", "t/A-5": "r2"}, "a free node of the other rack is not theirs"


def of_jobs(story: Story) -> None:
    """A JobSet of two Jobs of three pods, each of which counts from 0."""
    story.object(made.jobset_object(made.replicated("w", 3, replicas=2, gpu=8)))
    for job in range(2):
        for index in range(3):
            story.put_pod(made.jobset("w", job, index, replicas=2, gpu=8))


def test_the_indexes_of_every_job_of_a_jobset_count_for_themselves() -> None:
    story = three_racks()
    for node in ("r1n3", "r2n3"):
        story.pod(f"x/{node}", gpu=8, node=node, scheduler="other")
    of_jobs(story)
    names = [f"t/train-w-{job}-{index}-abc12" for job in range(2) for index in range(3)]

    assert [story.ranks("t/train")[name] for name in names] == list(range(6))
    assert [story.bound[name][:2] for name in names] == ["r1"] * 3 + ["r2"] * 3
    assert "warnings" not in story.state["gangs"]["t/train"]


def test_a_pod_of_a_job_comes_back_to_its_own_jobs_rack_and_rank() -> None:
    story = three_racks()
    for node in ("r1n3", "r2n3"):
        story.pod(f"x/{node}", gpu=8, node=node, scheduler="other")
    of_jobs(story)
    for node in ("r1n3", "r2n3"):
        story.delete(f"x/{node}")

    lost = "t/train-w-0-1-abc12"
    node = story.bound[lost]
    story.delete(lost)
    story.pod("x/late", gpu=8, node=node, scheduler="other")
    again = made.jobset("w", 0, 1, replicas=2, gpu=8)
    again["metadata"] |= {"name": "train-w-0-1-xyz98", "uid": "again"}
    story.put_pod(again)

    assert story.bound["t/train-w-0-1-xyz98"] == "r1n3", "not beside the other Job's index 1"
    assert story.ranks("t/train")["t/train-w-0-1-xyz98"] == 1


def test_an_index_that_two_pods_of_one_job_have_is_told() -> None:
    story = three_racks()
    story.object(made.jobset_object(made.replicated("w", 3, replicas=2, gpu=8)))
    for at, (job, index) in enumerate(((0, 0), (0, 1), (0, 1), (1, 0), (1, 1), (1, 2))):
        pod = made.jobset("w", job, index, replicas=2, gpu=8)
        pod["metadata"] |= {"name": f"{pod['metadata']['name']}-{at}", "uid": f"uid-{at}"}
        story.put_pod(pod)

    warnings = story.state["gangs"]["t/train"]["warnings"]
    assert "2 members of role w have the index 1; they are ranked by name" in warnings
