"""How samples reach the steps: from memory, or through a DataLoader that works ahead.

Either way the samples of a step follow from the global step alone, so a run that resumes, or
whose world changes, goes on with the very next sample.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainer import data, named
from trainer.data import GlobalSampler
from trainer.errors import SettingsError
from trainer.rendezvous import Ranks
from trainer.train_settings import TrainSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Pair = tuple[Tensor, Tensor]

MOST_WORKERS = 8
"""More processes for one rank rather fight over the disk than load faster."""

QUOTA = Path("/sys/fs/cgroup/cpu.max")


class Feed(Protocol):
    """What the steps and the evaluation take."""

    sampler: GlobalSampler
    symbols: int
    """Of a text's alphabet; 0 elsewhere."""
    labels_each: int
    """Labels of one sample."""
    held_out: int
    """Labels in all that are held out."""

    def next(self) -> Pair:
        """This rank's inputs and labels of the next global batch, on the device."""
        ...

    def sample(self) -> Tensor:
        """Inputs as `next` gives them; nothing is consumed."""
        ...

    def evaluation(self) -> Iterator[Pair]:
        """This rank's share of what is held out, in parts."""
        ...


def open_feed(settings: TrainSettings, ranks: Ranks, device: torch.device) -> Feed:
    """Raises DataError, or SettingsError for a --data that is none."""
    if settings.data is None:
        return InMemory(data.load(settings.model, settings.seed).to(device), settings, ranks)
    return Loaded(settings, ranks, device)


class InMemory:
    """The built-in data: smaller than what a DataLoader would cost."""

    def __init__(self, split: data.Split, settings: TrainSettings, ranks: Ranks) -> None:
        self.split, self.ranks = split, ranks
        self.sampler = _sampler(len(split.train_x), settings)
        self.symbols, self.labels_each = split.symbols, split.labels_each
        self.held_out = split.held_out_y.numel()
        self.device = split.train_x.device

    def next(self) -> Pair:
        rows = self.sampler.next(self.ranks.rank, self.ranks.world_size).to(self.device)
        return self.split.train_x[rows], self.split.train_y[rows]

    def sample(self) -> Tensor:
        return self.split.train_x[self.sampler.at(0, self.ranks.rank, self.ranks.world_size)]

    def evaluation(self) -> Iterator[Pair]:
        mine = slice(self.ranks.rank, None, self.ranks.world_size)
        yield self.split.held_out_x[mine], self.split.held_out_y[mine]


class Loaded:
    """A user's datasets, loaded by processes that work ahead of the steps."""

    symbols = 0

    def __init__(self, settings: TrainSettings, ranks: Ranks, device: torch.device) -> None:
        self.settings, self.ranks, self.device = settings, ranks, device
        self.train, self.rest = _datasets(settings, ranks)
        self.sampler = _sampler(len(self.train), settings)
        self.labels_each = _labels(self.train[0])
        self.held_out = len(self.rest) * self.labels_each
        self.loading = loading(settings.workers, ranks, device.type == "cuda")
        self._batches: Iterator[Pair] | None = None

    def next(self) -> Pair:
        if self._batches is None:
            # Only now is it known whether the run resumed.
            self._batches = iter(self._loader(self.train, self._shares(self.sampler.consumed)))
        self.sampler.consumed += self.settings.global_batch
        return self._moved(next(self._batches))

    def sample(self) -> Tensor:
        from torch.utils.data import default_collate

        first = next(self._shares(0))
        x, _ = self._moved(default_collate([self.train[number] for number in first]))
        return x

    def evaluation(self) -> Iterator[Pair]:
        mine = range(self.ranks.rank, len(self.rest), self.ranks.world_size)
        size = max(1, self.settings.global_batch // self.ranks.world_size)
        shares = [list(mine[first : first + size]) for first in range(0, len(mine), size)]
        yield from map(self._moved, self._loader(self.rest, shares))

    def _shares(self, first: int) -> Iterator[list[int]]:
        """Without an end, and in a copy: a loader takes them long before they are trained on."""
        sampler = GlobalSampler(self.sampler.samples, self.sampler.global_batch, self.sampler.seed)
        while True:
            yield sampler.at(first, self.ranks.rank, self.ranks.world_size).tolist()
            first += sampler.global_batch

    def _loader(self, dataset: Any, shares: Any) -> Any:
        from torch.utils.data import DataLoader

        return DataLoader(dataset, batch_sampler=shares, **self.loading.options)

    def _moved(self, pair: Pair) -> Pair:
        x, y = (part.to(self.device, non_blocking=True) for part in pair)
        return x, y


@dataclass(frozen=True, slots=True)
class Loading:
    """How a DataLoader is set."""

    workers: int
    pinned: bool

    @property
    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"num_workers": self.workers, "pin_memory": self.pinned}
        return found | ({"prefetch_factor": 2} if self.workers else {})


def loading(workers: int, ranks: Ranks, gpu: bool, cpus: int | None = None) -> Loading:
    """workers: as asked, -1 for a rank's share of the CPUs less the one that it computes on."""
    if workers < 0:
        share = (cpus if cpus is not None else available_cpus()) // ranks.local_world_size
        workers = max(0, min(MOST_WORKERS, share - 1))
    return Loading(workers, pinned=gpu)


def available_cpus(quota: Path = QUOTA) -> int:
    """CPUs that this container may use: its affinity and its limit, whichever is less."""
    allowed = len(os.sched_getaffinity(0))
    try:
        most, period = quota.read_text(encoding="utf-8").split()
        return max(1, min(allowed, int(most) // int(period)))
    except (OSError, ValueError):
        return allowed  # no file, or `max`: no limit


def _sampler(samples: int, settings: TrainSettings) -> GlobalSampler:
    if settings.global_batch > samples:
        raise SettingsError(
            f"--global-batch {settings.global_batch} is more than the {samples} samples to train on"
        )
    return GlobalSampler(samples, settings.global_batch, settings.seed)


def _datasets(settings: TrainSettings, ranks: Ranks) -> tuple[Any, Any]:
    assert settings.data is not None
    if settings.global_batch < ranks.world_size:
        raise SettingsError(
            f"--global-batch {settings.global_batch} is less than the {ranks.world_size} ranks: "
            "with --data each needs a sample in every step"
        )
    found = named.function(settings.data, "--data")()
    pair = tuple(found) if isinstance(found, tuple | list) else ()
    if len(pair) != 2 or not all(_is_dataset(each) for each in pair):
        raise SettingsError(
            f"--data {settings.data}: want two datasets, each with a length and samples by number, "
            f"and got {type(found).__name__}"
        )
    if not len(pair[0]):
        raise SettingsError(f"--data {settings.data}: the first dataset is empty")
    return pair


def _is_dataset(found: object) -> bool:
    return hasattr(found, "__getitem__") and hasattr(found, "__len__")


def _labels(sample: Any) -> int:
    label = sample[1]
    return int(label.numel()) if hasattr(label, "numel") else 1
