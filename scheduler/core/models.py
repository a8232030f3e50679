"""Which model of GPU a node has, and whether that is one that somebody asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "node.koordinator.sh/gpu-model",
    "cloud.google.com/gke-accelerator",
)
"""Labels that name the model, the first that a node has counts."""

_SLICED = frozenset({"mig", "shared"})
"""Words by which a label says that its GPUs are parts of what the model is."""


def model_of(labels: Mapping[str, str]) -> str:
    """The model as the node's labels name it; "" if none does."""
    return next((labels[key] for key in LABELS if labels.get(key)), "")


def is_one_of(labels: Mapping[str, str], models: Iterable[str]) -> bool:
    """Whether the node's model is one of these."""
    named = model_of(labels)
    return bool(named) and any(is_same(model, named) for model in models)


@lru_cache(maxsize=4096)
def is_same(asked: str, named: str) -> bool:
    """Whether a label's value is the model that is asked for, by its words, whatever the case.

    Slices and shared GPUs carry their model's name too; they count only if asked for by that word.

    >>> is_same("H100", "NVIDIA-H100-80GB-HBM3"), is_same("A100-SXM4", "NVIDIA-A100-SXM4-40GB")
    (True, True)
    >>> is_same("A10", "NVIDIA-A100-PCIE-40GB"), is_same("A100", "A100-SXM4-40GB-MIG-1g.5gb")
    (False, False)
    """
    wanted, words = _words(asked), _words(named)
    if not _SLICED.isdisjoint(set(words) - set(wanted)):
        return False
    size = len(wanted)
    return any(words[at : at + size] == wanted for at in range(len(words) - size + 1))


def _words(text: str) -> list[str]:
    return re.split(r"[-_ ]+", text.lower())
