"""How every benchmark reports: one JSON object as the last line, and the same in a file."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Row = Mapping[str, Any]


def report(
    bench: str, rows: Sequence[Row], packages: Sequence[str] = (), more: Row | None = None
) -> Path:
    """Print `{"bench": .., "command": .., "versions": .., "rows": [..]}` and write the same to
    results/BENCH.json. The load average tells whether others were at work beside.

    `packages` are the distributions whose versions matter to the result, besides Muster's own;
    `more` are further keys of the object.
    """
    told = {
        "bench": bench,
        "command": command(Path(sys.argv[0]).stem, sys.argv[1:]),
        "versions": versions(packages),
        "load_average": round(os.getloadavg()[0], 1),
        **(more or {}),
        "rows": list(rows),
    }
    text = json.dumps(told)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{bench}.json"
    path.write_text(text + "\n", encoding="utf-8")
    print(text, flush=True)
    return path


def command(module: str, words: Sequence[str]) -> str:
    """How to repeat it; a path says more of the machine than of the benchmark."""
    shown = [Path(word).name if "/" in word else word for word in words]
    return " ".join(("python -m", f"benchmarks.{module}", *shown))


def versions(packages: Sequence[str]) -> dict[str, str]:
    """What was measured, and on what."""
    found = {"machine": _machine(), "python": platform.python_version()}
    for package in ("muster-scheduler", *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _machine() -> str:
    """Processor and number of CPUs that this process may use."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {_processor()}, {cpus} CPUs"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"
