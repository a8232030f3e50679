"""The demo as people run it, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scheduler.commands.demo import waited

DEADLINE_S = 200
ROOT = Path(__file__).resolve().parents[3]


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "scheduler", "demo", *options]


def run(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("--out", str(out), *options), capture_output=True, text=True, timeout=DEADLINE_S
    )


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    # Whoever starts the tests in the background has them ignore SIGINT, and children inherit that.
    process = subprocess.Popen(
        command(*options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)
    return found


def descendants(pid: int) -> set[int]:
    """All processes below one, as long as their parents live."""
    found: set[int] = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        children = {int(child) for child in thread.read_text().split()}
        found |= children.union(*(descendants(child) for child in children))
    return found


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_two_runs_with_the_same_seed_print_the_same(tmp_path: Path) -> None:
    first, second = (
        run(tmp_path / f"{name}.svg", "--no-train", "--gangs", "60", "--seed", "7")
        for name in ("a", "b")
    )
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout.splitlines()[-1])
    assert result == json.loads(second.stdout.splitlines()[-1])
    assert (result["gangs"], result["started"], result["partial"]) == (60, 60, 0)
    assert result["pods_bound"] == 75
    assert "train" not in result
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()
    ElementTree.parse(tmp_path / "a.svg")


def test_the_whole_day_starts_and_looks_as_the_readme_shows_it(tmp_path: Path) -> None:
    """Which gang is where may change with every release; what the picture tells may not."""
    done = run(tmp_path / "demo.svg", "--no-train")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["started"], result["partial"]) == (result["gangs"], 0)
    drawn, shown = (told((folder / "demo.svg").read_text()) for folder in (tmp_path, ROOT / "docs"))
    assert drawn == shown, "write it anew: muster demo --no-train --out docs/demo.svg"


def told(picture: str) -> tuple[str, list[str]]:
    """Its title without its figures, and the node of each GPU."""
    title = re.findall(r">(The busiest moment, .*?)<", picture)
    return re.sub(r"\d+", "N", *title), re.findall(r"<title>(n\d+): ", picture)


def test_a_placed_gang_of_four_trains_in_topology_order(tmp_path: Path) -> None:
    done = run(tmp_path / "demo.svg", "--gangs", "5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    train = json.loads(lines[0])["train"]
    assert train["world"] == 4
    assert train["rank_order"] == sorted(train["rank_order"])
    assert len({place.rsplit("/", 1)[0] for place in train["rank_order"]}) == 1, "one rack"
    assert train["accuracy"] > 0.9
    assert "The busiest moment" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_being_stopped_ends_the_training_too(tmp_path: Path, number: signal.Signals) -> None:
    with running("--gangs", "5", "--out", str(tmp_path / "x.svg")) as process:
        children = until(lambda: descendants(process.pid))
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 130
        until(lambda: not any(alive(child) for child in children))
        assert process.stdout is not None
        assert process.stdout.read() == ""


def test_a_port_in_use_is_an_error_that_leaves_nothing_behind(tmp_path: Path) -> None:
    with running("--no-train", "--gangs", "5", "--hold", "--out", str(tmp_path / "x.svg")) as first:
        assert first.stderr is not None
        said = first.stderr.readline()
        port = said.split("http://127.0.0.1:")[1].split(",")[0]
        second = run(tmp_path / "y.svg", "--no-train", "--gangs", "5", "--port", port)
        assert second.returncode != 0
        assert f"cannot listen on 127.0.0.1:{port}" in second.stderr
        assert second.stderr.endswith("choose another --port\n")
        assert "Traceback" not in second.stderr
        while "The page stays up" not in first.stderr.readline():
            assert first.poll() is None
        os.kill(first.pid, signal.SIGINT)
        assert first.wait(DEADLINE_S) == 0
        assert first.stdout is not None
        assert json.loads(first.stdout.read().splitlines()[-1])["started"] == 5


def test_a_picture_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("")
    out = tmp_path / "file" / "demo.svg"
    done = run(out, "--no-train", "--gangs", "5")
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"cannot write the picture to {out}" in done.stderr
    assert "Traceback" not in done.stderr
    assert "embedded cluster" not in done.stderr


def test_waits_are_told_only_where_there_were_any() -> None:
    assert waited([]) == "all at once"
    assert waited([5.0, 300.0]) == "2 after waiting for room (up to 5m)"
