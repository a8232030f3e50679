"""C23: what may be evicted: nobody, unless the engine has decided that very eviction."""

from __future__ import annotations

import builders
import pytest

from .story import Story


@pytest.mark.parametrize(
    "victims",
    [{}, {"n1": ["t/v"]}, {"n1": []}, {"ghost": ["t/v"]}, {"n1": ["nobody"], "n2": ["t/v"]}],
)
@pytest.mark.parametrize("pod", ["t/A-0", "t/plain", "t/never-seen"])
def test_no_candidate_is_ever_allowed(pod: str, victims: dict[str, list[str]]) -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/v", gpu=8, node="n1")
    story.gang("A", 1, of=8, priority=1000, min=2)
    story.pod("t/plain", priority=1000)

    assert story.preempt(pod, victims) == {}


def test_whole_requests_of_either_kind_get_the_same() -> None:
    story = Story()
    story.node("n1", gpu=8)
    story.pod("t/v", gpu=8, node="n1")
    pod = builders.pod("t/h", gpu=8, priority=10)
    meta = {"n1": {"Pods": [{"UID": "t/v"}], "NumPDBViolations": 1}}
    full = {"n1": {"Pods": [builders.pod("t/v", gpu=8, node="n1")]}}

    assert story.call("preempt", {"Pod": pod, "NodeNameToMetaVictims": meta})["victims"] == {}
    assert story.call("preempt", {"Pod": pod, "NodeNameToVictims": full})["victims"] == {}
    assert story.call("preempt", {"Pod": pod, "NodeNameToVictims": {"n1": {}}})["victims"] == {}
