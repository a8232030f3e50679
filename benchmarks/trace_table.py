"""The report of the traces for people: Markdown tables, bars, and a picture in SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster_table import markdown
from scheduler.simulation.trace import charts, filling, running
from scheduler.simulation.trace.measures import CLASSES

Row = Mapping[str, Any]

PUBLISHED = {
    "default": {"random": 87.47, "bestfit": 93.08, "fgd": 95.39},
    "multigpu50": {"random": 90.28, "bestfit": 95.74, "fgd": 97.18},
}
"""Weng et al., USENIX ATC 2023: per cent of GPUs allocated when 130 % had arrived, means of ten
seeds, from the expected results in the repository of their simulator (Apache-2.0)."""

TOLERANCE = 0.5
PICTURE = Path(__file__).parent / "trace.svg"


def bars_of(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What must hold, and whether it does."""
    bars = [
        _bar(f"{_named(row)}, {row['policy']}: GPU-seconds of incomplete gangs", 0, held, held == 0)
        for row in rows
        if row["policy"].startswith("muster") and (held := row.get("partial_gpu_s")) is not None
    ]
    for name, published in PUBLISHED.items():
        got = {policy: mean(_of(rows, name, policy)) for policy in filling.POLICIES}
        if not _of(rows, name, "muster"):
            continue
        near = abs(got["bestfit"] - published["bestfit"]) <= TOLERANCE
        bars.append(
            _bar(f"openb {name}: BestFit as published", published["bestfit"], got["bestfit"], near)
        )
        for what, best in (("as published", published["fgd"]), ("replayed here", got["fgd"])):
            ok = got["muster"] > best
            bars.append(_bar(f"openb {name}: muster above FGD {what}", best, got["muster"], ok))
    return bars


def _bar(name: str, want: float, got: float, ok: bool) -> dict[str, Any]:
    return {"name": name, "want": round(want, 3), "got": round(got, 3), "ok": ok}


def tables(rows: Sequence[Row], bars: Sequence[Row]) -> str:
    """All of it as Markdown."""
    parts = [gang_table(of, name) for name, of in _gang_groups(rows)]
    parts += [shared_table(rows)] if any("refused" in row for row in rows) else []
    missed = [bar["name"] for bar in bars if not bar["ok"]]
    parts.append(f"{len(bars) - len(missed)} of {len(bars)} bars hold. Missed: {missed or 'none'}.")
    return "\n\n".join(parts)


def gang_table(rows: Sequence[Row], title: str) -> str:
    """One line a policy, over all traces of the group."""
    sizes = [name for _, name in CLASSES if any(name in row["by_gpus"] for row in rows)]
    heads = ["policy", "used", "makespan, h", "held by half gangs, GPU-h", "gave back"]
    heads += [f"wait, {name} GPUs, min" for name in sizes]
    heads += ["racks", "x best", "blocks", "x best", "nodes"]
    clusters = sorted({name for row in rows for name in row.get("step_time", {})})
    heads += [f"step time, {name}" for name in clusters]
    lines = [
        _gang_line(policy, [row for row in rows if row["policy"] == policy], sizes, clusters)
        for policy in running.POLICIES
        if any(row["policy"] == policy for row in rows)
    ]
    return f"### {title}\n\n{markdown(heads, lines)}"


def _gang_line(
    policy: str, rows: Sequence[Row], sizes: Sequence[str], clusters: Sequence[str]
) -> list[str]:
    close = [row["closeness"] for row in rows if row["closeness"]["gangs"]]
    line = [
        policy,
        f"{mean(row['allocated_pct'] for row in rows):.1f} %",
        f"{sum(row['makespan_s'] for row in rows) / 3600:,.0f}",
        f"{sum(row['partial_gpu_s'] for row in rows) / 3600:,.0f}",
        f"{sum(row['given_back'] for row in rows):,}",
    ]
    for size in sizes:
        of = [row["by_gpus"][size] for row in rows if size in row["by_gpus"]]
        waited = _weighed(of, "mean_wait_s", "started") / 60
        line.append(f"{waited:,.1f} (p99 {max(row['p99_wait_s'] for row in of) / 60:,.0f})")
    for level in ("racks", "blocks"):
        got = _weighed(close, level, "gangs")
        best = sum(row[level] / row[f"{level}_over_optimum"] * row["gangs"] for row in close)
        gangs = sum(row["gangs"] for row in close)
        line += [f"{got:.2f}", f"{got * gangs / best:.3f}"]
    line.append(f"{_weighed(close, 'nodes', 'gangs'):.2f}")
    for cluster in clusters:
        told = [row["step_time"][cluster] | row["closeness"] for row in rows]
        line.append(f"{_weighed([row for row in told if row['gangs']], 'mean', 'gangs'):.3f}")
    return line


def shared_table(rows: Sequence[Row]) -> str:
    """One line a policy, means over the seeds, beside what was published."""
    heads = ["policy", *(f"{name}{what}" for name in PUBLISHED for what in ("", ", published"))]
    lines = []
    for policy in filling.POLICIES:
        line = [policy]
        for name, published in PUBLISHED.items():
            values = _of(rows, name, policy)
            spread = f"{mean(values):.2f} % ({min(values):.2f} to {max(values):.2f})"
            line += [spread, f"{published[policy]:.2f} %" if policy in published else "—"]
        lines.append(line)
    title = "### openb: GPUs allocated when 130 % have arrived"
    return f"{title}\n\n{markdown(heads, lines)}"


def write_pictures(rows: Sequence[Row]) -> None:
    """Waits, domains and half gangs of the Philly clusters, and what is left over of openb."""
    panels = []
    for name, of in _gang_groups(rows):
        panels.append(charts.bars(f"Mean wait, {name}", " min", _waits(of)))
        panels.append(charts.bars(f"Domains of a gang, mean, {name}", "", _domains(of)))
    left = {
        name: {
            policy: 100 - mean(_of(rows, name, policy))
            for policy in filling.POLICIES
            if _of(rows, name, policy)
        }
        for name in PUBLISHED
    }
    if any(left.values()):
        panels.append(charts.bars("openb: GPUs that nothing uses when 130 % came", " %", left))
    names = dict.fromkeys((*running.POLICIES, *filling.POLICIES))
    PICTURE.write_text(charts.page("Policies on traces", panels, list(names)), encoding="utf-8")


def _waits(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for _, size in CLASSES:
        for policy in running.POLICIES:
            of = [row["by_gpus"].get(size) for row in rows if row["policy"] == policy]
            there = [row for row in of if row]
            if there:
                waited = _weighed(there, "mean_wait_s", "started") / 60
                found.setdefault(f"{size} GPUs", {})[policy] = waited
    return found


def _domains(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    return {
        level: {
            policy: _weighed(
                [
                    row["closeness"]
                    for row in rows
                    if row["policy"] == policy and row["closeness"]["gangs"]
                ],
                level,
                "gangs",
            )
            for policy in running.POLICIES
        }
        for level in ("nodes", "racks", "blocks")
    }


def _gang_groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if "shape" in row:
            kind = "philly, all clusters" if row["trace"].startswith("philly") else row["trace"]
            groups.setdefault(_named({**row, "trace": kind}), []).append(row)
    return list(groups.items())


def _named(row: Row) -> str:
    return f"{row['trace']}, on {row['shape']}, pods of up to {row['gpus_per_pod']} GPUs"


def _of(rows: Sequence[Row], name: str, policy: str) -> list[float]:
    return [
        row["allocated_pct"]
        for row in rows
        if row["trace"] == f"openb {name}" and row["policy"] == policy
    ]


def _weighed(rows: Sequence[Row], value: str, weight: str) -> float:
    weights = sum(row[weight] for row in rows)
    return sum(row[value] * row[weight] for row in rows) / weights if weights else 0.0


def mean(values: Iterable[float]) -> float:
    """0 for none."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
