"""Writes what benchmarks found into benchmarks/RESULTS.md: `python -m benchmarks.publish NAME...`.

Each benchmark has a section of its own, which is replaced; all others stay. What is written comes
from results/NAME.json, which every benchmark leaves behind.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.cluster_table import bars_table, markdown, number, table

Told = Mapping[str, Any]

PAGE = Path(__file__).parent / "RESULTS.md"
MOST_CELLS = 8
"""Longer lists, such as curves, are told by their first and last value."""

HEAD = """\
# Results

What the benchmarks found, each on the machine and with the versions that stand beside it. Each
section is written by `python -m benchmarks.publish NAME` after the benchmark has run; its command
repeats it.
"""
TITLES = {
    "cluster": "How fast gangs start, side by side",
    "waiting": "What gangs cost that wait",
    "budget": "Muster's own budget",
    "scale": "Muster's cost by the number of nodes",
    "extender": "Answer times of the extender",
    "planner": "Time to plan a gang",
    "engine": "What events cost while gangs wait",
}
"""In the order of the page; others come after them."""


def publish(names: Iterable[str]) -> None:
    """Replace the sections of these benchmarks. SystemExit if one has left no results."""
    found = _sections(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for name in names:
        file = report.RESULTS / f"{name}.json"
        if not file.exists():
            raise SystemExit(f"{file.name} is not there: run the benchmark {name} first")
        found[name] = section(json.loads(file.read_text(encoding="utf-8")))
        drawn = report.RESULTS / f"{name}.svg"
        if drawn.exists():
            shutil.copyfile(drawn, PAGE.with_name(f"{name}.svg"))
    order = [*TITLES, *(name for name in sorted(found) if name not in TITLES)]
    parts = [_marked(name, found[name]) for name in order if name in found]
    PAGE.write_text("\n".join([HEAD, *parts]), encoding="utf-8")


def section(told: Told) -> str:
    """One benchmark's part of the page."""
    name = told["bench"]
    versions = ", ".join(f"{what} {version}" for what, version in _versions(told).items())
    parts = [f"## {TITLES.get(name, name)}", f"`{told.get('command', name)}`", versions + "."]
    if name == "cluster":
        parts += [bars_table(told["bars"]), table(told["rows"])]
        parts.append("![Seconds from complete to bound, by arm](cluster.svg)")
    else:
        parts += [_table(rows) for rows in _alike(told["rows"])]
    return "\n\n".join(parts)


def _versions(told: Told) -> dict[str, Any]:
    programs = told.get("host", {}).get("programs", {})
    load = {"load average at the end": told["load_average"]} if "load_average" in told else {}
    return {**told["versions"], **programs, **load}


def _alike(rows: Sequence[Told]) -> list[list[Told]]:
    """Rows with the same keys share a table."""
    tables: dict[tuple[str, ...], list[Told]] = {}
    for row in rows:
        tables.setdefault(tuple(row), []).append(row)
    return list(tables.values())


def _table(rows: Sequence[Told]) -> str:
    return markdown(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_cell(inner)}" for key, inner in value.items() if inner)
    if isinstance(value, list):
        shown = [_cell(inner) for inner in value]
        return " … ".join((shown[0], shown[-1])) if len(shown) > MOST_CELLS else ", ".join(shown)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return str(value)


def _marked(name: str, text: str) -> str:
    return f"<!-- {name} -->\n\n{text}\n"


def _sections(page: str) -> dict[str, str]:
    parts = re.split(r"^<!-- ([\w-]+) -->\n", page, flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def main(words: Sequence[str] | None = None) -> None:
    """Write the sections that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish")
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as cluster")
    publish(parser.parse_args(words).names)


if __name__ == "__main__":
    main()
