"""The model as it is trained: on its device, in its layout, and wrapped for the gang."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainer import hooks
from trainer.errors import SettingsError
from trainer.hooks import LocalSgd
from trainer.rendezvous import Ranks
from trainer.train_settings import TrainSettings

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel


def wrap(
    bare: nn.Module, sample: Callable[[], Tensor], settings: TrainSettings, ranks: Ranks
) -> tuple[DistributedDataParallel, LocalSgd | None]:
    """Collective. The model with what the gang does to it; with --comm-hook localsgd, that.

    sample: gives an input as this rank's steps will have, [n, ...] on the device.

    gradient_as_bucket_view saves a copy of all gradients. Raises SettingsError for what cannot
    be done here.
    """
    import torch
    from torch.nn.parallel import DistributedDataParallel

    body = bare
    if settings.channels_last:
        body = body.to(memory_format=torch.channels_last)
    if settings.cuda_graphs:
        body = _graphed(body, laid_out(sample(), settings), settings)
    if settings.compile:
        body = torch.compile(body)  # type: ignore[assignment]
    module = DistributedDataParallel(
        body, bucket_cap_mb=settings.bucket_mib, gradient_as_bucket_view=True
    )
    return module, hooks.register(module, settings, ranks)


def laid_out(x: Tensor, settings: TrainSettings) -> Tensor:
    """Images in the order that the weights have."""
    import torch

    if not settings.channels_last or x.dim() != 4:
        return x
    return x.contiguous(memory_format=torch.channels_last)


def _graphed(body: nn.Module, sample: Tensor, settings: TrainSettings) -> nn.Module:
    """Captured before DistributedDataParallel gets it, so that its reductions stay outside."""
    import torch

    if sample.device.type != "cuda":
        raise SettingsError("--cuda-graphs wants an NVIDIA GPU, and this rank computes on the CPU")
    if settings.compile:
        raise SettingsError("--cuda-graphs with --compile: want one of them")
    if settings.micro_batch and len(sample) % settings.micro_batch:
        raise SettingsError(
            f"--cuda-graphs wants parts of one size: --micro-batch {settings.micro_batch} does not "
            f"divide this rank's share of {len(sample)} samples"
        )
    part = sample[: settings.micro_batch or len(sample)]
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(settings.precision)
    with torch.autocast("cuda", kind, enabled=kind is not None, cache_enabled=False):
        graphed = torch.cuda.make_graphed_callables(body, (part,))
    assert isinstance(graphed, torch.nn.Module)
    return graphed
