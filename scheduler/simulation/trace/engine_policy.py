"""Muster's own policy: the engine that runs live, fed with what the watch would show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from scheduler.core import engine
from scheduler.core.messages import (
    Bind,
    EffectDone,
    Event,
    NodeSeen,
    Outcome,
    PodGone,
    PodSeen,
    Record,
    Synced,
    Tick,
)
from scheduler.model import Declaration, Options, Phase, Pod
from scheduler.settings import Settings
from scheduler.simulation.fleet import LEVELS
from scheduler.simulation.trace.ground import CPUS, MEMORY, Shape, node_name
from scheduler.simulation.trace.scheduling import Move, Placed
from scheduler.simulation.trace.workload import Gang

NAMESPACE = "trace"


class EnginePolicy:
    """Pods come, are bound as the engine says, succeed, and are deleted; Bindings always land.

    ``tells_runtime`` has every gang state its running time, as ``max-runtime``.
    """

    def __init__(
        self, shape: Shape, settings: Settings | None = None, *, tells_runtime: bool = False
    ) -> None:
        self._state = engine.new_state(settings or Settings(levels=LEVELS))
        self._tells_runtime = tells_runtime
        self._row = {node_name(row): row for row in range(shape.count)}
        self._running: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        """Gang -> node -> uids of its pods there."""
        self._due: float | None = None
        self._feed((NodeSeen(node) for node in shape.node_objects()), 0.0)
        self._feed([Synced()], 0.0)

    def submit(self, gang: Gang, now: float) -> list[Move]:
        return self._feed([PodSeen(pod) for pod in self._pods(gang)], now)

    def finish(self, gang: Gang, row: int, now: float) -> list[Move]:
        running = self._running[gang.name]
        pod = self._state.pods[running[row].pop()]
        moves = self._feed([PodSeen(replace(pod, phase=Phase.SUCCEEDED))], now)
        if any(running.values()):
            return moves
        del self._running[gang.name]
        gone = [PodGone(_uid(gang, index)) for index in range(gang.pods)]
        return moves + self._feed(gone, now)

    def tick(self, now: float) -> list[Move]:
        return self._feed([Tick()], now)

    def due(self) -> float | None:
        return self._due

    def _pods(self, gang: Gang) -> Iterable[Pod]:
        runtime = gang.duration_s if self._tells_runtime else None
        options = Options(min_available=gang.pods, max_runtime=runtime)
        declaration = Declaration(gang.name, "muster", options)
        requests = {
            "cpu": CPUS * gang.gpus,
            "memory": MEMORY * gang.gpus,
            "pods": 1,
            "nvidia.com/gpu": gang.gpus,
        }
        for index in range(gang.pods):
            yield Pod(
                NAMESPACE,
                f"{gang.name}-{index}",
                _uid(gang, index),
                scheduler="muster",
                created=gang.arrival_s,
                requests=requests,
                declaration=declaration,
                index=index,
            )

    def _feed(self, events: Iterable[Event], now: float) -> list[Move]:
        moves: list[Move] = []
        for event in events:
            step = engine.step(self._state, event, now)
            self._due = step.next_due
            for effect in step.effects:
                if isinstance(effect, Bind):
                    row = self._row[effect.node]
                    self._running[effect.gang.name][row].append(effect.ref.uid)
                    moves.append(Placed(effect.gang.name, row))
                    moves += self._feed([EffectDone(effect.id, Outcome.OK)], now)
                elif not isinstance(effect, Record):
                    raise AssertionError(f"unexpected effect {effect}")
        return moves


def _uid(gang: Gang, index: int) -> str:
    return f"{gang.name}/{index}"
