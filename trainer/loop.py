"""The built-in training: DistributedDataParallel on the digits data set.

The global batch is the same whatever the world size, and gradients are weighted by samples, so
worlds of different sizes compute the same model up to rounding, and a run may resume in a
world of another size.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer import data, model
from trainer.checkpoint import Checkpoint, CheckpointStore
from trainer.interruption import EXIT_CODE, StopFlag, stop_on_sigterm
from trainer.rendezvous import Ranks
from trainer.report import Report, progress
from trainer.settings import TrainSettings

if TYPE_CHECKING:
    import torch
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

log = logging.getLogger("muster.train")


@dataclass(slots=True)
class Job:
    """One rank's share of a run."""

    settings: TrainSettings
    ranks: Ranks
    device: torch.device
    split: data.Split
    network: DistributedDataParallel
    optimizer: Optimizer
    sampler: data.GlobalSampler
    store: CheckpointStore | None
    step: int = 0
    resumed_from: int | None = None


def train(settings: TrainSettings, ranks: Ranks) -> Report | None:
    """Run all steps, or up to the step at which some rank was asked to stop.

    Collective: all ranks of the default process group call it with equal settings.
    Returns the report; None if the run was stopped, with its state saved if it has a
    checkpoint directory. Raises DataError or CheckpointError.
    """
    with stop_on_sigterm() as stop:
        job = _prepare(settings, ranks)
        with _stopping_alone(stop):
            _resume(job)
            stopped = _run(job, stop)
            _save(job)
            if stopped:
                _tell(job, "stopped by SIGTERM at step %d%s", job.step, _where(job))
                return None
            return _evaluate(job)


def leave() -> None:
    """Collective. Wait for the others and take the process group down: the store that they may
    still need lives in one of the processes. A barrier would guess a device; this needs none.
    """
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(1))
    dist.destroy_process_group()


@contextmanager
def _stopping_alone(stop: StopFlag) -> Iterator[None]:
    """Where all pods are evicted at once, some are gone before the ranks could agree on a step.
    What then fails is an eviction, too, and says so by its exit code.
    """
    try:
        yield
    except RuntimeError as error:
        if not stop.requested:
            raise
        log.warning("asked to stop, and another rank is gone; not saved since: %s", error)
        raise SystemExit(EXIT_CODE) from error


def _prepare(settings: TrainSettings, ranks: Ranks) -> Job:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(settings.threads)
    device = _device(ranks)
    split = data.digits(settings.seed)
    bare = model.build(settings.hidden, settings.seed).to(device)
    folder = settings.checkpoint_dir
    return Job(
        settings=settings,
        ranks=ranks,
        device=device,
        split=split.to(device),
        network=DistributedDataParallel(bare),
        optimizer=torch.optim.SGD(bare.parameters(), lr=settings.lr, momentum=settings.momentum),
        sampler=data.GlobalSampler(len(split.train_x), settings.global_batch, settings.seed),
        store=CheckpointStore(folder, settings.keep, ranks.rank) if folder else None,
    )


def _device(ranks: Ranks) -> torch.device:
    import torch

    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", ranks.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _run(job: Job, stop: StopFlag) -> bool:
    """Step until the end; True if some rank asked to stop before it."""
    settings = job.settings
    shown = job.ranks.rank == 0
    with progress(settings.steps, settings.log_every, shown=shown, stream=sys.stderr) as show:
        while job.step < settings.steps:
            loss, stopped = _step(job, stop)
            show(job.step, loss)
            if stopped and job.step < settings.steps:
                return True
            if settings.checkpoint_every and job.step % settings.checkpoint_every == 0:
                _save(job)
    return False


def _step(job: Job, stop: StopFlag) -> tuple[float, bool]:
    """One optimizer step; the mean loss over the global batch, and whether any rank stops."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy

    rows = job.sampler.next(job.ranks.rank, job.ranks.world_size).to(job.device)
    scores = job.network(job.split.train_x[rows])
    total = cross_entropy(scores, job.split.train_y[rows], reduction="sum")
    # DDP averages gradients over ranks: this makes it the mean over samples, also where the
    # ranks' shares of the batch are unequal.
    mean = total * (job.ranks.world_size / job.settings.global_batch)
    mean.backward()  # type: ignore[no-untyped-call]
    job.optimizer.step()
    job.optimizer.zero_grad()
    job.step += 1
    shared = torch.tensor([total.item(), float(stop.requested)], dtype=torch.float64)
    dist.all_reduce(shared)
    return shared[0].item() / job.settings.global_batch, shared[1].item() > 0


def _evaluate(job: Job) -> Report:
    """Loss and accuracy over the held-out samples, each rank taking its share."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy

    rank, world = job.ranks.rank, job.ranks.world_size
    x, y = job.split.held_out_x[rank::world], job.split.held_out_y[rank::world]
    with torch.no_grad():
        scores = job.network.module(x)
        loss = cross_entropy(scores.double(), y, reduction="sum")
        right = (scores.argmax(1) == y).sum()
    shared = torch.tensor([loss.item(), right.item()], dtype=torch.float64)
    dist.all_reduce(shared)
    samples = len(job.split.held_out_y)
    return Report(
        world=world,
        rank_order=job.ranks.places,
        accuracy=round(shared[1].item() / samples, 6),
        loss=shared[0].item() / samples,
        steps=job.step,
        resumed_from=job.resumed_from,
    )


def _state(job: Job) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, optimizer = get_state_dict(job.network, job.optimizer)
    progress = {"step": job.step, "sampler": job.sampler.state_dict()}
    return {"model": weights, "optimizer": optimizer, "progress": progress}


def _save(job: Job) -> None:
    if job.store is not None and job.store.save(job.step, _state(job)):
        _tell(job, "saved %s", job.store.path(job.step))


def _resume(job: Job) -> None:
    newest = job.store.newest() if job.store else None
    if newest is None:
        return
    _load(job, newest)
    job.resumed_from = job.step
    _tell(job, "resumed at step %d from %s", job.step, newest.path)


def _load(job: Job, checkpoint: Checkpoint) -> None:
    from torch.distributed.checkpoint.state_dict import set_state_dict

    assert job.store is not None
    state = _state(job)
    job.store.load(checkpoint, state)
    set_state_dict(
        job.network,
        job.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    job.step = state["progress"]["step"]
    job.sampler.load_state_dict(state["progress"]["sampler"])


def _where(job: Job) -> str:
    return "" if job.store else "; nothing was saved, as there is no --checkpoint-dir"


def _tell(job: Job, message: str, *values: object) -> None:
    if job.ranks.rank == 0:
        log.info(message, *values)
