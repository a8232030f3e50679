"""What the checks before a run found: judged once, the same for all ranks. Pure, and its table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from trainer.pairs import Pair, Verdict
from trainer.settings import PreflightSettings

CLOCK_SECONDS = 1.0
"""Skew between pods from which on their logs cannot be put in order."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a rank tells the others about itself."""

    rank: int
    host: str
    node: str
    """Identity of the machine, equal for pods on one of them."""
    clock: float
    """Seconds since the epoch, read by all at one moment."""
    gpu: str | None = None
    """UUID or PCI address of the device it will use."""
    problems: tuple[str, ...] = ()
    """What is wrong in this pod alone."""
    warnings: tuple[str, ...] = ()
    """What may be."""


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


def judged(
    cards: Sequence[Card],
    speeds: Mapping[Pair, float],
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
        warnings=(*_doubts(cards), *_clocks(cards)),
    )


def _shared_gpus(cards: Sequence[Card]) -> list[str]:
    counts = Counter((card.node, card.gpu) for card in cards if card.gpu)
    return [
        f"GPU {gpu} is used by ranks {[c.rank for c in cards if (c.node, c.gpu) == (node, gpu)]}; "
        "give each process one of its own"
        for (node, gpu), times in sorted(counts.items())
        if times > 1
    ]


def _doubts(cards: Sequence[Card]) -> list[str]:
    """Each once, with the pods that have it."""
    by_text: dict[str, list[str]] = {}
    for card in cards:
        for text in card.warnings:
            by_text.setdefault(text, []).append(card.host)
    return [f"{', '.join(dict.fromkeys(hosts))}: {text}" for text, hosts in by_text.items()]


def _clocks(cards: Sequence[Card]) -> list[str]:
    early, late = (choose(cards, key=lambda card: card.clock) for choose in (min, max))
    skew = late.clock - early.clock
    if skew < CLOCK_SECONDS or early.node == late.node:
        return []
    return [
        f"the clocks of {early.host} and {late.host} differ by {skew:.1f} s, so their logs cannot "
        "be put in order; look at the time service of both nodes"
    ]


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
    if grid.row_count:
        console.print(grid)
    for problem in found.problems:
        console.print(f"problem  {problem}", markup=False, soft_wrap=True)
    for warning in found.warnings:
        console.print(f"warning  {warning}", markup=False, soft_wrap=True)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text + f"{'good' if found.ok else 'NOT good'} after {found.seconds:.1f} s\n"
