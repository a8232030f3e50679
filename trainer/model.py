"""The models of the built-in training: small enough for a laptop, real enough to learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer import named
from trainer.errors import SettingsError

if TYPE_CHECKING:
    from torch import Tensor, nn

PIXELS, CLASSES = 64, 10
SIDE, PATCH = 8, 2
HEADS = 4
"""Of attention."""
CONTEXT = 64
"""Characters that the GPT sees at once."""


def build(name: str, hidden: int, seed: int, symbols: int = 0) -> nn.Module:
    """A model by its name, with weights by the seed.

    mlp and vit take [n, 64] float32 to [n, 10]; gpt takes [n, 64] int64 to [n, 64, symbols].
    Raises SettingsError for a name that means nothing and for a width that does not fit.
    """
    import torch

    torch.manual_seed(seed)
    if ":" in name:
        net: nn.Module = named.function(name, "--model")()
        return net
    known: dict[str, Callable[[], nn.Module]] = {
        "mlp": lambda: _mlp(hidden),
        "vit": lambda: _vit(hidden),
        "gpt": lambda: _gpt(hidden, symbols),
    }
    if name not in known:
        raise SettingsError(f"--model {name}: want {', '.join(known)} or MODULE:FUNCTION")
    if name != "mlp" and hidden % HEADS:
        raise SettingsError(f"--hidden {hidden}: {name} wants a multiple of {HEADS}")
    try:
        return known[name]()
    except (MemoryError, RuntimeError) as error:
        said = str(error).splitlines()[0] if str(error) else "out of memory"
        raise SettingsError(
            f"--hidden {hidden}: {name} cannot be made here ({said}); choose a smaller one"
        ) from error


def _mlp(hidden: int) -> nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(PIXELS, hidden), nn.ReLU(), nn.Linear(hidden, CLASSES))


def _encoder(width: int, layers: int) -> nn.Module:
    from torch import nn

    layer = nn.TransformerEncoderLayer(
        width, HEADS, 2 * width, dropout=0.0, batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


def _vit(width: int) -> nn.Module:
    """A vision transformer over 16 patches of 2 x 2 pixels."""
    import torch
    from torch import nn

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            patches = (SIDE // PATCH) ** 2
            self.embed = nn.Linear(PATCH * PATCH, width)
            self.place = nn.Parameter(0.02 * torch.randn(patches, width))
            self.body = _encoder(width, 2)
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            rows = x.view(-1, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
            patches = rows.transpose(2, 3).reshape(len(x), -1, PATCH * PATCH)
            scores: Tensor = self.head(self.body(self.embed(patches) + self.place).mean(1))
            return scores

    return Vit()


def _gpt(width: int, symbols: int) -> nn.Module:
    """A causal transformer over characters."""
    import torch
    from torch import nn

    class Gpt(nn.Module):
        mask: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(symbols, width)
            self.place = nn.Parameter(0.02 * torch.randn(CONTEXT, width))
            self.body = _encoder(width, 2)
            self.head = nn.Linear(width, symbols)
            future = torch.triu(torch.full((CONTEXT, CONTEXT), float("-inf")), diagonal=1)
            self.register_buffer("mask", future, persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.head(self.body(self.embed(x) + self.place, mask=self.mask))
            return scores

    return Gpt()
