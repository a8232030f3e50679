"""One optimizer step over the global batch, the same whatever the world size.

Each rank takes its share of the batch, in as many parts as its memory asks for, and reduces the
gradients once, with the last part. Meanwhile the ranks also agree, in one small collective, on
the loss, on whether anybody was asked to stop, and on whether all have saved. Where steps are
much shorter than anybody could react, they do so every few steps only: at the same ones, as
the pause is computed from what they agreed on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.errors import DivergedError
from trainer.interruption import StopFlag
from trainer.job import Job
from trainer.network import laid_out

if TYPE_CHECKING:
    from torch import Tensor


AGREE_SECONDS = 0.1
"""Ranks agree about this often, or at every step where steps take longer."""

MOST_STEPS = 20
"""Between two agreements."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all ranks agree on after a step."""

    loss: float
    """Mean over the global batch of the last step at which the ranks agreed."""
    agreed: bool
    """At this step."""
    stop: bool
    """Some rank was asked to stop."""
    saved: bool
    """All ranks have written their part of a checkpoint that is under way."""
    skipped: bool
    """The weights were left alone, as the loss or the gradient was not finite."""


def take(job: Job, stop: StopFlag) -> Outcome:
    """Collective. One step.

    Raises DivergedError after too many steps that had to be skipped.
    """
    outcome = _step(job, stop)
    job.step += 1
    job.pace.steps += 1
    _guard(job, outcome)
    return outcome


def _step(job: Job, stop: StopFlag) -> Outcome:
    with job.pace.timing("data", "own"):
        parts = _parts(job)
    total = 0.0
    for part in parts[:-1]:
        with job.pace.timing("own"), job.network.no_sync():
            loss = _loss(job, part)
            _backward(job, loss)
            total += loss.item()
    with job.pace.timing("own"):
        loss = _loss(job, parts[-1])
        total += loss.item()
    if not _is_due(job):
        with job.pace.timing("shared"):
            _backward(job, loss)
        return Outcome(job.loss, False, False, False, _update(job))
    with job.pace.timing("shared"):
        flags, finish = _agree(job, total, stop)
        _backward(job, loss)
        finish()
    job.loss = flags[0].item() / (job.settings.global_batch * job.feed.labels_each)
    stopped, saved, seconds = flags[1:].tolist()
    world = job.ranks.world_size
    _plan_next(job, seconds / world)
    return Outcome(job.loss, True, stopped > 0, saved == world, _update(job))


def _is_due(job: Job) -> bool:
    """At the planned step, at those that are shown, and at the last."""
    now, every = job.step + 1, job.settings.log_every
    return now >= job.agree_at or now == job.settings.steps or (every > 0 and now % every == 0)


def _plan_next(job: Job, seconds: float) -> None:
    """seconds: of a step, on average over the ranks; so all plan alike."""
    pause = int(AGREE_SECONDS / max(seconds, 1e-6))
    job.agree_at = job.step + 1 + min(MOST_STEPS, max(1, pause))


Part = tuple["Tensor", "Tensor"]
"""Inputs and labels."""


def _parts(job: Job) -> list[Part]:
    """This rank's samples, cut into micro-batches; one, perhaps empty, at least: every rank takes
    part in the reduction.
    """
    import torch

    x, y = job.feed.next()
    x, size = laid_out(x, job.settings), job.settings.micro_batch
    if not size or not len(x):
        return [(x, y)]
    return list(zip(torch.split(x, size), torch.split(y, size), strict=True))


def _loss(job: Job, part: Part) -> Tensor:
    """Summed over the samples of one part."""
    from torch.nn.functional import cross_entropy

    with job.autocast():
        scores = job.network(part[0])
    return cross_entropy(scores.float().flatten(0, -2), part[1].flatten(), reduction="sum")


def _backward(job: Job, total: Tensor) -> None:
    """DDP averages gradients over ranks: the factor makes that the mean over samples, also where
    the ranks' shares of the batch are unequal.
    """
    labels = job.settings.global_batch * job.feed.labels_each
    mean = total * (job.ranks.world_size / labels)
    job.scaler.scale(mean).backward()  # type: ignore[no-untyped-call]


def _agree(job: Job, total: float, stop: StopFlag) -> tuple[Tensor, Callable[[], object]]:
    """The sum of everybody's numbers, once the function returns; it is formed meanwhile."""
    import torch
    import torch.distributed as dist

    saved = job.store is None or job.store.written
    mine = [total, float(stop.requested), float(saved), job.pace.since_agreed(job.step + 1)]
    flags = torch.tensor(mine, dtype=torch.float64)
    work = dist.all_reduce(flags, async_op=True)
    assert work is not None
    return flags, work.wait


def _update(job: Job) -> bool:
    """Step the optimizer unless something is not finite; whether it was skipped. The reduced
    gradients are the same on all ranks, so all decide alike without asking; where they are only
    reduced inside domains, all ask.
    """
    job.scaler.unscale_(job.optimizer)
    good = math.isfinite(_norm(job))
    local = job.local
    if local is not None and local.apart(job.step + 1):
        good = _all(good)
    if good:
        job.scaler.step(job.optimizer)
    if job.scaler.is_enabled():
        job.scaler.update()
    job.optimizer.zero_grad()
    if local is not None and local.due(job.step + 1):
        local.average(job.network)
    return not good


def _all(mine: bool) -> bool:
    """Collective. Whether it is so on every rank."""
    import torch
    import torch.distributed as dist

    flag = torch.tensor([float(mine)])
    dist.all_reduce(flag, dist.ReduceOp.MIN)
    return flag.item() > 0


def _norm(job: Job) -> float:
    """Of the gradient, before it is clipped."""
    from torch.nn.utils import clip_grad_norm_, get_total_norm

    if job.settings.clip:
        return float(clip_grad_norm_(job.parameters, job.settings.clip))
    return float(get_total_norm([one.grad for one in job.parameters if one.grad is not None]))


def _guard(job: Job, outcome: Outcome) -> None:
    job.bad_in_a_row = job.bad_in_a_row + 1 if outcome.skipped else 0
    job.skipped += outcome.skipped
    if job.bad_in_a_row > job.settings.max_bad_steps:
        raise DivergedError(
            f"the loss or its gradient was not finite in {job.bad_in_a_row} steps in a row, up to "
            f"step {job.step}; lower --lr, set --clip, or look at the data. The weights are those "
            f"of step {job.step - job.bad_in_a_row}"
        )
