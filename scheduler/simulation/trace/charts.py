"""Small pictures in SVG: lines over time and bars side by side, without any library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

COLOURS = {
    "muster": "#1a7f5a",
    "muster-told": "#7fc8a9",
    "spread": "#c0392b",
    "binpack": "#2e6da4",
    "greedy": "#8e5ea2",
    "random": "#7f7f7f",
    "bestfit": "#2e6da4",
    "fgd": "#d98c00",
}
WIDTH, HEIGHT = 560, 150
LEFT, TOP, RIGHT, BOTTOM = 62, 28, 14, 30
"""Pixels of one panel and of its margins."""

IN_LEGEND = 6
"""Names in one row of the legend."""

Points = Sequence[tuple[float, float]]


def page(title: str, panels: Sequence[str], names: Sequence[str]) -> str:
    """Panels below each other, with one legend."""
    head = 36 + 16 * -(-len(names) // IN_LEGEND)
    height = head + len(panels) * (HEIGHT + TOP + BOTTOM)
    width = LEFT + WIDTH + RIGHT
    moved = "".join(
        f'<g transform="translate(0 {head + place * (HEIGHT + TOP + BOTTOM)})">\n{panel}</g>\n'
        for place, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="10" y="18" font-size="13" font-weight="bold">{escape(title)}</text>\n'
        f"{_legend(names)}{moved}</svg>\n"
    )


def lines(
    title: str, unit: str, series: Mapping[str, Points], until: float, along: str = ""
) -> str:
    """Values from 0 to ``until``: seconds, or what ``along`` says.

    A value holds until the next.
    """
    top = _ceiling(value for points in series.values() for _, value in points)
    parts = [_frame(title, unit, top), _scale(until, along)]
    for name, points in series.items():
        path = _path(points, until, top)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour(name)}" stroke-width="1.3"/>\n')
    return "".join(parts)


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Groups of bars: group -> name -> value."""
    top = _ceiling(value for group in groups.values() for value in group.values())
    parts = [_frame(title, unit, top)]
    room = WIDTH / max(1, len(groups))
    for place, (label, group) in enumerate(groups.items()):
        left = LEFT + place * room
        centre, under = left + room / 2, TOP + HEIGHT + 16
        parts.append(f'<text x="{centre:.1f}" y="{under}" {_MIDDLE}>{escape(label)}</text>\n')
        wide = room * 0.8 / max(1, len(group))
        for number, (name, value) in enumerate(group.items()):
            parts.append(_bar(name, value, left + room * 0.1 + number * wide, wide, top))
    return "".join(parts)


def thinned(points: Points, until: float, most: int = 300) -> list[tuple[float, float]]:
    """Means over equal spans of time: what a picture of that width can show."""
    if not points or until <= 0:
        return list(points)
    span = until / most
    sums = [0.0] * most
    ends = [at for at, _ in points[1:]] + [until]
    for (at, value), end in zip(points, ends, strict=True):
        first, last = int(at / span), min(most - 1, int(end / span))
        for cell in range(first, last + 1):
            sums[cell] += value * max(0.0, min(end, (cell + 1) * span) - max(at, cell * span))
    return [(cell * span, total / span) for cell, total in enumerate(sums)]


def colour(name: str) -> str:
    """``#rrggbb``; names that are not known are grey."""
    return COLOURS.get(name, "#555555")


_MIDDLE = 'text-anchor="middle" fill="#555555"'


def _legend(names: Sequence[str]) -> str:
    return "".join(
        f'<g transform="translate({10 + place % IN_LEGEND * 100} {27 + place // IN_LEGEND * 16})">'
        f'<rect width="11" height="11" fill="{colour(name)}"/>'
        f'<text x="15" y="10">{escape(name)}</text></g>\n'
        for place, name in enumerate(names)
    )


def _frame(title: str, unit: str, top: float) -> str:
    parts = [f'<text x="{LEFT}" y="{TOP - 9}" font-weight="bold">{escape(title)}</text>\n']
    for step in range(3):
        y = TOP + HEIGHT * (1 - step / 2)
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y}" y2="{y}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end" fill="#555555">'
            f"{_number(top * step / 2)}{escape(unit)}</text>\n"
        )
    return "".join(parts)


def _scale(until: float, along: str) -> str:
    if not along:
        until, along = (until / 86_400, "d") if until > 3 * 86_400 else (until / 3600, "h")
    return "".join(
        f'<text x="{LEFT + (WIDTH - 16) * share:.1f}" y="{TOP + HEIGHT + 16}" {_MIDDLE}>'
        f"{_number(until * share)} {escape(along)}</text>\n"
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    )


def _path(points: Points, until: float, top: float) -> str:
    parts: list[str] = []
    for at, value in points:
        x, y = LEFT + WIDTH * at / max(until, 1e-9), TOP + HEIGHT * (1 - value / top)
        parts.append(f"H{x:.1f}V{y:.1f}" if parts else f"M{x:.1f} {y:.1f}")
    return "".join([*parts, f"H{LEFT + WIDTH}"]) if parts else ""


def _bar(name: str, value: float, left: float, wide: float, top: float) -> str:
    tall = HEIGHT * value / top
    return (
        f'<rect x="{left:.1f}" y="{TOP + HEIGHT - tall:.1f}" width="{wide * 0.9:.1f}" '
        f'height="{tall:.1f}" fill="{colour(name)}">'
        f"<title>{escape(name)}: {_number(value)}</title></rect>\n"
    )


def _ceiling(values: Iterable[float]) -> float:
    """A round number, not below any value."""
    most = round(max(values, default=0.0), 6)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= most)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
