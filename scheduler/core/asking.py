"""How much one question may be about. While it is answered, nothing else is planned."""

from __future__ import annotations

MOST_PODS = 4096
"""Pods of one question."""

MOST_GANGS = 64
"""Gangs of one question."""

MOST_ROWS = 700_000
"""Rows of `Work` for one question: 100 placements on 5,000 nodes, a good half second of a
processor. What is begun is ended, so it may be a few placements more."""

LEAST_TIMES = 16
"""So often all nodes may be looked at in any case, however many there are."""

TOO_MANY_PODS = f"more than {MOST_PODS} pods are not judged at once: ask about fewer"
"""For people, wherever the pods are counted."""


def most_rows(nodes: int) -> int:
    """Rows for one question on a cluster of so many nodes."""
    return max(MOST_ROWS, LEAST_TIMES * nodes)
