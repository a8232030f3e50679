"""Random sequences of operations from fixed seeds, and how a failing one is made short."""

from __future__ import annotations

import random
import traceback
from collections.abc import Sequence

from . import kits
from .operations import Op, do
from .trial import Trial

APART = {"change_chart": "charts", "relabel": "labels", "resize": "sizes"}
"""What is drawn apart, and the name of its seed: most runs have none of these, and are what they
were without them."""
WEIGHTS = {
    "member": 22,
    "whole_gang": 6,
    "single": 4,
    "plain": 3,
    "foreign": 3,
    "bind_behind": 1,
    "delete": 7,
    "terminate": 2,
    "finish": 3,
    "recreate": 5,
    "new_controller": 2,
    "ungate": 3,
    "change_min": 1,
    "drop_group": 1,
    "change_chart": 3,
    "relabel": 4,
    "resize": 4,
    "change_node": 5,
    "lose_node": 1,
    "return_node": 2,
    "end_effect": 26,
    "end_all": 5,
    "watch": 3,
    "stale": 2,
    "again": 1,
    "filter": 5,
    "prioritize": 1,
    "preempt": 1,
    "bind": 6,
    "stranger": 1,
    "wait": 8,
    "next_tick": 4,
    "restart": 1,
}
CALM = {
    "member": 20,
    "whole_gang": 6,
    "single": 4,
    "end_all": 10,
    "watch": 3,
    "filter": 5,
    "bind": 6,
    "wait": 3,
    "next_tick": 3,
}
"""Nothing that could leave a gang with less than min: here I2 holds without exception."""


def draw(seed: int, longest: int = 200, weights: dict[str, int] = WEIGHTS) -> list[Op]:
    """The operations of this seed."""
    rng = random.Random(f"operations {seed}")
    apart = {what: random.Random(f"{key} {seed}") for what, key in APART.items()}
    drawn = {name: weight for name, weight in weights.items() if name not in APART}
    names = rng.choices(list(drawn), list(drawn.values()), k=rng.randint(10, longest))
    found = []
    for name in names:
        for what, own in apart.items():
            if own.randrange(100) < weights.get(what, 0):
                found.append(_op(own, what))
        found.append(_op(rng, name))
    return found


def _op(rng: random.Random, name: str) -> Op:
    return Op(name, *(rng.randrange(1 << 16) for _ in range(3)))


def run(kit: kits.Kit, operations: Sequence[Op]) -> Trial:
    """Carry out a sequence, let it come to rest, and check all along the way."""
    trial = Trial(kit)
    for op in operations:
        do(trial, op)
    trial.settle()
    return trial


def failure_of(kit: kits.Kit, operations: Sequence[Op]) -> BaseException | None:
    """What goes wrong in a sequence, if anything does."""
    try:
        run(kit, operations)
    except Exception as error:
        return error
    return None


def place_of(error: BaseException | None) -> tuple[str, str, int] | None:
    """Where an error came from; two failures with the same one are taken to be the same fault."""
    if error is None:
        return None
    last = traceback.extract_tb(error.__traceback__)[-1]
    return type(error).__name__, last.filename, last.lineno or 0


def shrink(kit: kits.Kit, operations: list[Op], tries: int = 400) -> list[Op]:
    """A part of a failing sequence that fails alike: parts are left out while that lasts."""
    place = place_of(failure_of(kit, operations))
    size = len(operations) // 2
    while size and tries > 0:
        at = 0
        while at < len(operations) and tries > 0:
            shorter = operations[:at] + operations[at + size :]
            tries -= 1
            if place_of(failure_of(kit, shorter)) == place:
                operations = shorter
            else:
                at += size
        size //= 2
    return operations


def explain(seed: int, kit: kits.Kit, operations: list[Op], error: BaseException) -> str:
    """A failing run, for people: the shortest sequence found and where it ends."""
    short = shrink(kit, operations)
    last = failure_of(kit, short) or error
    lines = [f"seed {seed}: {type(last).__name__}: {last}", "operations:"]
    lines += [f"    Op({op.name!r}, {op.a}, {op.b}, {op.c})," for op in short]
    return "\n".join(lines)
