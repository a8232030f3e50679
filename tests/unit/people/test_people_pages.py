"""docs/cli.md and docs/page.md say what the commands and the metrics are."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from people_site import Site, muster

from scheduler import cli, decode
from scheduler.core import fragmentation
from tests import builders

DOCS = Path(__file__).parents[3] / "docs"
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")
PAGE = (DOCS / "page.md").read_text(encoding="utf-8")
COMMANDS = ("status", "gangs", "why", "top", "fit")


def test_every_option_of_the_commands_is_described_and_no_other() -> None:
    known = {
        name
        for command in COMMANDS
        for option in typer.main.get_command(cli.build([command])).commands[command].params  # type: ignore[attr-defined]
        for name in option.opts
        if name.startswith("-")
    }
    table = CLI.partition("## Options")[2].partition("## ")[0]
    assert set(re.findall(r"`(--?[a-zA-Z][\w-]*)`", table)) == known


def test_the_example_is_what_the_command_prints(here: Site) -> None:
    here.gang("other", 7, 8)
    ample = {"cpu": "32", "memory": "64Gi"}
    here.gang("train", 2, 8, options={"topology-required": "rack"}, **ample)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", CLI, re.MULTILINE | re.DOTALL)
    assert muster("why", "t/train", "--server", here.url).out == shown


def test_every_line_and_key_of_why_is_described(here: Site) -> None:
    here.gang("other", 7, 8)
    here.gang("train", 2, 8, options={"topology-required": "rack"})
    here.pod("t/half-0", gpu=8, gang="half", min=3)
    table = CLI.partition("| line | key |")[2].partition("\n\n")[0]
    for gang in ("train", "half", "other"):
        why = here.get(f"/v1/gangs/t/{gang}/why")
        for key in why.keys() - {"gang", "never", "code"}:
            assert f"`{key}`" in table, key


def test_every_key_of_fit_is_described(here: Site) -> None:
    here.gang("other", 7, 8)
    rack = {"topology-required": "rack"}
    pods = [builders.pod(f"t/f-{at}", gpu=8, gang="f", min=2, options=rack) for at in range(2)]
    row = PAGE.partition("| `POST /v1/fit` |")[2].partition("\n")[0]
    for asked in (pods[:1], pods, [builders.pod("t/one", gpu=8)]):
        for key in here.service.fit([decode.pod(pod) for pod in asked]).keys() - {"warnings"}:
            assert f"`{key}`" in row, key


def test_every_computed_metric_is_described_and_no_other(idle: Site) -> None:
    text = idle.text("/metrics")
    names = set(re.findall(r"^# TYPE (muster_\w+) gauge$", text, re.MULTILINE))
    told = r"^# TYPE (muster_(?:gang|watch)_\w+) histogram$"
    names |= set(re.findall(told, text, re.MULTILINE))
    names = {name for name in names if not name.endswith("_created")}
    table = PAGE.partition("## As metrics")[2].partition("A gang has started")[0]
    described = set(re.findall(r"`(muster_\w+)`", table)) - {"muster_expired_reservations_total"}
    assert described == names | {"muster_fragmentation"}


def test_the_sizes_are_those_of_the_text() -> None:
    assert fragmentation.SIZES == (1, 2, 4, 8)
    assert "1, 2, 4 or 8 accelerators" in PAGE


def test_the_list_of_commands_names_them_all() -> None:
    ran = muster("--help")
    for command in COMMANDS:
        assert re.search(rf"^\W*{command}\s", ran.out, re.MULTILINE), command
