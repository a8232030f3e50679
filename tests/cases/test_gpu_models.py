"""GPU models by node label: those that will do, and those to try first."""

from __future__ import annotations

import pytest

from scheduler.core.models import is_same

from .story import Story

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"


def mixed() -> Story:
    story = Story()
    for name, model in (("a1", A100), ("a2", A100), ("h1", H100), ("h2", H100)):
        labels = {"nvidia.com/gpu.product": model}
        story.node(name, gpu=8, block="b", rack="r", labels=labels)
    story.node("cpu", block="b", rack="r")
    return story


def nodes_of(story: Story, gang: str) -> set[str]:
    return {node for pod, node in story.bound.items() if pod.startswith(f"t/{gang}-")}


def test_only_a_required_model_will_do() -> None:
    story = mixed()
    story.gang("A", 2, of=8, options={"gpu-model-required": "H100"})
    assert nodes_of(story, "A") == {"h1", "h2"}

    story.gang("B", 1, of=8, options={"gpu-model-required": "H100, H200"})
    assert "B-0" not in str(story.bound)
    assert "no room: 0 of 1 placeable" in story.reason("t/B-0")


def test_a_model_that_no_node_has_is_named() -> None:
    story = mixed()
    story.gang("A", 1, of=8, options={"gpu-model-required": "B200"})
    assert "no usable node has GPU model B200" in story.reason("t/A-0")
    assert "never fits" in story.reason("t/A-0")


def test_a_preferred_model_is_tried_first_and_another_is_taken_whole() -> None:
    story = mixed()
    story.gang("A", 1, of=8, options={"gpu-model-preferred": "H100,A100"})
    assert nodes_of(story, "A") == {"h1"}
    story.gang("B", 2, of=8, options={"gpu-model-preferred": "H100,A100"})
    assert nodes_of(story, "B") == {"a1", "a2"}, "models are not mixed while one has room for all"
    story.gang("C", 1, of=8, options={"gpu-model-preferred": "A100"})
    assert nodes_of(story, "C") == {"h2"}, "a wish is no requirement"


def test_each_role_may_name_its_own_model_and_a_launcher_none() -> None:
    story = mixed()
    story.pod("t/M-0", gang="M", min=3, cpu="4", role="launcher")
    story.pod("t/M-1", gang="M", min=3, gpu=8, options={"gpu-model-required": "A100"})
    story.pod("t/M-2", gang="M", min=3, gpu=8, options={"gpu-model-required": "H100"})
    assert story.bound == {"t/M-0": "cpu", "t/M-1": "a1", "t/M-2": "h1"}
    assert "gpu-model" not in str(story.why("t/M"))


def test_a_single_pod_may_ask_for_a_model_too() -> None:
    story = mixed()
    story.pod("t/one", gpu=1, options={"gpu-model-required": "H100"})
    assert story.bound == {"t/one": "h1"}


def test_node_affinity_chooses_the_class_of_each_role_in_a_mixed_gang() -> None:
    story = Story()
    story.node("gaudi", allocatable={"habana.ai/gaudi": "8"}, labels={"class": "gaudi"})
    story.node("h1", gpu=8, labels={"class": "h100"})
    story.node("a1", gpu=8, labels={"class": "a100"})

    def only(name: str) -> dict[str, object]:
        term = {"matchExpressions": [{"key": "class", "operator": "In", "values": [name]}]}
        required = {"nodeSelectorTerms": [term]}
        return {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
            }
        }

    story.pod("t/M-0", gang="M", min=3, gpu=8, spec=only("h100"))
    story.pod("t/M-1", gang="M", min=3, gpu=8, spec=only("a100"))
    assert story.bound == {}
    story.pod("t/M-2", gang="M", min=3, requests={"habana.ai/gaudi": "8"}, spec=only("gaudi"))
    assert story.bound == {"t/M-0": "h1", "t/M-1": "a1", "t/M-2": "gaudi"}


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/mig-3g.40gb",
        "amd.com/gpu",
        "habana.ai/gaudi",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "example.com/npu-2",
    ],
)
def test_every_sort_of_accelerator_is_placed_with_the_same_care(resource: str) -> None:
    more = {"accelerators": [resource[:-1] + "*"]} if resource.startswith("example") else {}
    story = Story(**more)
    for name, rack in (("n1", "r1"), ("n2", "r2"), ("n3", "r2"), ("n4", "r1")):
        story.node(name, allocatable={resource: "8"}, block="b", rack=rack)
    story.node("cpu", block="b", rack="r2")
    story.pod("x/a", requests={resource: "5"}, node="n1", scheduler="other")

    story.pod("t/one", requests={resource: "2"})
    assert story.bound["t/one"] == "n1", "a single pod takes the node that is broken already"
    for member in range(2):
        story.pod(f"t/A-{member}", gang="A", min=3, requests={resource: "8"}, role="worker")
    assert "t/A-0" not in story.placed
    story.pod("t/A-2", gang="A", min=3, cpu="4", role="launcher")
    assert {story.bound[f"t/A-{member}"] for member in range(2)} == {"n2", "n3"}, "the whole rack"
    assert story.bound["t/A-2"] == "cpu", "it leaves accelerators alone"


def test_names_of_one_s_own_are_added_to_those_that_are_known() -> None:
    """The scheduler is told to leave the known ones to Muster: nobody else would count them."""
    story = Story(accelerators=["example.com/npu"])
    story.node("n1", allocatable={"nvidia.com/gpu": "8", "example.com/npu": "4"})
    for resource, room in (("nvidia.com/gpu", 8), ("example.com/npu", 4)):
        story.pod(f"t/{room}-fits", requests={resource: str(room)})
        story.pod(f"t/{room}-does-not", requests={resource: "1"})
        assert story.bound.get(f"t/{room}-fits") == "n1"
        assert f"t/{room}-does-not" not in story.bound


@pytest.mark.parametrize(
    ("asked", "named", "same"),
    [
        ("H100", H100, True),
        ("h100", H100, True),
        ("A100-SXM4", A100, True),
        (A100, A100, True),
        ("A10", A100, False),
        ("100", A100, False),
        ("A100", "A100-SXM4-40GB-MIG-1g.5gb", False),
        ("A100-SXM4-40GB-MIG-1g.5gb", "A100-SXM4-40GB-MIG-1g.5gb", True),
        ("T4", "Tesla-T4-SHARED", False),
        ("Tesla T4", "Tesla-T4", True),
    ],
)
def test_a_model_is_known_by_its_words(asked: str, named: str, same: bool) -> None:
    assert is_same(asked, named) is same
