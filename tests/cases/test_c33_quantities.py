"""C33 (end to end): odd, huge and hostile quantities."""

from __future__ import annotations

import pytest

from .story import Story


@pytest.mark.parametrize("memory", ["50E", "1e999999999", "9223372036854775808", "100000E"])
def test_too_big_is_never_small_enough(memory: str) -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.pod("t/p", gpu=1, memory=memory)

    assert story.filter("t/p")["nodes"] == []
    assert story.placed == {}


@pytest.mark.parametrize("gpu", ["1500m", "0.5", "-1", "NaN", "many", "1K", " 1", "٣"])
def test_a_part_of_a_gpu_is_refused_with_the_fields_name(gpu: str) -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.pod("t/p", gpu=gpu)

    assert "spec.containers[0].resources" in story.reason("t/p")
    assert story.placed == {}


@pytest.mark.parametrize(("gpu", "count"), [("1e0", 1), ("2000m", 2), ("4", 4), ("0.8e1", 8)])
def test_whole_gpus_however_they_are_written(gpu: str, count: int) -> None:
    story = Story()
    story.node("n1", gpu=8)

    story.pod("t/p", gpu=gpu)

    assert story.free("n1") == str(8 - count)


def test_a_tenth_of_a_millicore_counts_as_a_whole_one() -> None:
    story = Story()
    story.node("n1", gpu=8, cpu="2m")
    for name in ("a", "b", "c"):
        story.pod(f"t/{name}", gpu=1, cpu="0.1m")

    assert sorted(story.bound) == ["t/a", "t/b"]


@pytest.mark.parametrize("gpu", ["NaN", "-8", "eight", "1e999999999999", ""])
def test_a_node_whose_gpus_cannot_be_read_has_none(gpu: str) -> None:
    story = Story()
    story.node("n1", gpu=gpu)
    story.node("n2", gpu=8)
    story.pod("t/p", gpu=8)
    story.pod("t/q", gpu=1)

    assert story.bound == {"t/p": "n2"}


@pytest.mark.parametrize("memory", ["9223372036854775808", "8E", "100E"])
def test_a_node_of_any_size_is_counted_exactly(memory: str) -> None:
    story = Story()
    story.node("n1", gpu=8, memory=memory)

    story.pod("t/p", gpu=1, memory="1Gi")

    assert story.bound == {"t/p": "n1"}


def test_one_unreadable_pod_harms_no_other() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/bad", gpu=1, memory="lots")
    story.pod("t/good", gpu=1)

    assert story.bound == {"t/good": "n1"}
