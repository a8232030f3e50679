"""What a pod asks for in all: the table of the kubelet and the scheduler (sidecars and all)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.requests import InitContainer, PodLevel, total

GPU = "nvidia.com/gpu"


def gpus(amount: int) -> Mapping[str, int]:
    return {GPU: amount}


def plain(amount: int) -> InitContainer:
    return InitContainer(gpus(amount))


def sidecar(amount: int) -> InitContainer:
    return InitContainer(gpus(amount), sidecar=True)


@pytest.mark.parametrize(
    ("apps", "inits", "want"),
    [
        ([4], [], 4),
        ([1, 1, 1], [], 3),
        ([4], [plain(8)], 8),
        ([4], [sidecar(4)], 8),
        ([4], [plain(6), sidecar(2)], 6),
        ([4], [sidecar(2), plain(6)], 8),
        ([4], [sidecar(2), plain(1), sidecar(3)], 9),
        ([1], [plain(3), plain(5), plain(4)], 5),
        ([], [plain(2)], 2),
        ([2], [sidecar(2)], 4),
    ],
)
def test_containers_add_up(apps: Sequence[int], inits: Sequence[InitContainer], want: int) -> None:
    assert total([gpus(each) for each in apps], inits) == {GPU: want, "pods": 1}


def test_every_resource_has_its_own_maximum() -> None:
    asked = total([{"cpu": 100, "memory": 5}], [InitContainer({"cpu": 50, "memory": 9, GPU: 1})])
    assert asked == {"cpu": 100, "memory": 9, GPU: 1, "pods": 1}


def test_nothing_asked_is_still_one_pod() -> None:
    assert total([]) == {"pods": 1}
    assert total([gpus(0)]) == {"pods": 1}, "no GPUs is not a GPU pod"


def test_the_overhead_comes_on_top() -> None:
    assert total([{"cpu": 1000}], overhead={"cpu": 250})["cpu"] == 1250


def test_pod_level_values_replace_the_sum_of_cpu_but_not_of_gpus() -> None:
    level = PodLevel(requests={"cpu": 3000, GPU: 99})
    apps = [{"cpu": 1000, GPU: 1}, {"cpu": 1000, GPU: 1}]
    assert total(apps, pod_level=level) == {"cpu": 3000, GPU: 2, "pods": 1}
    assert total(apps, overhead={"cpu": 250}, pod_level=level)["cpu"] == 3250


def test_a_pod_level_limit_counts_only_where_nobody_states_a_request() -> None:
    level = PodLevel(limits={"cpu": 5000, "memory": 7, "hugepages-2Mi": 4, GPU: 9})
    assert total([{"cpu": 1000}], pod_level=level) == {
        "cpu": 1000,
        "memory": 7,
        "hugepages-2Mi": 4,
        "pods": 1,
    }


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 9))
init_containers = st.builds(InitContainer, amounts, st.booleans())


def peak_by_simulation(
    apps: list[dict[str, int]], inits: list[InitContainer], resource: str
) -> int:
    """Start the pod step by step and note the most that ever runs at once."""
    running, peak = 0, 0
    for init in inits:
        running += init.requests.get(resource, 0)
        peak = max(peak, running)
        if not init.sidecar:
            running -= init.requests.get(resource, 0)
    running += sum(app.get(resource, 0) for app in apps)
    return max(peak, running)


@given(st.lists(amounts, max_size=4), st.lists(init_containers, max_size=5))
def test_the_total_is_the_most_that_ever_runs_at_once(
    apps: list[dict[str, int]], inits: list[InitContainer]
) -> None:
    asked = total(apps, inits)
    for resource in ("cpu", "memory", GPU):
        assert asked.get(resource, 0) == peak_by_simulation(apps, inits, resource)
