"""The built-in training: DistributedDataParallel over steps, with whatever may happen on the way.

The global batch is the same whatever the world size, and gradients are weighted by samples, so
worlds of different sizes compute the same model up to rounding, and a run may resume in a
world of another size.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import flight, hooks, profiling
from trainer import step as stepping
from trainer.checkpoint import Checkpoint
from trainer.errors import PeerError
from trainer.eyes import Eyes
from trainer.interruption import EXIT_CODE, StopFlag, stop_on_sigterm
from trainer.job import Job, prepare
from trainer.network import laid_out
from trainer.rendezvous import Ranks
from trainer.report import Report, progress
from trainer.train_settings import TrainSettings

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("muster.train")


def train(settings: TrainSettings, ranks: Ranks) -> Report | None:
    """Run all steps, or up to the step at which some rank was asked to stop.

    Collective: all ranks of the default process group call it with equal settings.
    Returns the report; None if the run was stopped, with its state saved if it has a
    checkpoint directory. Raises DataError, CheckpointError, PeerError or DivergedError.
    """
    with stop_on_sigterm() as stop:
        return _to_the_end(settings, ranks, stop)


def _to_the_end(settings: TrainSettings, ranks: Ranks, stop: StopFlag) -> Report | None:
    under_way: list[Job] = []

    def step() -> int:
        return under_way[0].step + 1 if under_way else 0

    with _stopping_alone(stop), flight.explained(ranks.rank, step, _flight_dir(settings)):
        job = prepare(settings, ranks)
        under_way.append(job)
        _advise(job)
        with Eyes(job) as eyes:
            _resume(job)
            eyes.open()
            stopped = run(job, stop, eyes)
            _save(job)
            _finish_saving(job)
            if stopped:
                _tell(job, "stopped by SIGTERM at step %d%s", job.step, _where(job))
                return None
            return _evaluate(job)


def _flight_dir(settings: TrainSettings) -> Path | None:
    folder = settings.checkpoint_dir
    return settings.flight_dir or (folder / "flight" if folder else None)


def leave() -> None:
    """Collective. Wait for the others and take the process group down: the store that they may
    still need lives in one of the processes. A barrier would guess a device; this needs none.

    Raises PeerError where another rank did not come that far.
    """
    import torch
    import torch.distributed as dist

    try:
        dist.all_reduce(torch.zeros(1))
    except RuntimeError as error:
        raise PeerError(f"another rank was lost at the very end: {error}") from error
    dist.destroy_process_group()


@contextmanager
def _stopping_alone(stop: StopFlag) -> Iterator[None]:
    """Where all pods are evicted at once, some are gone before the ranks could agree on a step.
    What then fails is an eviction, too, and says so by its exit code.
    """
    try:
        yield
    except (RuntimeError, PeerError) as error:
        if not stop.requested:
            raise
        log.warning("asked to stop, and another rank is gone; not saved since: %s", error)
        raise SystemExit(EXIT_CODE) from error


def run(job: Job, stop: StopFlag, eyes: Eyes) -> bool:
    """Step until the end; True if some rank asked to stop before it."""
    settings, first = job.settings, job.step
    shown = job.ranks.rank == 0
    with (
        progress(settings.steps, settings.log_every, shown=shown, stream=sys.stderr) as show,
        profiling.watching(job) as traced,
    ):
        while job.step < settings.steps:
            outcome = stepping.take(job, stop)
            if job.step == first + 1:
                _shorten_timeout(settings)
            traced()
            eyes.see(outcome)
            show(job.step, outcome.loss)
            if outcome.stop and job.step < settings.steps:
                return True
            _save_if_due(job, outcome)
    return False


def _shorten_timeout(settings: TrainSettings) -> None:
    """The first step waits for the slowest start; from then on a long wait is a fault."""
    import torch.distributed as dist

    if settings.timeout != settings.init_timeout:
        dist.set_timeout(timedelta(seconds=settings.timeout))


def _save_if_due(job: Job, outcome: stepping.Outcome) -> None:
    if job.store is not None and job.store.under_way and outcome.saved:
        _finish_saving(job)
    every = job.settings.checkpoint_every
    if every and job.step % every == 0:
        _save(job)


def _evaluate(job: Job) -> Report:
    """Loss and accuracy over the held-out samples, each rank taking its share."""
    import torch
    import torch.distributed as dist

    loss, right = 0.0, 0.0
    bare = job.network.module.eval()
    with torch.no_grad():
        for x, y in job.feed.evaluation():
            more = _judged(bare(laid_out(x, job.settings)), y.flatten())
            loss, right = loss + more[0], right + more[1]
    bare.train()
    shared = torch.tensor([loss, right], dtype=torch.float64)
    dist.all_reduce(shared)
    return Report(
        world=job.ranks.world_size,
        rank_order=job.ranks.places,
        accuracy=round(shared[1].item() / job.feed.held_out, 6),
        loss=shared[0].item() / job.feed.held_out,
        steps=job.step,
        resumed_from=job.resumed_from,
    )


def _judged(scores: Tensor, labels: Tensor) -> tuple[float, float]:
    """Summed loss, and how many are right."""
    from torch.nn.functional import cross_entropy

    rows = scores.flatten(0, -2)
    loss = cross_entropy(rows.double(), labels, reduction="sum")
    return loss.item(), float((rows.argmax(1) == labels).sum())


def _state(job: Job) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, optimizer = get_state_dict(job.network, job.optimizer)
    progress = {
        "step": job.step,
        "sampler": job.feed.sampler.state_dict(),
        "scaler": job.scaler.state_dict(),
        "model": job.settings.model,
    }
    return {"model": weights, "optimizer": optimizer, "progress": progress}


def _save(job: Job) -> None:
    _average(job)
    if job.store is not None and job.store.save(job.step, _state(job)):
        verb = "saving" if job.store.under_way else "saved"
        _tell(job, "%s %s", verb, job.store.path(job.step))


def _average(job: Job) -> None:
    """One model for all, where domains went their own ways."""
    if job.local is not None:
        job.local.average(job.network)


def _finish_saving(job: Job) -> None:
    if job.store is not None:
        job.store.finish()


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
    job.feed.sampler.load_state_dict(state["progress"]["sampler"])
    if job.local is not None:
        job.local.resume(job.step)
    if job.scaler.is_enabled() and state["progress"]["scaler"]:
        job.scaler.load_state_dict(state["progress"]["scaler"])


def _advise(job: Job) -> None:
    text = hooks.advice(job.settings, job.ranks)
    if text:
        _tell(job, "%s", text)


def _where(job: Job) -> str:
    return "" if job.store else "; nothing was saved, as there is no --checkpoint-dir"


def _tell(job: Job, message: str, *values: object) -> None:
    if job.ranks.rank == 0:
        log.info(message, *values)
