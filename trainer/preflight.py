"""Checks before a run: is everybody there, on a device of their own, and is the network fast.

Run in every pod at once, one process each (`muster-train preflight`, `muster-train launch
--preflight`) or one for each worker below a launcher. Rank 0 collects, judges and tells all, so
that all end with the same code.
"""

from __future__ import annotations

import json
import logging
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import pairs, reach, transfers
from trainer.errors import PreflightError, WorldError
from trainer.facts import Machine
from trainer.findings import Card, Findings, judged
from trainer.nccl import Decisions
from trainer.settings import PreflightSettings
from trainer.worker import Worker
from trainer.world import LaunchWorld

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

log = logging.getLogger("muster.preflight")

GRACE = timedelta(seconds=10)
"""How much longer the others wait than rank 0, and it for them."""

UNLIMITED = resource.RLIM_INFINITY


def run(
    worker: Worker,
    settings: PreflightSettings,
    machine: Machine,
    problems: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    *,
    store: Store | None = None,
    exchange: Callable[[int, int], float] | None = None,
) -> Findings:
    """All checks. Collective: every rank of the world calls it, each within the deadline.

    problems, warnings: what is known to be wrong, or may be, in this pod; all ranks will report it.
    store, exchange: instead of the store at the master's address, and of a real transfer.

    Raises PreflightError where the ranks do not come together at all, naming host, port and
    seconds, or the ranks that are missing.
    """
    start = time.monotonic()
    store = store or meet(worker, settings)
    card = _card(worker, machine, problems, warnings)
    cards = _present(store, card, worker.world_size, settings.deadline)
    with _Group(worker, store, settings):
        _all_here(cards, settings)
        cards = _at_one_moment(cards)
        try:
            found = _measure(worker, settings, cards, exchange or transfers.exchange_of(settings))
        except RuntimeError as error:
            raise PreflightError(
                f"rank {worker.rank} lost another rank during the checks: "
                f"{str(error).splitlines()[0]}"
            ) from error
    _leave(store, worker.rank, list(range(worker.world_size)))
    return replace(found, seconds=round(time.monotonic() - start, 3))


def meet(worker: Worker, settings: PreflightSettings) -> Store:
    """The store that rank 0 serves, once its name resolves and its port is open."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    serves = worker.rank == 0 and not worker.store_is_served
    if not serves:
        found = reach.wait_for(worker.master_addr, worker.master_port, settings.deadline)
        log.info("first pod reached at %s after %.1f s", found.address, found.seconds)
    try:
        return TCPStore(
            worker.master_addr,
            worker.master_port,
            is_master=serves,
            timeout=timedelta(seconds=settings.deadline),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        raise PreflightError(
            f"no store at {worker.master_addr}:{worker.master_port}: {str(error).splitlines()[0]}"
        ) from error


def _card(
    worker: Worker, machine: Machine, problems: tuple[str, ...], warnings: tuple[str, ...] = ()
) -> Card:
    gpus = machine.gpus or ()
    mine = gpus[worker.local_rank] if worker.local_rank < len(gpus) else None
    return Card(
        rank=worker.rank,
        host=machine.hostname or socket.gethostname(),
        node=_boot_id(),
        clock=time.time(),
        gpu=(mine.uuid or mine.pci) if mine and worker.local_world_size > 1 else None,
        problems=problems,
        warnings=warnings,
    )


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return socket.gethostname()


def locked_memory() -> list[str]:
    """What keeps RDMA from working here; it locks the memory that it reads and writes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == UNLIMITED:
        return []
    return [
        f"locked memory is limited to {soft >> 10} KiB and RDMA needs it unlimited; give the "
        "container the capability IPC_LOCK, or raise the runtime's limit"
    ]


def _present(store: Store, card: Card, size: int, seconds: float) -> list[Card]:
    """Everybody's card. Raises PreflightError that names who is missing, the same everywhere."""
    store.set(f"preflight/card/{card.rank}", json.dumps(asdict(card)))
    if card.rank == 0:
        store.set("preflight/missing", json.dumps(_missing(store, size, seconds)))
    try:
        store.wait(["preflight/missing"], timedelta(seconds=seconds) + GRACE)
    except RuntimeError as error:
        raise PreflightError(
            f"rank {card.rank}: rank 0 did not say who is there within {seconds:g} s; look at the "
            "log of its pod"
        ) from error
    missing = json.loads(store.get("preflight/missing"))
    if missing:
        _leave(store, card.rank, [rank for rank in range(size) if rank not in missing])
        raise PreflightError(
            f"{len(missing)} of {size} ranks did not come within {seconds:g} s: {missing[:20]}; "
            "look at the logs of their pods"
        )
    return [_read(store.get(f"preflight/card/{rank}").decode()) for rank in range(size)]


def _missing(store: Store, size: int, seconds: float) -> list[int]:
    keys = [f"preflight/card/{rank}" for rank in range(size)]
    try:
        store.wait(keys, timedelta(seconds=seconds))
    except RuntimeError:
        return [rank for rank, key in enumerate(keys) if not store.check([key])]
    return []


def _leave(store: Store, rank: int, present: list[int]) -> None:
    """The store lives in rank 0's process: that leaves last."""
    store.set(f"preflight/left/{rank}", "")
    if rank == 0:
        with suppress(RuntimeError):
            store.wait([f"preflight/left/{other}" for other in present], GRACE)


def _read(text: str) -> Card:
    raw = json.loads(text)
    lists = {name: tuple(raw[name]) for name in ("problems", "warnings")}
    return Card(**{**raw, **lists})


class _Group:
    """A gloo group over the store for the time of the checks, whatever the run will use."""

    def __init__(self, worker: Worker, store: Store, settings: PreflightSettings) -> None:
        self.worker, self.store, self.settings = worker, store, settings

    def __enter__(self) -> None:
        import torch.distributed as dist
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        try:
            dist.init_process_group(
                "gloo",
                store=PrefixStore("preflight/group", self.store),
                rank=self.worker.rank,
                world_size=self.worker.world_size,
                timeout=timedelta(seconds=self.settings.timeout),
            )
        except RuntimeError as error:
            raise PreflightError(
                f"rank {self.worker.rank} on {socket.gethostname()} reached the first pod but not "
                f"all others: {str(error).splitlines()[0]}; pods must reach each other on all ports"
            ) from error

    def __exit__(self, *_: object) -> None:
        import torch.distributed as dist

        dist.destroy_process_group()


def _all_here(cards: list[Card], settings: PreflightSettings) -> None:
    import torch.distributed as dist

    try:
        dist.monitored_barrier(timeout=timedelta(seconds=settings.timeout), wait_all_ranks=True)
    except RuntimeError as error:
        raise PreflightError(
            f"not all ranks answered within {settings.timeout:g} s: {str(error).splitlines()[0]} "
            f"(rank 0 is on {cards[0].host})"
        ) from error


def _at_one_moment(cards: list[Card]) -> list[Card]:
    """The cards with everybody's clock as the barrier lets them go, which is the same moment up to
    a few milliseconds.
    """
    import torch.distributed as dist

    clocks: list[Any] = [None] * len(cards)
    dist.all_gather_object(clocks, time.time())
    return [replace(card, clock=clock) for card, clock in zip(cards, clocks, strict=True)]


def _measure(
    worker: Worker,
    settings: PreflightSettings,
    cards: list[Card],
    exchange: Callable[[int, int], float],
) -> Findings:
    size = worker.world_size
    first = transfers.speeds(worker.rank, pairs.first_rounds(size), exchange)
    limit = pairs.threshold(first, settings.min_gbps, settings.min_share)
    second = transfers.speeds(worker.rank, pairs.swapped(first, limit), exchange)
    verdict = pairs.judge(first, second, limit, settings.min_share)
    speed = transfers.allreduce(settings) if size > 1 else None
    return _told(judged(cards, {**first, **second}, verdict, speed, settings))


def _told(found: Findings) -> Findings:
    """Rank 0's findings, on every rank."""
    import torch.distributed as dist

    box: list[Any] = [found]
    dist.broadcast_object_list(box, src=0)
    told: Findings = box[0]
    return told


def problems_of(decisions: Decisions) -> tuple[str, ...]:
    """What is wrong in this pod alone: the decisions' errors, and what RDMA lacks if it is used."""
    adapters = "NCCL_IB_HCA" in decisions.set or "NCCL_IB_HCA" in decisions.kept
    return (*decisions.errors, *(locked_memory() if adapters else ()))


def pod_as_worker(pods: LaunchWorld, port: int | None = None) -> Worker:
    """This pod as one process of a world of pods, which meet at the port.

    Raises WorldError for a world whose pods have no numbers.
    """
    if pods.elastic or not pods.static:
        raise WorldError(
            f"checks before the run want pods with fixed numbers, and this world "
            f"({pods.nnodes}, {pods.rdzv_backend}) gives none; run them below the launcher: "
            "muster-train launch -- -m trainer preflight"
        )
    host, said = pods.meeting_point or ("127.0.0.1", 0)
    rank = pods.node_rank or 0
    return Worker(
        rank=rank,
        world_size=pods.max_nodes,
        local_rank=0,
        local_world_size=1,
        group_rank=rank,
        master_addr=host,
        master_port=port or said,
        store_is_served=False,
        attempt="preflight",
    )
