"""A line that is not understood ends a replay with its number and the reason, and never worse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

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
