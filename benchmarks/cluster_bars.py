"""What the benchmark is held to: ratios between rows of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Row = Mapping[str, Any]
LARGE, SMALL = 5_000, 1_000
GANG, MANY = "1x500", "100x16"
OURS = "burst"


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio or a count, and whether it is good enough; None where it was not measured."""

    name: str
    want: str
    got: float | None
    ok: bool | None


def bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every bar, with what these rows say of it."""
    gang = (LARGE, GANG)
    found = [
        at_least(
            5,
            f"{GANG} at {LARGE}: native / burst",
            seconds(rows, "native", *gang),
            seconds(rows, OURS, *gang),
        ),
        at_least(
            20,
            f"{GANG} at {LARGE}: native-topology / burst",
            seconds(rows, "native-topology", *gang),
            seconds(rows, OURS, *gang),
        ),
        at_most(
            1.0,
            f"{GANG} at {LARGE}: burst / stock",
            seconds(rows, OURS, *gang),
            seconds(rows, "stock", *gang),
        ),
        at_most(
            1.3,
            f"{GANG}: burst at {LARGE} / at {SMALL}",
            seconds(rows, OURS, *gang),
            seconds(rows, OURS, SMALL, GANG),
        ),
        at_least(
            5,
            f"{MANY} at {LARGE}: native / burst",
            seconds(rows, "native", LARGE, MANY),
            seconds(rows, OURS, LARGE, MANY),
        ),
        at_most(
            1.25,
            f"{GANG} at {LARGE}: burst / raw client",
            seconds(rows, OURS, *gang),
            seconds(rows, "raw", *gang),
        ),
        none_of("burst: domains beyond the fewest", _ours(rows), "domains_over"),
        none_of("burst: partial pod-seconds beyond the burst", _ours(rows), "beyond_pod_s"),
        none_of("burst: pods never bound", _ours(rows), "unbound"),
    ]
    return [asdict(bar) for bar in found]


def seconds(rows: Iterable[Row], arm: str, nodes: int, load: str) -> float | None:
    """Median seconds from complete to bound; None where that was not measured."""
    for row in rows:
        if (row["arm"], row["nodes"], row["load"]) == (arm, nodes, load):
            found: float | None = row["complete_to_bound_s"]
            return found
    return None


def at_least(least: float, name: str, upper: float | None, lower: float | None) -> Bar:
    """A ratio that should be large."""
    got = ratio(upper, lower)
    return Bar(name, f">= {least:g}", got, None if got is None else got >= least)


def at_most(most: float, name: str, upper: float | None, lower: float | None) -> Bar:
    """A ratio that should be small."""
    got = ratio(upper, lower)
    return Bar(name, f"<= {most:g}", got, None if got is None else got <= most)


def none_of(name: str, rows: Sequence[Row], key: str) -> Bar:
    """A number, or a list of them, that should be 0 in every row."""
    worst = [_largest(row[key]) for row in rows]
    if not worst or None in worst:
        return Bar(name, "0", None, None)
    got = max(value for value in worst if value is not None)
    return Bar(name, "0", got, got <= 0)


def ratio(upper: float | None, lower: float | None) -> float | None:
    """Rounded; None where a part is missing or nothing can be divided."""
    return None if upper is None or not lower else round(upper / lower, 2)


def _ours(rows: Sequence[Row]) -> list[Row]:
    """Burst on loads without pods that end: only there the fewest domains are known."""
    return [row for row in rows if row["arm"] == OURS and row["load"] != "churn"]


def _largest(value: Any) -> float | None:
    return max(value, default=None) if isinstance(value, list) else value
