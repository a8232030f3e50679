"""What DistributedDataParallel sends between the ranks, and advice on it by where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer.rendezvous import Ranks
from trainer.train_settings import TrainSettings

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

POWERSGD_RANK = 4
POWERSGD_FROM = 10
"""First step with a low-rank part only; until then gradients are too unlike each other."""


def domains_of(ranks: Ranks) -> dict[str, list[int]]:
    """Ranks by the finest domain that they are known to lie in."""
    found: dict[str, list[int]] = {}
    for rank, domain in enumerate(ranks.domains):
        found.setdefault(domain, []).append(rank)
    return found


def advice(settings: TrainSettings, ranks: Ranks) -> str | None:
    """What to try where the ranks lie in several domains, and all of a gradient goes between."""
    found = domains_of(ranks)
    if settings.comm_hook != "none" or len(found) < 2 or "" in found:
        return None
    names = ", ".join(list(found)[:4]) + (", …" if len(found) > 4 else "")
    return (
        f"the ranks lie in {len(found)} domains ({names}); where links between them are slow, "
        "--comm-hook bf16 sends half as much, powersgd far less, and localsgd reduces inside each "
        "domain and averages over all every few steps"
    )


class LocalSgd:
    """Gradients reduced inside each domain, weights averaged over all every few steps.

    The idea is post-local SGD (Lin et al., arXiv:1808.07217). When to average follows from the
    global step, so a run that resumes keeps the rhythm.
    """

    def __init__(self, settings: TrainSettings, ranks: Ranks) -> None:
        """Collective."""
        from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
            PostLocalSGDState,
        )

        self.every, self.warmup = settings.local_every, settings.local_warmup
        group = _own_group(list(domains_of(ranks).values()), ranks.rank)
        self.state: Any = PostLocalSGDState(None, group, self.warmup)  # type: ignore[no-untyped-call]

    def resume(self, step: int) -> None:
        self.state.iter = step

    def apart(self, step: int) -> bool:
        """Whether gradients differ between domains at this step, counted from 1."""
        return step > self.warmup

    def due(self, step: int) -> bool:
        """Whether weights are averaged behind this step."""
        return self.apart(step) and (step - self.warmup) % self.every == 0

    def average(self, module: nn.Module) -> None:
        """Collective. All ranks have the same weights afterwards."""
        from torch.distributed import group
        from torch.distributed.algorithms.model_averaging.utils import average_parameters

        assert group.WORLD is not None
        average_parameters(module.parameters(), group.WORLD)


def register(
    network: DistributedDataParallel, settings: TrainSettings, ranks: Ranks
) -> LocalSgd | None:
    """Collective. Installs the hook that is asked for."""
    if settings.comm_hook == "bf16":
        _bf16(network)
    if settings.comm_hook == "powersgd":
        _powersgd(network)
    return _localsgd(network, settings, ranks) if settings.comm_hook == "localsgd" else None


def _bf16(network: DistributedDataParallel) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    network.register_comm_hook(None, default_hooks.bf16_compress_hook)


def _powersgd(network: DistributedDataParallel) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    state = powerSGD_hook.PowerSGDState(
        process_group=None,
        matrix_approximation_rank=POWERSGD_RANK,
        start_powerSGD_iter=POWERSGD_FROM,
    )
    network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def _localsgd(network: DistributedDataParallel, settings: TrainSettings, ranks: Ranks) -> LocalSgd:
    from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import post_localSGD_hook

    local = LocalSgd(settings, ranks)
    network.register_comm_hook(local.state, post_localSGD_hook)
    return local


def _own_group(groups: Sequence[Sequence[int]], rank: int) -> Any:
    """Collective: everybody makes all groups, and keeps its own."""
    import torch.distributed as dist

    made = [(members, dist.new_group(list(members))) for members in groups]
    return next(group for members, group in made if rank in members)
