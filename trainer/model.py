"""The model of the built-in training: small enough for a laptop, real enough to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

PIXELS, CLASSES = 64, 10


def build(hidden: int, seed: int) -> nn.Module:
    """A perceptron with one hidden layer, [n, 64] -> [n, 10] float32; weights by the seed."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))
