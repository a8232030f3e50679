"""What happens when the description of the network changes."""

from __future__ import annotations

from collections.abc import Hashable

from scheduler.core.presets import HOST_NAMES
from scheduler.core.state import Turn
from scheduler.model import Chart, GroupKey, Options


def chart_seen(turn: Turn, chart: Chart) -> None:
    """A topology object was added or changed."""
    if turn.state.charts.get(chart.key) != chart:
        turn.state.charts[chart.key] = chart
        _redraw(turn)


def chart_gone(turn: Turn, key: GroupKey) -> None:
    """A topology object was deleted."""
    if turn.state.charts.pop(key, None) is not None:
        _redraw(turn)


def note_asker(turn: Turn, who: Hashable, options: Options | None) -> None:
    """What a pod or a group asks for now; None where it is gone.

    That nodes are a level, too, makes planning several times as long: they are one only while
    somebody asks for it.
    """
    askers = turn.state.host_askers
    asks = options is not None and not HOST_NAMES.isdisjoint(options.hard_levels)
    if asks == (who in askers):
        return
    before = bool(askers)
    if asks:
        askers[who] = None
    else:
        del askers[who]
    if bool(askers) != before:
        _redraw(turn)


def _redraw(turn: Turn) -> None:
    """Levels may be others now: who was refused is tried again. What is reserved stays."""
    turn.state.topology_kept = None
    turn.state.gains += 1
