"""Whole gangs seated by the engine's own planning, and all ways to seat them, to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from scheduler.core import planning, roster
from scheduler.core.gang import Refusal
from scheduler.core.judging import judge_again
from scheduler.core.state import State, Turn
from scheduler.model import Declaration, Node, Options, Pod
from scheduler.settings import Settings

GPU = "nvidia.com/gpu"
CLIQUE = "nvidia.com/gpu.clique"
LEVELS = ("topo/block", "topo/rack")


@dataclass(frozen=True)
class Box:
    """A node: what it is in, GPUs that it has and that are free."""

    block: str | None = None
    rack: str | None = None
    clique: str | None = None
    free: int = 8
    gpus: int = 8
    more: dict[str, str] = field(default_factory=dict)

    def node(self, name: str) -> Node:
        labels = {**dict(zip(LEVELS, (self.block, self.rack), strict=True)), CLIQUE: self.clique}
        labels = {key: value for key, value in labels.items() if value is not None} | self.more
        return Node(name, labels=labels, allocatable={GPU: self.gpus, "pods": 110})

    def domain(self, level: int) -> str | None:
        """The path of its domain; None for none."""
        path = (self.block, self.rack)[: level + 1]
        return None if None in path else "/".join(map(str, path))


def state_of(boxes: list[Box]) -> State:
    """A cluster of nodes n0, n1 .. on which what is not free is taken by others."""
    state = State(Settings(levels=LEVELS), synced=True)
    for number, box in enumerate(boxes):
        state.ledger.put_node(box.node(f"n{number}"))
        taken = {GPU: box.gpus - box.free}
        state.ledger.put(f"other-{number}", f"n{number}", taken, ())
    return state


def seated(
    boxes: list[Box], members: int, gpus: int = 1, *, master: bool = False, **options: object
) -> list[int] | None:
    """Which node each member of a fresh gang gets, in rank order; None if it must wait.

    A ``master`` is the first of them, and says nothing of segments.
    """
    state = state_of(boxes)
    whole = Options(min_available=members, **options)
    alone = replace(whole, role="master", segment_size=None, segment_level="")
    turn = Turn(state, 0.0)
    for number in range(members):
        declared = Declaration("a", "muster", alone if master and not number else whole)
        pod = Pod("t", f"a-{number}", f"u{number}", index=number, declaration=declared)
        roster.pod_seen(turn, _asking(pod, gpus))
    [gang] = state.gangs.values()
    judge_again(state, gang)
    outcome = planning.attempt(state, gang)
    if isinstance(outcome, Refusal):
        return None
    return [int(name.removeprefix("n")) for name in outcome.nodes]


def _asking(pod: Pod, gpus: int) -> Pod:
    requests = {"pods": 1} | ({GPU: gpus} if gpus else {})
    return Pod(
        pod.namespace,
        pod.name,
        pod.uid,
        requests=requests,
        index=pod.index,
        declaration=pod.declaration,
    )


def every_seating(boxes: list[Box], members: int, gpus: int = 1) -> Iterator[Counter[int]]:
    """All ways to spread members alike over the nodes: node -> members."""
    room = [range(min(members, box.free // gpus) + 1) for box in boxes]
    for counts in product(*room):
        if sum(counts) == members:
            yield Counter({node: count for node, count in enumerate(counts) if count})


def domains_used(boxes: list[Box], nodes: Iterator[int] | list[int]) -> tuple[int, ...]:
    """Blocks, racks and nodes; a node in none counts as one by itself."""
    used = set(nodes)
    levels = [{boxes[node].domain(level) or node for node in used} for level in range(2)]
    return (*map(len, levels), len(used))


def random_boxes(rng: np.random.Generator, *, nested: bool) -> list[Box]:
    """A few nodes whose NVLink domains lie in racks, or cross them."""
    boxes = []
    for _ in range(int(rng.integers(3, 7))):
        block, rack = str(rng.choice(["b1", "b2"])), str(rng.choice(["r1", "r2"]))
        inside = f"{block}{rack}" if nested else ""
        clique = f"{inside}c{rng.integers(2)}" if rng.random() < 0.85 else None
        known = rng.random() < 0.93
        boxes.append(
            Box(block, rack if known else None, clique, int(rng.choice([0, 1, 1, 2, 3])), 4)
        )
    return boxes
