"""`init_process_group` with ranks in topology order.

    from trainer.rendezvous import init_process_group
    ranks = init_process_group()

in place of `torch.distributed.init_process_group()`, in a process that torchrun (or
`muster-train launch`) started. Only public API of torch is used: every process puts a card in
the TCPStore that the launcher announced, the process with rank 0 by the launcher decides once
for all, and the process group is made over a prefix of the same store with the new rank.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trainer import hints, nccl
from trainer.errors import RendezvousError
from trainer.ranks import Card, Order, arrange, decode_card
from trainer.settings import HintSource, LaunchSettings, environment
from trainer.worker import Worker, read_worker

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]  # not in its __all__

log = logging.getLogger("muster.rendezvous")

TIMEOUT = timedelta(seconds=300)
GRACE = timedelta(seconds=10)
"""How much longer the others wait than rank 0, so that its explanation reaches them."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's place in the world, after the process group exists."""

    rank: int
    world_size: int
    local_rank: int
    places: tuple[str, ...]
    """Where each node lies (`b1/r3/n12`, or the host's name), in rank order."""
    by: str
    """What the order follows: `hint rank`, `topology path` or `launcher`."""
    backend: str
    sizes: tuple[int, ...] = (1,)
    """Processes of each node, in rank order."""
    local_world_size: int = 1

    @property
    def domains(self) -> tuple[str, ...]:
        """The domain (`b1/r3`) that each rank lies in; empty where it is not known."""
        return tuple(
            place.rpartition("/")[0]
            for place, size in zip(self.places, self.sizes, strict=True)
            for _ in range(size)
        )


def init_process_group(
    backend: str | None = None,
    timeout: timedelta = TIMEOUT,
    *,
    env: Mapping[str, str] | None = None,
    store: Store | None = None,
) -> Ranks:
    """Make torch's default process group, with ranks in topology order.

    backend: as for torch; None chooses by the devices that this process sees.
    timeout: until a rank that does not come, or a stuck collective, is an error.
    env: instead of this process's environment.
    store: instead of the launcher's TCPStore at MASTER_ADDR and MASTER_PORT.

    RANK, GROUP_RANK and ROLE_RANK in the environment are set to the new ranks; LOCAL_RANK, and
    with it the device, stays. Where any pod has no usable hint, all keep the launcher's order
    and rank 0 logs one warning. A process that nothing launched becomes a world of one.

    Raises RendezvousError if a rank does not come in time or the ranks do not fit together.
    """
    env = environment() if env is None else env
    worker = read_worker(env)
    if worker is None:
        return _alone(backend, timeout, env)
    choice = backend or _torch_backend(worker.local_world_size)
    found = hints.find(HintSource.load(env))
    card = _card(worker, choice, found)
    store = store or _connect(worker, timeout)
    order = agree(store, card, worker.attempt, timeout)
    return _start(store, worker, order, choice, timeout)


def agree(store: Store, card: Card, attempt: str, timeout: timedelta) -> Order:
    """Exchange cards and get the order, the same in every process.

    One process decides and the others read its decision, so that they agree even if they run
    different versions of this code; it also saves the store n * n reads.

    Raises RendezvousError with the same message in every process that can still be reached.
    """
    prefix = f"muster/{attempt}"
    store.set(f"{prefix}/card/{card.rank}", card.encode())
    if card.rank == 0:
        store.set(f"{prefix}/order", _decide(store, card, prefix, timeout))
    answer = json.loads(_get(store, f"{prefix}/order", card, timeout))
    if answer["error"] is not None:
        _leave_together(store, card, prefix)
        raise RendezvousError(answer["error"])
    order = Order.decode(answer["order"])
    if card.rank == 0:
        _announce(order, card)
    return order


def _decide(store: Store, card: Card, prefix: str, timeout: timedelta) -> str:
    try:
        texts = _collect(store, card.world_size, prefix, timeout)
        order = arrange([decode_card(text) for text in texts])
    except RendezvousError as error:
        return json.dumps({"order": None, "error": str(error)})
    return json.dumps({"order": order.encode(), "error": None})


def _collect(store: Store, world_size: int, prefix: str, timeout: timedelta) -> list[str]:
    keys = [f"{prefix}/card/{rank}" for rank in range(world_size)]
    try:
        store.wait(keys, timeout)
    except RuntimeError as error:
        missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
        raise RendezvousError(
            f"{len(missing)} of {world_size} ranks did not come within "
            f"{timeout.total_seconds():g} s: {missing[:20]}; look at the logs of their pods"
        ) from error
    return [store.get(key).decode() for key in keys]


def _get(store: Store, key: str, card: Card, timeout: timedelta) -> str:
    try:
        store.wait([key], timeout + GRACE)
    except RuntimeError as error:
        raise RendezvousError(
            f"rank {card.rank}: rank 0 did not decide on the order within "
            f"{(timeout + GRACE).total_seconds():g} s; look at the log of its pod"
        ) from error
    return store.get(key).decode()


def _leave_together(store: Store, card: Card, prefix: str) -> None:
    """The store may live in rank 0's process: it stays until those who came know why they fail."""
    store.set(f"{prefix}/left/{card.rank}", "")
    if card.rank != 0:
        return
    came = [rank for rank in range(card.world_size) if store.check([f"{prefix}/card/{rank}"])]
    try:
        store.wait([f"{prefix}/left/{rank}" for rank in came], GRACE)
    except RuntimeError:
        log.warning("some ranks left without reading why the rendezvous failed")


def _announce(order: Order, card: Card) -> None:
    if order.warning:
        log.warning("rank order by %s: %s", order.by, order.warning)
    ranks = "1 rank" if card.world_size == 1 else f"{card.world_size} ranks"
    log.info("%s in order of %s: %s", ranks, order.by, " ".join(order.places[:64]))


def _card(worker: Worker, backend: str, found: hints.FoundHint) -> Card:
    return Card(
        rank=worker.rank,
        world_size=worker.world_size,
        local_rank=worker.local_rank,
        group_rank=worker.group_rank,
        host=socket.gethostname(),
        backend=backend,
        hint=found.hint,
        problem=found.problem,
    )


def _connect(worker: Worker, timeout: timedelta) -> Store:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    try:
        return TCPStore(
            worker.master_addr,
            worker.master_port,
            is_master=worker.rank == 0 and not worker.store_is_served,
            timeout=timeout,
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        raise RendezvousError(
            f"rank {worker.rank} cannot reach the store at {worker.master_addr}:"
            f"{worker.master_port} (MASTER_ADDR, MASTER_PORT): {str(error).splitlines()[0]}"
        ) from error


def _start(store: Store, worker: Worker, order: Order, backend: str, timeout: timedelta) -> Ranks:
    import torch.distributed as dist
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]

    rank = order.ranks[worker.rank]
    dist.init_process_group(
        backend,
        store=PrefixStore(f"muster/{worker.attempt}/group", store),
        rank=rank,
        world_size=worker.world_size,
        timeout=timeout,
    )
    _rewrite(rank, order.groups.index(worker.group_rank))
    return Ranks(
        rank, worker.world_size, worker.local_rank, order.places, order.by, backend,
        order.sizes, worker.local_world_size,
    )  # fmt: skip


def _torch_backend(local_world_size: int) -> str:
    """By the devices, or MUSTER_BACKEND, which `--backend` of the launcher becomes."""
    asked = LaunchSettings.load(environment(), {}).backend
    return nccl.choose_backend(nccl.visible_devices(), local_world_size, asked).torch


def _rewrite(rank: int, group: int) -> None:
    """Libraries read their rank from the environment. They may also make groups with `env://`,
    whose rank 0 would then serve a store at an address that is not its own: the store there
    exists already, which is what TORCHELASTIC_USE_AGENT_STORE says.
    """
    os.environ["RANK"] = os.environ["ROLE_RANK"] = str(rank)
    os.environ["GROUP_RANK"] = str(group)
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"


def _alone(backend: str | None, timeout: timedelta, env: Mapping[str, str]) -> Ranks:
    import torch.distributed as dist
    from torch.distributed import HashStore  # type: ignore[attr-defined]

    choice = backend or _torch_backend(1)
    dist.init_process_group(choice, store=HashStore(), rank=0, world_size=1, timeout=timeout)
    hint = hints.find(HintSource.load(env)).hint
    place = hint.place if hint else socket.gethostname()
    return Ranks(0, 1, 0, (place,), "launcher", choice)
