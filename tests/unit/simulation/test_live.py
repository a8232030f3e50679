"""What people see while the demo runs."""

from __future__ import annotations

import io

from rich.console import Console

from scheduler.simulation.live import Display, Glance, as_line, as_table
from scheduler.simulation.observer import GangSeen, Member


def glance(**changes: object) -> Glance:
    gang = GangSeen("t/[g]", min=2, arrived=0.0)
    gang.members["g-0"] = Member("", 8, holds=False, counts=False, hint="", uid="u")
    values = {
        "now": 3720.0,
        "arrived": 3,
        "total": 9,
        "waiting": [gang],
        "started": 2,
        "running": 1,
        "gpus_used": 8,
        "gpus": 64,
        "racks_used": 1,
        "mean_racks": 1.25,
        "partial": 0,
        "reasons": {"t/[g]": "no room: 1 of 2 placeable"},
        "training": "step 10/100 loss 1.5",
        **changes,
    }
    return Glance(**values)  # type: ignore[arg-type]


def test_a_line_says_all_numbers_and_why_the_first_waits() -> None:
    line = as_line(glance())
    for part in ("01:02", "3/9", "1 waiting", "1 running", "8/64", "racks used 1", "partial 0"):
        assert part in line
    assert "t/[g] waits: no room: 1 of 2 placeable" in line
    assert "step 10/100 loss 1.5" in line
    assert "waits" not in as_line(glance(waiting=[]))


def test_the_table_says_the_same_and_keeps_odd_names() -> None:
    console = Console(width=110, color_system=None)
    with console.capture() as capture:
        console.print(as_table(glance()))
    text = capture.get()
    for part in ("01:02", "3/9", "8/64", "1.25", "no room: 1 of 2 placeable", "62 min"):
        assert part in text


def test_lines_come_every_three_seconds_and_cost_nothing_in_between() -> None:
    now, looks = [0.0], []

    def look() -> Glance:
        looks.append(now[0])
        return glance()

    out = io.StringIO()
    with Display(Console(file=out, width=200), clock=lambda: now[0]) as display:
        for second in range(8):
            now[0] = float(second)
            display.update(look)
        display.update(look, force=True)
    assert looks == [0.0, 3.0, 6.0, 7.0]
    assert out.getvalue().count("gangs: 3/9 arrived") == 4
