"""What happens when the description of the network changes."""

from __future__ import annotations

from scheduler.core.state import Turn
from scheduler.model import Chart, GroupKey


def chart_seen(turn: Turn, chart: Chart) -> None:
    """A topology object was added or changed."""
    if turn.state.charts.get(chart.key) != chart:
        turn.state.charts[chart.key] = chart
        _redraw(turn)


def chart_gone(turn: Turn, key: GroupKey) -> None:
    """A topology object was deleted."""
    if turn.state.charts.pop(key, None) is not None:
        _redraw(turn)


def _redraw(turn: Turn) -> None:
    """Levels may be others now: who was refused is tried again. What is reserved stays."""
    turn.state.topology_kept = None
    turn.state.gains += 1
