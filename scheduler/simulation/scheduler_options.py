"""Configuration of the embedded kube-scheduler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """The scheduler's configuration, as far as it matters to an extender."""

    scheduler_names: tuple[str, ...] = ("muster",)
    initial_backoff_s: float = 1.0
    max_backoff_s: float = 60.0
    """``podMaxBackoffSeconds``."""
    percentage_of_nodes: int = 0
    """``percentageOfNodesToScore``; 0 = by cluster size."""
    cycle_s: float = 0.002
    """Virtual seconds of one scheduling cycle."""
    watch_s: float = 0.001
    """Virtual seconds until a change in the API server is seen."""
    extender_weight: int = 5
    """Beside an in-tree score of 0..100."""
    seed: int = 0
    """Of the choice among nodes with the same score, which kube-scheduler makes at random."""
