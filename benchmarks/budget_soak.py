"""Whether memory grows: gangs come, start, end and are gone, again and again."""

from __future__ import annotations

import gc
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from benchmarks.cluster_processes import rss_mb
from scheduler.commands.garbage import short_collections
from scheduler.core.messages import (
    Bind,
    Cancel,
    Effect,
    EffectDone,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Record,
    Synced,
)
from scheduler.model import Declaration, Node, Options, Phase, Pod
from scheduler.service import Post, Service
from scheduler.settings import Settings

NODES, ALIVE, MEMBERS = 200, 20, 8
POINTS = 40
BETWEEN_S = 10.0
"""Seconds of the service's clock between two gangs: the history of a day, and the 10,000 starts
that are remembered, are full after half of 20,000 gangs."""

Curve = list[tuple[int, float]]
"""Gangs that have been, and MiB that were resident then."""


class Obedient:
    """Carries every effect out as soon as it is told to, and the API server always agrees."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.bound = 0
        """Bindings made."""
        self._waiting: deque[Effect] = deque()
        self._post: Post = _nowhere

    def start(self, post: Post) -> None:
        """Remember where outcomes go."""
        self._post = post

    def submit(self, effects: Sequence[Effect]) -> None:
        """Keep them until ``carry_out``."""
        self._waiting.extend(effects)

    def stop(self, deadline_s: float) -> None:
        """Nothing runs."""

    def carry_out(self) -> None:
        """Do all that waits."""
        while self._waiting:
            effect = self._waiting.popleft()
            if isinstance(effect, Record | Cancel):
                continue
            if isinstance(effect, Bind):
                self.bound += 1
                pod = replace(self.pods[effect.ref.uid], node=effect.node, phase=Phase.RUNNING)
                self._post(PodSeen(pod))
            self._post(EffectDone(effect.id, Outcome.OK))


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class NoTimer:
    """Nobody waits for a tick here."""

    def start(self, fire: Callable[[], None]) -> None:
        """Nothing to start."""

    def set(self, due: float | None) -> None:
        """Nothing to wait for."""

    def stop(self) -> None:
        """Nothing to stop."""


class Soak:
    """A service through which gangs pass."""

    def __init__(self) -> None:
        self._clock, self._actuator = Clock(), Obedient()
        settings = Settings(levels=("topo/rack",))
        self.service = Service(settings, self._actuator, clock=self._clock, timer=NoTimer())
        self.service.start()
        for at in range(NODES):
            self.service.post(NodeSeen(_node(at)))
        self.service.post(Synced())

    def pass_through(self, gangs: int) -> tuple[Curve, float]:
        """Let so many gangs come and go; the curve of memory, and seconds of CPU.

        Garbage is collected as `muster serve` does it. RuntimeError if the gangs did not all start,
        for then nothing was measured.
        """
        with short_collections(self._clock):
            return self._passed(gangs)

    def _passed(self, gangs: int) -> tuple[Curve, float]:
        curve, began = [], time.process_time()
        every = max(1, gangs // POINTS)
        for at in range(gangs):
            self._come(at)
            if at >= ALIVE:
                self._go(at - ALIVE)
            if at % every == every - 1:
                gc.collect()
                curve.append((at + 1, round(rss_mb(os.getpid()), 1)))
        if self._actuator.bound != gangs * MEMBERS:
            raise RuntimeError(f"{self._actuator.bound} pods were bound, not {gangs * MEMBERS}")
        return curve, time.process_time() - began

    def _come(self, gang: int) -> None:
        for pod in members(gang):
            self._actuator.pods[pod.uid] = pod
            self.service.post(PodSeen(pod))
        self._actuator.carry_out()
        self._clock.now += BETWEEN_S

    def _go(self, gang: int) -> None:
        for pod in members(gang):
            del self._actuator.pods[pod.uid]
            self.service.post(PodGone(pod.uid))
        self._actuator.carry_out()


def members(gang: int) -> list[Pod]:
    """The pods of the gang of that number."""
    declared = Declaration(f"g{gang}", "muster", Options(min_available=MEMBERS))
    return [
        Pod(
            "soak",
            f"g{gang}-{index}",
            f"uid-{gang}-{index}",
            scheduler="muster",
            requests={"cpu": 8000, "memory": 2**30, "pods": 1, "nvidia.com/gpu": 8},
            declaration=declared,
            index=index,
        )
        for index in range(MEMBERS)
    ]


def growth(curve: Curve) -> float:
    """MiB for each 1,000 gangs over the second half of the curve, when caches are full."""
    half = curve[len(curve) // 2 :]
    (first, before), (last, after) = half[0], half[-1]
    return 0.0 if last == first else round(1000 * (after - before) / (last - first), 3)


def soak(gangs: int) -> dict[str, Any]:
    """The row of the report, measured in a process of its own."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        curve, cpu_s = pool.submit(_soaked, gangs).result()
    return {
        "what": "soak",
        "gangs": gangs,
        "curve_mb": curve,
        "mb_per_1000_gangs": growth(curve),
        "ms_per_gang": round(1000 * cpu_s / gangs, 2),
    }


def _soaked(gangs: int) -> tuple[Curve, float]:
    return Soak().pass_through(gangs)


def _node(at: int) -> Node:
    room = {"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8}
    return Node(f"n{at:05}", labels={"topo/rack": f"r{at // 16:03}"}, allocatable=room)


def _nowhere(event: object) -> None:
    raise RuntimeError(f"the service was not started, so nobody hears of {event}")
