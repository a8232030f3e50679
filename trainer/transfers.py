"""Real transfers between ranks, timed. Collective: all ranks of the default group take part."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trainer import pairs
from trainer.pairs import Pair
from trainer.settings import PreflightSettings


def speeds(
    rank: int, rounds: list[list[Pair]], exchange: Callable[[int, int], float]
) -> dict[Pair, float]:
    """Speeds of all pairs, the same on every rank; both members measure, the slower counts."""
    import torch.distributed as dist

    found: dict[Pair, float] = {}
    for now in rounds:
        other = pairs.partner(rank, now)
        mine = exchange(rank, other) if other is not None else float("inf")
        everybody: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, mine)
        found |= {pair: round(min(everybody[rank] for rank in pair), 4) for pair in now}
    return found


def exchange_of(settings: PreflightSettings) -> Callable[[int, int], float]:
    """Gbit/s in each direction, of both at once."""

    def exchange(_rank: int, other: int) -> float:
        import torch
        import torch.distributed as dist

        out = torch.ones(settings.size_mib << 18)
        back = torch.empty_like(out)
        spent = []
        for _ in range(settings.repeats + 1):
            start = time.perf_counter()
            work = [dist.isend(out, other), dist.irecv(back, other)]
            for item in work:
                if item is not None:
                    item.wait()
            spent.append(time.perf_counter() - start)
        # The first one opens connections.
        return out.nbytes * 8 / min(spent[1:]) / 1e9

    return exchange


def allreduce(settings: PreflightSettings) -> float:
    """Bus bandwidth, Gbit/s: 2 (n - 1) / n times the bytes over the seconds."""
    import torch
    import torch.distributed as dist

    data, size = torch.ones(settings.size_mib << 18), dist.get_world_size()
    spent = []
    for _ in range(settings.repeats + 1):
        start = time.perf_counter()
        dist.all_reduce(data)
        spent.append(time.perf_counter() - start)
    return round(data.nbytes * 8 * 2 * (size - 1) / size / min(spent[1:]) / 1e9, 4)
