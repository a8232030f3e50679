"""README and docs: every file, command, option, setting and key that they name is there."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.generate import pages
from scheduler import cli
from scheduler.api import create_app
from scheduler.dialects import muster
from scheduler.errors import ReplayError
from scheduler.service import Service
from scheduler.settings import ENVIRONMENT_PREFIX, Settings
from scheduler.simulation.replay import replay
from trainer import cli as trainer_cli
from trainer.hints import parse

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(
    r"(?<![\w./-])(?:deploy|docs|scheduler|tests|trainer|benchmarks|locks)/[\w./-]*\w"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")

EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def _blocks(page: Path, language: str) -> list[str]:
    found = _FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


def _code(page: Path) -> Iterator[str]:
    """Inline code, and the lines of shell blocks without their comments."""
    text = page.read_text(encoding="utf-8")
    yield from _SPAN.findall(_FENCE.sub("", text))
    for block in _blocks(page, "sh"):
        yield from (line.partition(" #")[0].strip() for line in block.splitlines())


def _anchors(page: Path) -> set[str]:
    """Anchors of the headings, as forges make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _rows(page: Path, heading: str) -> list[list[str]]:
    """Cells of the first table below a heading."""
    text = page.read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    lines = re.search(r"^\|.*?(?=^[^|]|\Z)", text, re.MULTILINE | re.DOTALL)
    assert lines is not None, f"{page.name} has no table below {heading}"
    return [line.strip("|").split(" | ") for line in lines[0].splitlines()[2:] if line]


# ── what pages refer to ──


@EVERY_PAGE
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file), target


@EVERY_PAGE
def test_every_path_of_the_repository_exists(page: Path) -> None:
    for code in _code(page):
        for path in _PATH.findall(code):
            assert (ROOT / path).exists() or code.startswith("python -m"), path


@EVERY_PAGE
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {match for code in _code(page) for match in re.findall(r"^make ([a-z0-9-]+)", code)}

    assert named <= targets


@EVERY_PAGE
def test_every_command_exists_with_its_options(page: Path) -> None:
    for code in _code(page):
        for program, command, rest in re.findall(
            r"(?:^|[|(] ?)(muster|muster-train) ([a-z][a-z-]*)(.*)", code
        ):
            known = _options(program, command)
            own = rest.partition("> ")[0].partition(" -- ")[0]
            for option in _OPTION.findall(own):
                assert option in known, f"{program} {command} has no {option}"


@EVERY_PAGE
def test_every_module_that_is_run_exists(page: Path) -> None:
    for code in _code(page):
        for module in re.findall(r"python -m ((?:deploy|scheduler|trainer|tests)[\w.]*)", code):
            file = ROOT / Path(*module.split("."))
            assert file.with_suffix(".py").is_file() or (file / "__main__.py").is_file(), module


@lru_cache
def _options(program: str, command: str) -> set[str]:
    app = cli.build([command]) if program == "muster" else trainer_cli.app
    group = typer.main.get_command(app)
    assert command in group.commands, f"{program} has no command {command}"  # type: ignore[attr-defined]
    found = group.commands[command]  # type: ignore[attr-defined]
    return {name for option in found.params for name in (*option.opts, *option.secondary_opts)}


def test_every_command_of_muster_is_in_the_docs() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)

    for command in cli.COMMANDS:
        assert f"muster {command}" in text or f"make {command}" in text, command


def test_the_reference_is_what_the_code_says() -> None:
    stale = [name for name, text in pages().items() if (ROOT / "docs" / name).read_text() != text]

    assert not stale, "python -m docs.generate"


def test_everything_in_the_reference_has_a_meaning() -> None:
    for name in ("settings.md", "metrics.md", "reasons.md", "commands.md"):
        rows = (ROOT / "docs/reference" / name).read_text().splitlines()
        empty = [row for row in rows if row.startswith("| `") and row.endswith("|  |")]

        assert not empty, name


def test_every_page_is_on_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text()

    for page in (ROOT / "docs").glob("*.md"):
        assert f" {page.name}\n" in site, page.name


# ── settings, keys, hint, paths ──


def test_every_setting_is_described_with_its_default() -> None:
    described = {
        name.strip("` "): tomllib.loads(f"v = {default.strip('` ')}")["v"]
        for name, default, _ in _rows(ROOT / "docs/install.md", "Settings")
    }

    assert described == {item.name: _plain(getattr(Settings(), item.name)) for item in _settings()}


def test_the_prefix_of_the_variables_is_the_one_that_is_read() -> None:
    assert f"`{ENVIRONMENT_PREFIX}<NAME>`" in (ROOT / "docs/install.md").read_text(encoding="utf-8")


def _settings() -> tuple[Any, ...]:
    return fields(Settings)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def test_every_key_that_is_read_is_described_and_no_other() -> None:
    rows = _rows(ROOT / "docs/keys.md", "What you may say")

    assert {row[0].strip("|` ") for row in rows} == set(muster.KEYS)


def test_every_field_of_the_hint_is_described_and_no_other() -> None:
    _, printed = _blocks(ROOT / "docs/replay.md", "jsonl")
    hints = [line["hint"] for line in map(json.loads, printed.splitlines()) if "hint" in line]
    page = (ROOT / "docs/hint.md").read_text(encoding="utf-8")

    assert hints
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(hints[0])


def test_the_hint_that_is_shown_is_one_that_the_trainer_reads() -> None:
    (shown,) = _blocks(ROOT / "docs/hint.md", "json")

    assert parse(shown).place == "b1/r3/n12"


def test_the_rehearsal_that_is_shown_has_hints_that_the_trainer_reads() -> None:
    shown = next(text for text in _blocks(ROOT / "docs/trainer.md", "json") if text.startswith("["))
    page = (ROOT / "docs/trainer.md").read_text(encoding="utf-8")

    hints = [parse(json.dumps(entry)) for entry in json.loads(shown)]

    places = [hint.place for hint in sorted(hints, key=lambda hint: hint.rank)]
    assert f'"rank_order": {json.dumps(places)}' in page


def test_what_a_binding_carries_beside_the_hint_is_told() -> None:
    page = (ROOT / "docs/keys.md").read_text(encoding="utf-8").partition("## What Muster writes")[2]

    for said in Settings().bind_annotations:
        assert f"`{said.partition('=')[0]}: " in page


def test_the_reference_has_defaults_in_their_own_column() -> None:
    page = pages()["reference/commands.md"]

    assert "| `--steps` | `150` |" in page
    assert "[default:" not in page


def test_every_path_of_the_service_is_described_and_no_other(service: Service) -> None:
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8").partition("## Looking at it")[2]
    described = set(re.findall(r"`(/[\w/{}]*)`", page))
    served = {route.path for route in create_app(service).routes if "GET" in route.methods}  # type: ignore[attr-defined]

    assert described == served - {"/openapi.json"}


class _NoEffects:
    """An actuator that is never asked."""

    def start(self, post: object) -> None:
        """Nothing to start."""

    def submit(self, effects: object) -> None:
        """Nothing to do."""

    def stop(self, deadline_s: float) -> None:
        """Nothing to stop."""


@pytest.fixture
def service() -> Service:
    return Service(Settings(), _NoEffects())


# ── examples ──


def test_the_replay_example_prints_what_the_page_says() -> None:
    given, printed = _blocks(ROOT / "docs/replay.md", "jsonl")

    assert list(replay(given.splitlines())) == printed.splitlines()


def test_the_tutorial_says_what_its_file_does() -> None:
    (given,) = _blocks(ROOT / "docs/tutorial.md", "jsonl")
    without = given.replace(',"muster.scheduler/topology-required":"rack"', "")

    answers = [json.loads(line) for line in replay(given.splitlines())]
    first, second = (one for one in answers if one.get("op") == "why")

    assert first["reason"] == "1 of 2 pods exist"
    assert second["never"]
    answers = [json.loads(line) for line in replay(without.splitlines())]
    assert '"topology' not in without
    assert {one["pod"]: one["node"] for one in answers if one.get("effect") == "bind"} == {
        "t/a-0": "n1",
        "t/a-1": "n2",
    }


def test_every_op_of_a_replay_is_described_and_no_other() -> None:
    with pytest.raises(ReplayError) as refusal:
        list(replay(['{"op":"unknown"}']))
    known = str(refusal.value).partition("known ops: ")[2].split(", ")

    rows = _rows(ROOT / "docs/replay.md", "In")

    assert sorted(op for row in rows for op in re.findall(r"`(\w+)`", row[0])) == sorted(known)


def test_the_tour_shows_what_muster_says() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = _blocks(ROOT / "README.md", "json")
    levels = ("example.com/block", "example.com/rack")
    lines = [{"op": "config", "levels": levels}]
    lines += [_node(name, rack) for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"))]
    lines.append(_pod("other-0", "other", nodeName="n2"))
    lines += [_pod(f"digits-{number}", "digits") for number in range(4)]
    lines.append({"op": "why", "gang": "team/digits"})

    *_, why = replay(json.dumps(line) for line in lines)

    assert {"op": "why", **json.loads(shown)} == json.loads(why)
    *_, held = replay(json.dumps(line) for line in [*lines[:-2], _filter("team/digits-0")])
    assert f"1 {json.loads(held)['unresolvable']['muster']}." in page


def _node(name: str, rack: str) -> dict[str, Any]:
    labels = {"example.com/block": "b1", "example.com/rack": rack}
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": name, "labels": labels}
    return {"op": "node", "object": {"metadata": metadata, "status": {"allocatable": room}}}


def _pod(name: str, gang: str, **spec: object) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": "4", "cpu": "16", "memory": "32Gi"}
    noted = {"muster.scheduler/gang": gang}
    if gang == "digits":
        noted["muster.scheduler/min-available"] = "4"
        noted["muster.scheduler/topology-required"] = "rack"
    container = {"name": "c", "resources": {"limits": limits}}
    metadata = {"name": name, "namespace": "team", "annotations": noted}
    whole = {"schedulerName": "muster", "containers": [container], **spec}
    return {"op": "pod", "object": {"metadata": metadata, "spec": whole}}


def _filter(pod: str) -> dict[str, Any]:
    return {"op": "filter", "pod": pod, "nodes": ["n1", "n2", "n3"]}


def test_the_example_of_a_test_is_one_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = _blocks(ROOT / "CONTRIBUTING.md", "python")
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from cases.story import Story

    names: dict[str, Any] = {"Story": Story}
    exec(text, names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    test()


def test_the_import_that_the_readme_shows_works() -> None:
    (text,) = _blocks(ROOT / "README.md", "python")
    line = text.splitlines()[0]

    names: dict[str, Any] = {}
    exec(line, names)

    assert callable(names["init_process_group"])
    assert "torch" not in line
    assert sys.modules["trainer.rendezvous"].init_process_group is names["init_process_group"]
