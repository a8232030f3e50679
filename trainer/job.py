"""One rank's share of a run: its data, model, optimizer and whatever else lives over the steps."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainer import model, network
from trainer.checkpoint import CheckpointStore
from trainer.feed import Feed, open_feed
from trainer.hooks import LocalSgd
from trainer.pace import Pace
from trainer.rendezvous import Ranks
from trainer.train_settings import TrainSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer


@dataclass(slots=True)
class Job:
    """One rank's share of a run."""

    settings: TrainSettings
    ranks: Ranks
    device: torch.device
    feed: Feed
    network: DistributedDataParallel
    parameters: tuple[Tensor, ...]
    """Of the network; walking its modules in every step takes as long as adding them up."""
    local: LocalSgd | None
    """With --comm-hook localsgd only."""
    optimizer: Optimizer
    scaler: torch.amp.GradScaler
    store: CheckpointStore | None
    step: int = 0
    resumed_from: int | None = None
    loss: float = float("nan")
    """Mean over the global batch, when the ranks last agreed."""
    agree_at: int = 0
    """Step at which they will again."""
    bad_in_a_row: int = 0
    skipped: int = 0
    """Steps without a finite loss or gradient."""
    pace: Pace = field(default_factory=Pace)

    def autocast(self) -> Any:
        import torch

        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self.settings.precision)
        return torch.autocast(self.device.type, kind) if kind else nullcontext()


def prepare(settings: TrainSettings, ranks: Ranks) -> Job:
    """Collective. Everything that the steps need. Raises DataError, SettingsError, or
    CheckpointError where nothing could be saved.
    """
    import torch

    torch.set_num_threads(settings.threads)
    torch.use_deterministic_algorithms(settings.deterministic)
    device = _device(ranks)
    store = _store(settings, ranks)
    feed = open_feed(settings, ranks, device)
    bare = model.build(settings.model, settings.hidden, settings.seed, feed.symbols).to(device)
    wrapped, local = network.wrap(bare, feed.sample, settings, ranks)
    return Job(
        settings=settings,
        ranks=ranks,
        device=device,
        feed=feed,
        network=wrapped,
        parameters=tuple(wrapped.parameters()),
        local=local,
        optimizer=torch.optim.SGD(bare.parameters(), lr=settings.lr, momentum=settings.momentum),
        scaler=torch.amp.GradScaler(device.type, enabled=settings.precision == "fp16"),
        store=store,
    )


def _store(settings: TrainSettings, ranks: Ranks) -> CheckpointStore | None:
    folder = settings.checkpoint_dir
    if folder is None:
        return None
    store = CheckpointStore(folder, settings.keep, ranks.rank, settings.async_save)
    store.open()
    return store


def _device(ranks: Ranks) -> torch.device:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", ranks.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
