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
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import pairs, reach
from trainer.errors import PreflightError, WorldError
from trainer.facts import Machine
from trainer.nccl import Decisions
from trainer.pairs import Pair, Verdict
from trainer.settings import PreflightSettings
from trainer.worker import Worker
from trainer.world import LaunchWorld

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

log = logging.getLogger("muster.preflight")

CLOCK_SECONDS = 1.0
"""Skew between pods from which on their logs cannot be put in order."""

GRACE = timedelta(seconds=10)
"""How much longer the others wait than rank 0, and it for them."""

UNLIMITED = resource.RLIM_INFINITY


@dataclass(frozen=True, slots=True)
class Card:
    """What a rank tells the others about itself."""

    rank: int
    host: str
    node: str
    """Identity of the machine, equal for pods on one of them."""
    clock: float
    """Seconds since the epoch."""
    gpu: str | None = None
    """UUID or PCI address of the device it will use."""
    problems: tuple[str, ...] = ()
    """What is wrong in this pod alone."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The outcome, the same for all ranks."""

    world_size: int
    hosts: tuple[str, ...] = ()
    pairs: dict[str, float] = field(default_factory=dict)
    """`0-1` → Gbit/s."""
    threshold_gbps: float = 0.0
    slow_hosts: tuple[str, ...] = ()
    slow_links: tuple[str, ...] = ()
    allreduce_gbps: float | None = None
    """Bus bandwidth."""
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_json(self) -> str:
        return json.dumps({"ok": self.ok, **asdict(self)})


def run(
    worker: Worker,
    settings: PreflightSettings,
    machine: Machine,
    problems: tuple[str, ...] = (),
    *,
    store: Store | None = None,
    exchange: Callable[[int, int], float] | None = None,
) -> Findings:
    """All checks. Collective: every rank of the world calls it, each within the deadline.

    problems: what is known to be wrong in this pod; all ranks will report it.
    store, exchange: instead of the store at the master's address, and of a real transfer.

    Raises PreflightError where the ranks do not come together at all, naming host, port and
    seconds, or the ranks that are missing.
    """
    start = time.monotonic()
    store = store or meet(worker, settings)
    card = _card(worker, machine, problems)
    cards = _present(store, card, worker.world_size, settings.deadline)
    with _Group(worker, store, settings):
        _all_here(cards, settings)
        try:
            found = _measure(worker, settings, cards, exchange or _exchange(settings))
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


def _card(worker: Worker, machine: Machine, problems: tuple[str, ...]) -> Card:
    gpus = machine.gpus or ()
    mine = gpus[worker.local_rank] if worker.local_rank < len(gpus) else None
    return Card(
        rank=worker.rank,
        host=machine.hostname or socket.gethostname(),
        node=_boot_id(),
        clock=time.time(),
        gpu=(mine.uuid or mine.pci) if mine and worker.local_world_size > 1 else None,
        problems=problems,
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
    return Card(**{**raw, "problems": tuple(raw["problems"])})


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


def _measure(
    worker: Worker,
    settings: PreflightSettings,
    cards: list[Card],
    exchange: Callable[[int, int], float],
) -> Findings:
    size = worker.world_size
    first = _rounds(worker.rank, pairs.first_rounds(size), exchange)
    limit = pairs.threshold(first, settings.min_gbps, settings.min_share)
    second = _rounds(worker.rank, pairs.swapped(first, limit), exchange)
    verdict = pairs.judge(first, second, limit)
    speed = _allreduce(settings) if size > 1 else None
    return _told(_findings(cards, {**first, **second}, verdict, speed, settings))


def _rounds(
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


def _exchange(settings: PreflightSettings) -> Callable[[int, int], float]:
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


def _allreduce(settings: PreflightSettings) -> float:
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


def _findings(
    cards: list[Card],
    speeds: dict[Pair, float],
    verdict: Verdict,
    allreduce: float | None,
    settings: PreflightSettings,
) -> Findings:
    name = {card.rank: f"{card.host} (rank {card.rank})" for card in cards}
    slow = tuple(name[rank] for rank in verdict.slow_ranks)
    links = tuple(f"{name[a]} and {name[b]}" for a, b in verdict.slow_pairs)
    problems = [
        *(f"{card.host} (rank {card.rank}): {text}" for card in cards for text in card.problems),
        *_shared_gpus(cards),
        *(f"{host} is slow with two partners, below {verdict.threshold:.3g} Gbit/s; "
          "take its node out" for host in slow),
        *(f"the way between {link} is slow, below {verdict.threshold:.3g} Gbit/s"
          for link in links),
    ]  # fmt: skip
    if allreduce is not None and allreduce < settings.min_allreduce_gbps:
        problems.append(
            f"all-reduce runs at {allreduce:.3g} Gbit/s over {len(cards)} ranks; "
            f"want {settings.min_allreduce_gbps:g} (--min-allreduce-gbps)"
        )
    return Findings(
        world_size=len(cards),
        hosts=tuple(card.host for card in cards),
        pairs={f"{low}-{high}": speed for (low, high), speed in speeds.items()},
        threshold_gbps=round(verdict.threshold, 4),
        slow_hosts=slow,
        slow_links=links,
        allreduce_gbps=allreduce,
        problems=tuple(problems),
        warnings=tuple(_clocks(cards)),
    )


def _shared_gpus(cards: list[Card]) -> list[str]:
    counts = Counter((card.node, card.gpu) for card in cards if card.gpu)
    return [
        f"GPU {gpu} is used by ranks {[c.rank for c in cards if (c.node, c.gpu) == (node, gpu)]}; "
        "give each process one of its own"
        for (node, gpu), times in sorted(counts.items())
        if times > 1
    ]


def _clocks(cards: list[Card]) -> list[str]:
    """Cards are written at unequal times, so only a skew beyond the wait for all would show; it
    is a warning and no more.
    """
    early, late = (choose(cards, key=lambda card: card.clock) for choose in (min, max))
    skew = late.clock - early.clock
    if skew < CLOCK_SECONDS or early.node == late.node:
        return []
    return [
        f"the clocks of {early.host} and {late.host} differ, or they started {skew:.0f} s apart"
    ]


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


def table(found: Findings) -> str:
    """For people."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table

    grid = Table("ranks", "between", "Gbit/s", title="Preflight")
    for name, speed in found.pairs.items():
        low, high = (int(rank) for rank in name.split("-"))
        mark = "  slow" if speed < found.threshold_gbps else ""
        grid.add_row(name, f"{found.hosts[low]} – {found.hosts[high]}", f"{speed:.3f}{mark}")
    if found.allreduce_gbps is not None:
        grid.add_row("all", "all-reduce, bus bandwidth", f"{found.allreduce_gbps:.3f}")
    console = Console(file=StringIO(), width=100)
    console.print(grid)
    for problem in found.problems:
        console.print(f"problem  {problem}", markup=False, soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning  {warning}", markup=False, soft_wrap=True)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text + f"{'good' if found.ok else 'NOT good'} after {found.seconds:.1f} s\n"
