"""Whether members ask for enough processors and memory to keep their accelerators busy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.core import quantity
from scheduler.core.quoting import bounded
from scheduler.model import Pod

CORES = 4
"""Processors for each accelerator below which data loaders hardly keep up."""
MEMORY = 8 * 2**30
"""Bytes for each accelerator below which loaders and pinned buffers hardly have room."""

_SLICE = "nvidia.com/mig-"
"""A part of a GPU needs less beside it; nobody says how much."""


def warnings(pods: Iterable[Pod], is_accelerator: Callable[[str], bool]) -> list[str]:
    """What is meagre, each once, with the first pod by name and how many others are alike."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if text := _of(pod, is_accelerator):
            found.setdefault(text, []).append(pod.key)
    return [bounded(f"{_named(sorted(keys))}: {text}") for text, keys in sorted(found.items())]


def _of(pod: Pod, is_accelerator: Callable[[str], bool]) -> str:
    asked = {name: amount for name, amount in pod.requests.items() if is_accelerator(name)}
    devices = sum(amount for name, amount in asked.items() if not name.startswith(_SLICE))
    least = {"cpu": 1000 * CORES, "memory": MEMORY}
    meagre = {name: pod.requests.get(name, 0) for name in least}
    meagre = {name: amount for name, amount in meagre.items() if amount < least[name] * devices}
    if not meagre:
        return ""
    accelerators = "one accelerator" if devices == 1 else f"{devices} accelerators"
    return (
        f"asks for {_amounts(meagre)} beside {accelerators}; with less than"
        f" {_amounts({name: least[name] for name in meagre})} for each they may wait for data"
    )


def _amounts(amounts: dict[str, int]) -> str:
    return " and ".join(
        f"{name} {quantity.format(name, amount)}" if amount else f"no {name}"
        for name, amount in amounts.items()
    )


def _named(keys: list[str]) -> str:
    return f"{keys[0]} and {len(keys) - 1} more" if len(keys) > 1 else keys[0]
