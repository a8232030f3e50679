"""C11: a delete event is lost or late, and GPUs stay reserved for a ghost."""

from __future__ import annotations

from .story import Story


def test_a_list_without_the_pod_frees_its_gpus() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/g", gpu=8, node="n1", phase="Running")
    story.pod("t/h", gpu=8)
    assert story.bound == {"t/g": "n1"}

    story.delete("t/g")
    story.restart()

    assert story.bound == {"t/h": "n1"}


def test_a_delete_that_comes_twice_or_first_is_harmless() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.delete("t/g", uid="never-seen")
    story.pod("t/g", gpu=8, node="n1")
    story.delete("t/g")
    story.delete("t/g")
    story.delete("t/g", uid="t/g")

    assert story.free("n1") == "8"


def test_a_late_delete_of_an_earlier_pod_leaves_its_namesake_alone() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/g", gpu=4, node="n1", uid="first")
    story.pod("t/g", gpu=8, node="n1", uid="second")

    story.delete("t/g", uid="first")

    assert story.bound == {"t/g": "n1"}
    assert story.free("n1") == "0"


def test_the_same_pod_shown_again_counts_once() -> None:
    story = Story()
    story.node("n1", gpu=8)
    for _ in range(3):
        story.pod("t/g", gpu=4, node="n1")

    assert story.free("n1") == "4"


def test_a_node_that_is_gone_and_comes_back_still_has_its_pods() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("other/g", gpu=6, node="n1", scheduler="default-scheduler")
    story.delete("n1", "Node")
    assert story.state["free"] == {}

    story.node("n1", gpu=8)

    assert story.free("n1") == "2"


def test_a_pod_may_be_shown_before_its_node() -> None:
    story = Story()
    story.pod("t/g", gpu=6, node="n1")

    story.node("n1", gpu=8)

    assert story.free("n1") == "2"


def test_a_terminal_pod_gives_its_gpus_back_while_it_is_still_listed() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/g", gpu=8, node="n1")
    story.pod("t/h", gpu=8)
    assert "t/h" not in story.placed

    story.pod("t/g", gpu=8, node="n1", phase="Succeeded")

    assert story.bound == {"t/h": "n1"}
