"""What the benchmark is held to: ratios between rows of one run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Row = Mapping[str, Any]
Cell = tuple[str, int, str]
"""Arm, nodes and load of a row."""

OURS = "burst"
GANG, MANY = "1x500", "100x16"
LARGE, SMALL = 5_000, 1_000


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio or a count, and whether it is good enough; None where it was not measured."""

    name: str
    want: str
    got: float | None
    ok: bool | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """The seconds of one row over those of another, and what is wanted of that."""

    upper: Cell
    lower: Cell
    want: float
    at_least: bool = False

    @property
    def name(self) -> str:
        """Both rows; what they have in common is said once."""
        (upper, many, load), (lower, few, _) = self.upper, self.lower
        right = lower if many == few else f"{lower} at {few}"
        return f"{load} at {many}: {upper} / {right}"

    def bar(self, rows: Sequence[Row]) -> Bar:
        """What these rows say of it."""
        got = ratio(seconds(rows, self.upper), seconds(rows, self.lower))
        want = f"{'>=' if self.at_least else '<='} {self.want:g}"
        return Bar(self.name, want, got, None if got is None else self._is_met(got))

    def _is_met(self, got: float) -> bool:
        return got >= self.want if self.at_least else got <= self.want


RATIOS = (
    Ratio(("native", LARGE, GANG), (OURS, LARGE, GANG), 5, at_least=True),
    Ratio(("native-topology", LARGE, GANG), (OURS, LARGE, GANG), 20, at_least=True),
    Ratio((OURS, LARGE, GANG), ("stock", LARGE, GANG), 1),
    Ratio((OURS, LARGE, GANG), (OURS, SMALL, GANG), 1.3),
    Ratio(("native", LARGE, MANY), (OURS, LARGE, MANY), 5, at_least=True),
    Ratio((OURS, LARGE, GANG), ("raw", LARGE, GANG), 1.25),
)
NOTHING = {
    "domains_over": "burst: domains beyond the fewest",
    "beyond_pod_s": "burst: partial pod-seconds beyond the burst",
    "unbound": "burst: pods never bound",
}
"""Keys of rows that should be 0, and what they are called."""


def bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Every bar, with what these rows say of it."""
    # Of loads without pods that end: only there the fewest domains are known.
    ours = [row for row in rows if row["arm"] == OURS and row["load"] != "churn"]
    ratios = [wanted.bar(rows) for wanted in RATIOS]
    counts = [none_of(name, [row[key] for row in ours]) for key, name in NOTHING.items()]
    return [asdict(bar) for bar in (*ratios, *counts)]


def seconds(rows: Iterable[Row], cell: Cell) -> float | None:
    """Median seconds from complete to bound; None where that was not measured."""
    for row in rows:
        if (row["arm"], row["nodes"], row["load"]) == cell:
            found: float | None = row["complete_to_bound_s"]
            return found
    return None


def none_of(name: str, values: Iterable[Any]) -> Bar:
    """A number, or a list of them, that should be 0 in every row."""
    worst = [max(value) if isinstance(value, list) else value for value in values]
    if not worst or None in worst:
        return Bar(name, "0", None, None)
    return Bar(name, "0", max(worst), max(worst) <= 0)


def ratio(upper: float | None, lower: float | None) -> float | None:
    """Rounded; None where a part is missing or nothing can be divided."""
    return None if upper is None or not lower else round(upper / lower, 2)
