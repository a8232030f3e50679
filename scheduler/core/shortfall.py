"""Why a gang has no room: what is short, where it would fit best, and whether it ever can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core import feasibility
from scheduler.core.capacity import Frame
from scheduler.core.placement import NoRoom
from scheduler.core.rooming import Kind, kind_of
from scheduler.core.state import State
from scheduler.model import Pod


@dataclass(frozen=True, slots=True)
class Shortage:
    """What kept members from being placed, as far as it is known."""

    never: bool
    text: str
    level: str | None = None
    best_domain: tuple[str | None, ...] | None = None
    fits: int | None = None
    short_by: tuple[tuple[str, int], ...] = ()


def unknown_level(state: State, named: str) -> Shortage:
    """The declaration names a level that no configuration or label knows."""
    known = ", ".join(state.topology().levels) or "none"
    text = f"never fits: level {named!r} is unknown; known levels: {known}"
    return Shortage(True, text, level=named)


def explain(
    state: State, pods: Sequence[Pod], level: int | None, no: NoRoom, *, relaxes: bool
) -> Shortage:
    """What is short for these pods; a requirement that relaxes with time is never the last word."""
    topology = state.topology()
    where = topology.levels[level] if level is not None else None
    best = topology.domain_path(*no.best_domain) if no.best_domain else None
    fits = min(no.fits_in_best, len(pods))
    homeless = _homeless(state, pods)
    short = _short_by(state, homeless or pods[fits:])
    never = _never(state, pods, None if relaxes else level)
    text = f"{fits} of {len(pods)} placeable"
    if where is not None:
        text += f" in one {where.rpartition('/')[2]}"
    if homeless:
        text += f", no usable node for {homeless[0].key}"
        text += f" and {len(homeless) - 1} more" if len(homeless) > 1 else ""
    if short:
        text += ", short by " + " and ".join(f"{amount} {name}" for name, amount in short)
    text = f"{'never fits' if never else 'no room'}: {text}"
    return Shortage(never, text, where, best, no.fits_in_best, short)


def _homeless(state: State, pods: Sequence[Pod]) -> list[Pod]:
    """Members of kinds that no node may take at all, however much is free.

    Only where other kinds have nodes: if no member has any, counting says it as well.
    """
    kinds = {kind_of(pod) for pod in pods}
    closed = {kind for kind in kinds if not state.ledger.mask(kind.constraints).any()}
    return [pod for pod in pods if kind_of(pod) in closed] if closed != kinds else []


def _short_by(state: State, unplaced: Sequence[Pod]) -> tuple[tuple[str, int], ...]:
    totals: dict[str, int] = {}
    for pod in unplaced:
        for name, amount in pod.requests.items():
            if state.is_accelerator(name):
                totals[name] = totals.get(name, 0) + amount
    return tuple(sorted(totals.items()))


def _never(state: State, pods: Sequence[Pod], level: int | None) -> bool:
    """Whether not even an empty cluster of these nodes would hold the pods.

    Readiness, cordons and the taints that go with them pass; labels and other taints stay. Unlike
    kinds are judged one by one, so that a False may be too hopeful but a True never is.
    """
    frame = state.ledger.frame()
    kinds: dict[Kind, int] = {}
    for pod in pods:
        kinds[kind_of(pod)] = kinds.get(kind_of(pod), 0) + 1
    return any(_too_much(state, frame, kind, count, level) for kind, count in kinds.items())


def _too_much(state: State, frame: Frame, kind: Kind, count: int, level: int | None) -> bool:
    at = frame.columns(kind.resources)
    if at is None or not frame.names:
        return True
    columns, amounts = at
    fits = (frame.allocatable[:, columns] // amounts).min(axis=1)
    if feasibility.ports_clash(kind.constraints.ports, kind.constraints.ports):
        fits = np.minimum(fits, 1)
    fits = np.where(state.ledger.pristine_mask(kind.constraints), fits, 0)
    if level is None:
        return int(fits.sum()) < count
    domains = state.topology().fabric.domains[level]
    sums = np.bincount(domains[domains >= 0], weights=fits[domains >= 0])
    return bool(max(sums, default=0) < count)
