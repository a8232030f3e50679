"""C08: the number of pods is reached, but a whole role is missing."""

from __future__ import annotations

from itertools import permutations

import pytest

from .story import Story

WORKERS = [f"t/A-w{member}" for member in range(4)]
LAUNCHER = "t/A-m"


def cluster() -> Story:
    story = Story()
    story.node("n0")
    story.node("n1", gpu=8)
    story.node("n2", gpu=8)
    return story


def add_worker(story: Story, key: str) -> None:
    story.pod(key, gpu=4, gang="A", min=5, role="w", options={"role-min": '{"m": 1, "w": 4}'})


def add_launcher(story: Story, **more: object) -> None:
    fields = {"cpu": "4", "role": "m", "options": {"role-min": '{"m": 1, "w": 4}'}} | more
    story.pod(LAUNCHER, gang="A", min=5, **fields)


def test_workers_alone_wait_for_their_launcher() -> None:
    story = cluster()
    for key in WORKERS:
        add_worker(story, key)

    assert story.places(*WORKERS) == [[]] * 4
    assert story.placed == {}


@pytest.mark.parametrize("launcher_at", range(5))
def test_the_launcher_wastes_no_gpu_node_whenever_it_is_created(launcher_at: int) -> None:
    story = cluster()
    for at in range(5):
        if at == launcher_at:
            add_launcher(story)
        if at < 4:
            add_worker(story, WORKERS[at])

    assert story.bound[LAUNCHER] == "n0"
    assert sorted(story.bound[key] for key in WORKERS) == ["n1", "n1", "n2", "n2"]
    assert story.ranks("t/A")[LAUNCHER] == 0, "launchers expect rank 0"


def test_a_launcher_that_fits_only_a_lost_node_holds_its_workers_too() -> None:
    story = cluster()
    story.node("n9", labels={"for": "launchers"}, ready=False)
    add_launcher(story, spec={"nodeSelector": {"for": "launchers"}})
    for key in WORKERS:
        add_worker(story, key)

    assert story.places(LAUNCHER, *WORKERS) == [[]] * 5
    assert story.placed == {}
    story.node("n9", labels={"for": "launchers"})
    assert story.bound[LAUNCHER] == "n9"
    assert len(story.bound) == 5


@pytest.mark.parametrize(
    "order", list(permutations(range(3))), ids=lambda order: "".join(map(str, order))
)
def test_the_largest_role_is_placed_first(order: tuple[int, ...]) -> None:
    story = Story()
    for name, gpu in (("n1", 8), ("n2", 8), ("n3", 4), ("n4", 1)):
        story.node(name, gpu=gpu)
    roles = [("big", 8, 2), ("mid", 4, 1), ("small", 1, 1)]

    for at in order:
        role, gpu, count = roles[at]
        for member in range(count):
            story.pod(f"t/A-{role}-{member}", gpu=gpu, gang="A", min=4, role=role)

    assert story.bound == {
        "t/A-big-0": "n1",
        "t/A-big-1": "n2",
        "t/A-mid-0": "n3",
        "t/A-small-0": "n4",
    }
