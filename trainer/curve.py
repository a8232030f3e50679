"""The learning curve as a picture: SVG, which needs nothing but text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

WIDTH, HEIGHT, MARGIN = 640, 320, 48
POINTS = 600
"""More than the picture is wide would only make the file larger."""


def svg(history: Sequence[tuple[int, float]], title: str) -> str:
    """A picture of losses by step. Values that are not finite leave a gap."""
    points = _thinned(list(history))
    finite = [loss for _, loss in points if _finite(loss)]
    if not finite:
        return _page(title, [])
    low, high = min(0.0, *finite), max(finite)
    first, last = points[0][0], points[-1][0]
    lines = [
        _line(_place(a, first, last, low, high), _place(b, first, last, low, high))
        for a, b in pairwise(points)
        if _finite(a[1]) and _finite(b[1])
    ]
    ticks = [_tick(low + part * (high - low) / 4, low, high) for part in range(5)]
    ends = [_text(MARGIN, HEIGHT - 16, str(first)), _text(WIDTH - MARGIN, HEIGHT - 16, str(last))]
    return _page(title, [*ticks, *ends, *lines])


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    every = max(1, len(points) // POINTS)
    kept = points[::every]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def _finite(value: float) -> bool:
    return value - value == 0


def _place(
    point: tuple[int, float], first: int, last: int, low: float, high: float
) -> tuple[float, float]:
    x = MARGIN + (point[0] - first) / max(1, last - first) * (WIDTH - 2 * MARGIN)
    return x, _height(point[1], low, high)


def _height(loss: float, low: float, high: float) -> float:
    return HEIGHT - MARGIN - (loss - low) / ((high - low) or 1) * (HEIGHT - 2 * MARGIN)


def _line(start: tuple[float, float], end: tuple[float, float]) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        'stroke="#1f6feb" stroke-width="1.5"/>'
    )


def _tick(value: float, low: float, high: float) -> str:
    y = _height(value, low, high)
    return (
        f'<line x1="{MARGIN}" y1="{y:.1f}" x2="{WIDTH - MARGIN}" y2="{y:.1f}" stroke="#ddd"/>'
        + _text(MARGIN // 2, y + 4, f"{value:.2f}")
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _page(title: str, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        + _text(WIDTH // 2, 24, title)
        + "".join(parts)
        + "</svg>\n"
    )
