"""A line that is not understood ends a replay with its number and the reason, and never worse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scheduler import cli
from scheduler.commands.replay import NOT_UNDERSTOOD
from scheduler.errors import ReplayError
from scheduler.simulation.replay import replay
from tests.builders import node, pod

BEFORE = [{"op": "node", "object": node("n1", gpu=8)}, {"op": "pod", "object": pod("t/a", gpu=1)}]


def deep(levels: int) -> Any:
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


REFUSED: list[tuple[str, Any]] = [
    ("not known", {"op": "nod"}),
    ("not known", {"op": 3}),
    ("victims", {"op": "preempt", "pod": "t/a", "victims": 5}),
    ("list of node names", {"op": "preempt", "pod": "t/a", "victims": {"n1": "uid"}}),
    ("list of node names", {"op": "preempt", "pod": "t/a", "victims": {"n1": None}}),
    (
        "list of objects",
        {
            "op": "preempt",
            "request": {"Pod": pod("t/a"), "NodeNameToVictims": {"n1": {"Pods": [None]}}},
        },
    ),
    ("victims", {"op": "preempt", "request": {"Pod": pod("t/a"), "NodeNameToMetaVictims": [1]}}),
    (
        "list of node names",
        {"op": "filter", "request": {"Pod": pod("t/a"), "Nodes": {"items": [{}]}}},
    ),
    ("list of objects", {"op": "filter", "request": {"Pod": pod("t/a"), "Nodes": {"items": 3}}}),
    ("nested too deeply", {"op": "pod", "object": {"metadata": {"name": "x"}, "x": deep(900)}}),
    ("not the kind", {"op": "delete", "kind": "pod", "name": "a"}),
    ("in the op for a Node", {"op": "node", "object": {"kind": "Pod", "metadata": {"name": "n"}}}),
    ("not a kind", {"op": "object", "object": {"kind": "node", "metadata": {"name": "n"}}}),
    ("text is needed", {"op": "state", "gang": 3}),
    ("seconds", {"op": "advance", "seconds": "1"}),
    ("seconds", {"op": "advance", "seconds": -1}),
    ("before the first other op", {"op": "config", "auto": True}),
]


@pytest.mark.parametrize(("words", "line"), REFUSED, ids=lambda value: str(value)[:40])
def test_the_line_is_named_and_what_is_wrong_with_it(words: str, line: Any) -> None:
    lines = [json.dumps(one) for one in (*BEFORE, line, {"op": "state"})]
    with pytest.raises(ReplayError, match=words) as caught:
        list(replay(lines))
    assert caught.value.line == 3


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"op":"why","gang":"t/\\ud800"}', "\x00"])
def test_text_that_is_no_usable_object_is_refused(text: str) -> None:
    with pytest.raises(ReplayError) as caught:
        list(replay(["# a comment", "", text]))
    assert caught.value.line == 3
    assert str(caught.value).count("line") == 1


@pytest.mark.parametrize(
    "config",
    [
        {"accelerators": ["a*b"]},
        {"accelerators": ["*"]},
        {"accelerators": []},
        {"scheduler_names": []},
        {"levels": ["a", "a"]},
        {"timeout_s": 0},
        {"retry_s": 0},
        {"start": "later"},
        {"levelz": []},
        {"auto": 1},
    ],
    ids=str,
)
def test_a_setting_that_cannot_work_is_refused_with_its_name(config: dict[str, Any]) -> None:
    with pytest.raises(ReplayError, match=next(iter(config))):
        list(replay([json.dumps({"op": "config", **config})]))


def test_fail_needs_effects_that_end_by_themselves() -> None:
    lines = ['{"op":"config","auto":false}', '{"op":"fail","effect":"bind","result":"error"}']
    with pytest.raises(ReplayError, match="auto"):
        list(replay(lines))


def test_a_mark_at_the_start_of_the_file_is_no_fault() -> None:
    assert list(replay(["\ufeff" + '{"op":"state"}']))


def test_the_command_prints_what_came_before_and_ends_with_two(tmp_path: Any) -> None:
    import typer

    from scheduler.commands.replay import replay as command

    file = tmp_path / "broken.jsonl"
    file.write_text('{"op":"state"}\n{"op":"nod"}\n{"op":"state"}\n')
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, [str(file)])
    assert done.exit_code == NOT_UNDERSTOOD
    assert done.stdout.count('"op":"state"') == 1
    assert "line 2" in done.stderr


def command(*arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    words = ["replay", *arguments]
    ran = CliRunner().invoke(cli.build(words), words, input=given)
    return ran.exit_code, ran.stdout, ran.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    expected = f"muster replay: cannot read {path}: No such file or directory\n"
    assert command(str(path)) == (NOT_UNDERSTOOD, "", expected)


def test_no_refusal_is_longer_than_people_read(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_text(json.dumps({"op": "x" * 5_000}))
    ran = CliRunner().invoke(cli.build(["replay"]), ["replay", str(file)])
    assert (ran.exit_code, "line 1: op 'xxx" in ran.stderr) == (2, True)
    assert len(ran.stderr) <= 1_001


def test_bytes_that_are_no_text_are_told_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_bytes(b'{"op":"state"}\n\xff\n')
    status, out, err = command(str(path))
    assert (status, len(out.splitlines())) == (NOT_UNDERSTOOD, 1)
    assert f"{path}, line 2: it is not UTF-8" in err


def test_a_reader_that_has_enough_is_left_in_silence() -> None:
    line = b'{"op":"state"}\n' * 20_000
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        ran = subprocess.run(
            [sys.executable, "-m", "scheduler", "replay"],
            input=line,
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert ran.stderr == b""


def test_what_cannot_be_read_of_a_node_is_told_beside_the_output() -> None:
    broken = node("n1", gpu=8)
    broken["status"]["allocatable"]["cpu"] = "xx"
    line = json.dumps({"op": "node", "object": broken}).encode()
    status, out, err = command(given=b"# a comment\n" + line + b'\n{"op":"state"}\n')
    assert (status, json.loads(out)["free"]["n1"]["cpu"]) == (0, "0")
    assert err.startswith('muster replay: warning: line 2: node n1: status.allocatable["cpu"]: ')
    assert err.rstrip().endswith("counted as 0")
