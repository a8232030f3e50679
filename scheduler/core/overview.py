"""The whole cluster in a few figures: room, gangs, the queue, and how well the free room serves."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from scheduler.core import fragmentation
from scheduler.core.capacity import Bools, Frame
from scheduler.core.fragmentation import Ask, FreeBy, Largest
from scheduler.core.gang import Gang, Reason, Stage, Status
from scheduler.core.rooming import accelerated
from scheduler.core.state import State

SAMPLE = 1_000
"""Pods that the current mix is taken from: of more, every second, third, … one."""

KINDS = 32
"""Kinds of pods in the mix, the most common ones."""

WAITING = (Stage.QUEUED, Stage.BROKEN)


def overview(state: State) -> dict[str, Any]:
    """Figures for ``muster status`` and ``top``, the page, and /metrics.

    Milliseconds on 5,000 nodes: node objects and pods are looked at once, the rest is arrays.
    """
    frame = state.ledger.frame()
    usable = usable_nodes(state, frame)
    resources = [name for name in frame.column if state.is_accelerator(name)]
    topology = state.topology()
    largest = fragmentation.largest_gangs(
        frame, topology.fabric, topology.levels, resources, usable, state.cliques()
    )
    without_use = fragmentation.share_without_use(frame, current_mix(state), resources, usable)
    return {
        "levels": list(topology.levels),
        "levels_from": topology.source,
        "levels_doubts": topology.doubts(),
        "outside": _outside(state, frame),
        "nodes": {"total": len(frame.names), "usable": int(usable.sum())},
        "gpus": _gpus(state, frame, usable),
        "gangs": _stages(state),
        "reasons": _reasons(state),
        "waiting": waiting(state),
        "largest_gang": [_as_row(found) for found in largest],
        "fragmentation": without_use,
    }


def _outside(state: State, frame: Frame) -> dict[str, int]:
    """Level -> nodes with accelerators that are in no domain of it, where there are any."""
    topology, has = state.topology(), accelerated(state, frame)
    lacking = [int((has & (ids < 0)).sum()) for ids in topology.fabric.domains]
    return {key: count for key, count in zip(topology.levels, lacking, strict=True) if count}


def sample(state: State) -> dict[str, Any]:
    """The part of it that is worth keeping over time, flat."""
    frame = state.ledger.frame()
    usable = usable_nodes(state, frame)
    resources = [name for name in frame.column if state.is_accelerator(name)]
    gpus, queue = _gpus(state, frame, usable), waiting(state)
    share = fragmentation.share_without_use(frame, current_mix(state), resources, usable)
    return {
        "gpus": gpus["total"],
        "used": gpus["used"] + gpus["reserved"],
        "fragmentation": share,
        "waiting_gangs": queue["gangs"],
        "waiting_pods": queue["pods"],
    }


def usable_nodes(state: State, frame: Frame) -> Bools:
    """Per row whether the node takes new pods at all, whatever they ask for."""
    nodes = (state.ledger.node(name) for name in frame.names)
    return np.array(
        [
            node is not None
            and node.ready
            and not (node.unschedulable or node.deleting or node.avoid)
            for node in nodes
        ],
        dtype=np.bool_,
    )


def current_mix(state: State) -> list[Ask]:
    """What the pods that wait or run ask for, by kind, the most common first.

    Taken from a sample where there are many: the same state gives the same mix.
    """
    step = 1 + max(0, len(state.pods) - 1) // SAMPLE
    counted = Counter(
        tuple(sorted(pod.requests.items()))
        for pod in islice(state.pods.values(), 0, None, step)
        if not pod.phase.terminal
    )
    asking = [
        Ask(dict(kind), count)
        for kind, count in sorted(counted.items(), key=lambda item: (-item[1], item[0]))
        if any(amount and state.is_accelerator(name) for name, amount in kind)
    ]
    return asking[:KINDS]


def waiting(state: State) -> dict[str, Any]:
    """How deep the queue is: gangs (those of one pod too), their unplaced pods, the longest wait.

    ``longest_s`` is in seconds of engine time, 0 if nothing waits.
    """
    queue = [gang for gang in state.gangs.values() if gang.stage in WAITING]
    waits = [state.now - gang.memory.waiting_since for gang in queue]
    return {
        "gangs": len(queue),
        "pods": sum(_unplaced(gang) for gang in queue),
        "longest_s": max(waits, default=0.0),
    }


def _unplaced(gang: Gang) -> int:
    return max(0, gang.count(Status.WAITING) - len(gang.reserved))


def _stages(state: State) -> dict[str, int]:
    """How many gangs are in which state, of those that ``explain.is_shown`` shows."""
    # Spelled out and counted by identity: gangs of one can be tens of thousands.
    seated = Status.SEATED
    shown = [
        gang.stage
        for gang in state.gangs.values()
        if not gang.key.pod or gang.reserved or gang.by_status[seated]
    ]
    counts = {stage.value: shown.count(stage) for stage in Stage}
    return {name: count for name, count in sorted(counts.items()) if count}


def _reasons(state: State) -> dict[str, int]:
    """How many gangs, those of one pod too, are not well for which reason."""
    given = [gang.life.reason for gang in state.gangs.values() if gang.life and gang.life.reason]
    counts = {reason.value: given.count(reason) for reason in Reason}
    return {name: count for name, count in sorted(counts.items()) if count}


def _gpus(state: State, frame: Frame, usable: Bools) -> dict[str, Any]:
    have = frame.total(frame.allocatable, state.is_accelerator)
    free = frame.total(frame.free, state.is_accelerator)
    held = (state.pods[uid] for uid in state.reservations if uid in state.pods)
    reserved = sum(state.accelerators(pod) for pod in held)
    by: FreeBy = fragmentation.free_by_completeness(free, have, usable)
    total = int(have.sum())
    return {
        "total": total,
        "used": max(0, total - int(free.sum()) - reserved),
        "reserved": reserved,
        "free": by._asdict(),
    }


def _as_row(found: Largest) -> dict[str, Any]:
    return {
        "resource": found.resource,
        "level": found.level,
        "gpus_per_pod": found.size,
        "pods": found.pods,
    }
