"""What rank order and placement are worth, measured: `python -m benchmarks.fabric`.

Eight nodes in two racks, with links of 400 Mbit/s and uplinks of 100 Mbit/s, are network
namespaces of this machine; real processes reduce real gradients between them with gloo. The
order of ranks and the choice of nodes are the planner's own for that fabric, against what comes
without it: ranks by the nodes' numbers, which alternate between the racks, and pods spread over
both racks. `ratio` is the time over that of the planner's choice. Where namespaces are not
permitted, it says so and ends with 2.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.fabric_net import NODES, RACKS, Node, NotPermittedError, fabric
from benchmarks.report import RESULTS, report
from scheduler.core.placement import Ask, Fabric, Seats, place

PORT = 29577
WANTED = 3.0
"""A choice that ignores the racks should cost at least this much more, all-reduce alone."""

SECONDS = 600
GOOD = {"all-interleaved": "all-topology", "spread": "packed"}


def cases() -> list[dict[str, Any]]:
    """Nodes in rank order. Without the planner, pod i goes to node i and has rank i."""
    return [
        {"case": "all-topology", "nodes": planned(NODES)},
        {"case": "all-interleaved", "nodes": list(range(NODES))},
        {"case": "packed", "nodes": planned(NODES // 2)},
        {"case": "spread", "nodes": list(range(NODES // 2))},
    ]


def planned(members: int) -> list[int]:
    """Where Muster's planner puts a gang with a pod a node, in rank order."""
    racks = np.array([[node % RACKS for node in range(NODES)]], dtype=np.int32)
    ones = np.ones(NODES, dtype=np.int64)
    seats = place(Fabric(racks), Ask(members, ones, ones, 1))
    assert isinstance(seats, Seats)
    return [int(node) for node in seats.rows]


def measure(nodes: Sequence[Node], mib: int, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Times by case, from one process in each namespace."""
    job = {"address": nodes[0].address, "port": PORT, "nodes": len(nodes), "mib": mib,
           "repeats": repeats, "cases": cases()}  # fmt: skip
    running = [_start(node, job) for node in nodes]
    try:
        lines = [line for process in running for line in _lines(process)]
    finally:
        for process in running:
            process.kill()
            process.wait()
    found = [json.loads(line) for line in lines]
    return {item.pop("case"): item for item in found}


def _start(node: Node, job: dict[str, Any]) -> subprocess.Popen[str]:
    words = json.dumps({**job, "node": node.number})
    command = [sys.executable, "-m", "benchmarks.fabric_worker", words]
    return subprocess.Popen(
        ["ip", "netns", "exec", node.namespace, *command],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip


def _lines(process: subprocess.Popen[str]) -> list[str]:
    out, _ = process.communicate(timeout=SECONDS)
    if process.returncode:
        raise RuntimeError(f"a node's process ended with {process.returncode}; see above")
    return out.splitlines()


def rows(found: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """A row for each case and kind; those that ignore the racks have a `ratio`, too."""
    table = []
    for what in ("allreduce", "step"):
        times = {case: median(values[what]) for case, values in found.items()}
        for case, seconds in times.items():
            row = {"what": what, "case": case, "median_s": round(seconds, 4)}
            if case in GOOD:
                row["ratio"] = round(seconds / times[GOOD[case]], 2)
            table.append(row)
    return table


def picture(table: Sequence[dict[str, Any]]) -> str:
    """Bars, as SVG."""
    longest = max(row["median_s"] for row in table)
    bars = []
    for number, row in enumerate(table):
        y, width = 16 + 28 * number, 380 * row["median_s"] / longest
        color = "#d1242f" if "ratio" in row else "#1a7f37"
        bars.append(
            f'<text x="8" y="{y + 14}">{row["what"]} {row["case"]}</text>'
            f'<rect x="180" y="{y}" width="{width:.0f}" height="20" fill="{color}"/>'
            f'<text x="{186 + width:.0f}" y="{y + 14}">{row["median_s"]:.3f} s</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {24 + 28 * len(table)}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
        + "".join(bars)
        + "</svg>\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=2, help="MiB that are reduced")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each kind")
    options = parser.parse_args()
    try:
        with fabric() as nodes:
            table = rows(measure(nodes, options.mib, options.repeats))
    except NotPermittedError as error:
        print(f"no fabric here, so nothing was measured: {error}", file=sys.stderr)
        return 2
    report("fabric", table, ["torch", "numpy"])
    (RESULTS / "fabric.svg").write_text(picture(table), encoding="utf-8")
    worst = min(row["ratio"] for row in table if row["what"] == "allreduce" and "ratio" in row)
    return 0 if worst >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
