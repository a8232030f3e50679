"""The report for people: Markdown tables and a picture in SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Row = Mapping[str, Any]

_HEADS = (
    "nodes",
    "load",
    "arm",
    "complete to bound, s",
    "spread, s",
    "worst, s",
    "pods/s",
    "blocks, racks",
    "partial pod-s",
    "beyond",
    "cycles",
    "filter calls",
    "CPU s: API server, etcd, scheduler, Muster",
    "peak MB: scheduler, Muster",
    "others' CPUs",
)


def table(rows: Iterable[Row]) -> str:
    """All rows as a Markdown table."""
    return markdown(_HEADS, [_cells(row) for row in rows])


def bars_table(bars: Iterable[Row]) -> str:
    """The bars as a Markdown table."""
    words = {True: "yes", False: "**no**", None: "not measured"}
    lines = [(bar["name"], bar["want"], number(bar["got"]), words[bar["ok"]]) for bar in bars]
    return markdown(("bar", "wanted", "got", "met"), lines)


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rule = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *lines))


def number(value: float | None) -> str:
    """Three digits that count; a dash for what is missing."""
    if value is None:
        return "—"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _cells(row: Row) -> list[str]:
    cpu, peak = row["cpu_s"], row["rss_mb"]
    used = ("kube-apiserver", "etcd", "kube-scheduler", "muster")
    return [
        f"{row['nodes']:,}",
        row["load"],
        row["arm"],
        number(row["complete_to_bound_s"])
        + (f" ({row['unbound']} never)" if row["unbound"] else ""),
        " to ".join(map(number, row["spread_s"])),
        number(row["worst_s"]),
        number(row["pods_per_s"]),
        ", ".join(map(number, row["domains"])),
        number(row["partial_pod_s"]),
        number(row["beyond_pod_s"]),
        number(row["cycles"]),
        number(row["filter_calls"]),
        ", ".join(number(cpu.get(name)) for name in used),
        ", ".join(number(peak.get(name)) for name in used[2:]),
        number(row["others_cpu"]),
    ]


# ── the picture ──

_COLOURS = {
    "stock": "#8d99ae",
    "native": "#5b7db1",
    "native-topology": "#2b4c7e",
    "burst": "#2a9d5c",
    "burst-gated": "#63b987",
    "nominate": "#7cb518",
    "follow": "#e9a03b",
    "raw": "#c9c9c9",
}
_WIDTH, _LEFT, _RIGHT, _BAR, _GAP = 860, 170, 90, 16, 34
_FLOOR_S = 0.01


def picture(rows: Sequence[Row]) -> str:
    """Seconds from complete to bound as bars on a logarithmic scale, in one SVG."""
    shown = [row for row in rows if row["complete_to_bound_s"] is not None]
    longest = max([row["complete_to_bound_s"] for row in shown], default=1.0)
    top, parts = 46.0, []
    for title, group in _groups(shown):
        parts.append(_text(12, top + 12, title, weight="bold"))
        top += 22
        for row in group:
            parts.append(_bar(row, top, longest))
            top += _BAR + 4
        top += _GAP - 22
    return _svg(top + 10, parts)


def _groups(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(f"{row['load']}, {row['nodes']:,} nodes", []).append(row)
    return list(groups.items())


def length(seconds: float, longest: float, width: float) -> float:
    """How long a bar is; from 10 ms on, each factor of ten is as long as the one before."""
    if seconds <= _FLOOR_S:
        return 1.0
    share = math.log10(seconds / _FLOOR_S) / math.log10(max(longest, 10 * _FLOOR_S) / _FLOOR_S)
    return max(1.0, width * share)


def _bar(row: Row, top: float, longest: float) -> str:
    seconds = row["complete_to_bound_s"]
    wide = length(seconds, longest, _WIDTH - _LEFT - _RIGHT)
    colour = _COLOURS.get(row["arm"], "#666")
    return "".join(
        (
            _text(_LEFT - 8, top + 12, row["arm"], anchor="end"),
            f'<rect x="{_LEFT}" y="{top:.0f}" width="{wide:.1f}" height="{_BAR}" fill="{colour}"/>',
            _text(_LEFT + wide + 6, top + 12, f"{number(seconds)} s"),
        )
    )


def _text(x: float, y: float, text: str, anchor: str = "start", weight: str = "normal") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place}>{escape(text)}</text>"


def _svg(height: float, parts: Iterable[str]) -> str:
    title = "Seconds from a gang's last pod created to its last pod bound (median, log scale)"
    style = 'font-family="sans-serif" font-size="12" fill="#222"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" {style}>'
    )
    back = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join((head, back, _text(12, 24, title, weight="bold"), *parts, "</svg>\n"))
