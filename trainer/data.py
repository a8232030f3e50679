"""The digits data set, and a sampler whose order does not depend on the world size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.errors import CheckpointError, DataError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

HELD_OUT = 0.2


@dataclass(frozen=True, slots=True)
class Split:
    """Digits: images as float32 [n, 64] in 0..1, labels as int64 [n]. Text: int64 [n, 64] both."""

    train_x: Tensor
    train_y: Tensor
    held_out_x: Tensor
    held_out_y: Tensor
    symbols: int = 0
    """Of a text's alphabet."""

    @property
    def labels_each(self) -> int:
        """Labels of one sample."""
        return self.train_y[0].numel()

    def to(self, device: torch.device) -> Split:
        tensors = [item.name for item in fields(self) if item.name != "symbols"]
        return replace(self, **{name: getattr(self, name).to(device) for name in tensors})


def load(model: str, seed: int) -> Split:
    """The data that a model learns from."""
    return characters(seed) if model == "gpt" else digits(seed)


def characters(seed: int) -> Split:
    """Windows of 64 characters of Python's own help texts, each labelled with the next one.

    The alphabet is ASCII. Raises DataError where the interpreter came without its texts.
    """
    import torch

    from trainer.model import CONTEXT

    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError("this Python came without pydoc_data, the text for --model gpt") from error
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    count = (len(codes) - 1) // CONTEXT
    x = codes[: count * CONTEXT].view(count, CONTEXT)
    y = codes[1 : count * CONTEXT + 1].view(count, CONTEXT)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    x, y = x[order], y[order]
    held_out = int(count * HELD_OUT)
    return Split(x[held_out:], y[held_out:], x[:held_out], y[:held_out], symbols=128)


def digits(seed: int) -> Split:
    """1797 images of handwritten digits, 8 x 8, split by the seed. Raises DataError."""
    import torch

    table = torch.from_numpy(_digits_table())
    order = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))
    table = table[order]
    x, y = (table[:, :-1] / 16).float(), table[:, -1].long()
    held_out = int(len(table) * HELD_OUT)
    return Split(x[held_out:], y[held_out:], x[:held_out], y[:held_out])


def _digits_table() -> np.ndarray[Any, Any]:
    """[1797, 65]: 64 pixels of 0..16 and the label.

    The file is read without importing scikit-learn, which takes longer than training on it.
    """
    import numpy as np

    path = _packaged("sklearn", "datasets/data/digits.csv.gz")
    if path is not None:
        return np.loadtxt(path, delimiter=",")
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError(
            "the digits data set comes with scikit-learn, which is not installed; "
            "pip install scikit-learn"
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    return np.column_stack([pixels, labels])


def _packaged(package: str, file: str) -> Path | None:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / file
        if path.is_file():
            return path
    return None


class GlobalSampler:
    """Cuts batches of a fixed global size from one endless stream of sample numbers.

    The stream is one seeded permutation of the data after another, so every sample comes once
    in an epoch and a batch may straddle two. A rank takes every world-size-th number of the
    batch: together the ranks take the same samples at every step whatever the world size, and
    a run may resume with another one. The state is the seed and the samples consumed.
    """

    def __init__(self, samples: int, global_batch: int, seed: int) -> None:
        self.samples = samples
        self.global_batch = global_batch
        self.seed = seed
        self.consumed = 0
        self._epochs: dict[int, Tensor] = {}

    def next(self, rank: int, world_size: int) -> Tensor:
        """This rank's sample numbers of the next global batch (possibly none), int64 [k]."""
        first = self.consumed
        self.consumed += self.global_batch
        return self.at(first, rank, world_size)

    def at(self, first: int, rank: int, world_size: int) -> Tensor:
        """The same for the batch that begins behind so many samples; nothing is consumed."""
        import torch

        last = first + self.global_batch
        parts = []
        for epoch in range(first // self.samples, (last - 1) // self.samples + 1):
            begin = max(first, epoch * self.samples)
            end = min(last, (epoch + 1) * self.samples)
            # The first position behind `begin` that is this rank's.
            mine = begin + (rank - (begin - first)) % world_size - epoch * self.samples
            parts.append(self._permutation(epoch)[mine : end - epoch * self.samples : world_size])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def state_dict(self) -> dict[str, int]:
        return {"seed": self.seed, "samples": self.samples, "consumed": self.consumed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue behind the last sample consumed. Raises CheckpointError for other data."""
        for name in ("seed", "samples"):
            if state[name] != getattr(self, name):
                raise CheckpointError(
                    f"the checkpoint was made with {name}={state[name]} and this run has "
                    f"{getattr(self, name)}; use another --checkpoint-dir or the same data and seed"
                )
        self.consumed = state["consumed"]

    def _permutation(self, epoch: int) -> Tensor:
        import torch

        if epoch not in self._epochs:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            self._epochs = {
                kept: order for kept, order in self._epochs.items() if kept == epoch - 1
            }
            self._epochs[epoch] = torch.randperm(self.samples, generator=generator)
        return self._epochs[epoch]
