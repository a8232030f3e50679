"""Writes docs/reference from the code (settings, commands, metrics, reasons), the table of keys in
docs/keys.md, and the list of decisions.

``python -m docs.generate`` writes the pages, ``python -m docs.generate --check`` says whether they
are up to date. What a thing means is said once, where it is defined; here it is only laid out.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from scheduler import cli
from scheduler.api.figures import figures
from scheduler.core import engine, overview
from scheduler.core.gang import Reason, Stage
from scheduler.dialects.muster import KEYS
from scheduler.service.metrics import Metrics
from scheduler.service.ports import Totals
from scheduler.settings import ENVIRONMENT_PREFIX, Settings
from trainer import cli as trainer_cli

DOCS = Path(__file__).parent

_HEADER = "<!-- Written by `python -m docs.generate` from the code; change it there. -->\n"
_KEYS_FROM = "<!-- keys: from scheduler/dialects/muster.py, by `python -m docs.generate` -->\n"
_KEYS_TO = "<!-- end of keys -->"
_TOLD_DEFAULT = re.compile(r" \[default: ([^\]]*)\]")
Row = Sequence[str]


def pages() -> dict[str, str]:
    """Path below docs/ of each page that is generated -> its text."""
    made: dict[str, Callable[[], Iterator[str]]] = {
        "reference/settings.md": _settings,
        "reference/commands.md": _commands,
        "reference/metrics.md": _metrics,
        "reference/reasons.md": _reasons,
        "decisions/index.md": _decisions,
    }
    whole = {name: _HEADER + "\n" + "\n".join(page()) + "\n" for name, page in made.items()}
    return {**whole, "keys.md": _with_keys(_read(DOCS / "keys.md"))}


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or say which are not up to date. The exit status."""
    stale = {name: text for name, text in pages().items() if _read(DOCS / name) != text}
    if "--check" in arguments:
        for name in stale:
            sys.stderr.write(f"docs/{name} is not up to date: python -m docs.generate\n")
        return 1 if stale else 0
    for name, text in stale.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
    return 0


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


# ── pages ──


def _settings() -> Iterator[str]:
    told = _told(Settings)
    yield from (
        "# Settings",
        "",
        "In the file that `muster serve --config` names (TOML; in the manifest the ConfigMap",
        f"`muster`), or as variables `{ENVIRONMENT_PREFIX}<NAME>`, which win over it, with lists",
        "separated by commas. A setting that is misspelt or of the wrong kind stops Muster at its",
        "start, with its name in the log.",
        "",
    )
    yield from _table(
        ("name", "default", "meaning"),
        (
            (f"`{item.name}`", f"`{_plain(getattr(Settings(), item.name))}`", told[item.name])
            for item in fields(Settings)
        ),
    )


def _commands() -> Iterator[str]:
    yield from ("# Commands", "", "Each says the same with `--help`.")
    for name in cli.COMMANDS:
        yield from _command("muster", name, _group(cli.build([name])).commands[name])
    for name, command in _group(trainer_cli.app).commands.items():
        yield from _command("muster-train", name, command)


def _metrics() -> Iterator[str]:
    yield from (
        "# Metrics",
        "",
        "At `/metrics`, for Prometheus. Histograms have `_bucket`, `_sum` and `_count`, counters",
        "end in `_total`. The usual figures of a Python process are there too.",
        "",
    )
    yield from _table(
        ("name", "kind", "labels", "meaning"),
        sorted(_all_metrics()),
    )


def _reasons() -> Iterator[str]:
    yield from ("# States and reasons", "", "## States", "", "`state` of a gang.", "")
    yield from _table(("state", "meaning"), _members(Stage))
    yield from (
        "",
        "## Reasons",
        "",
        "`code` of a gang, and the label `reason` of `muster_gang_reasons`. People read",
        "`reason`, which says it in a sentence, with names and amounts.",
        "",
    )
    yield from _table(("reason", "meaning"), (row for row in _members(Reason) if row[0] != "``"))


def _with_keys(page: str) -> str:
    """The page on keys, with the table between its two marks written anew."""
    before, start, rest = page.partition(_KEYS_FROM)
    _, end, after = rest.partition(_KEYS_TO)
    assert end, "docs/keys.md has lost the marks around its table"
    rows = ((f"`{name}`", key.value, key.meaning) for name, key in KEYS.items())
    table = "\n".join(_table(("key", "value", "meaning"), rows))
    return f"{before}{start}\n{table}\n{end}{after}"


def _decisions() -> Iterator[str]:
    yield from ("# Decisions", "", "Why some things are as they are.", "")
    for file in sorted((DOCS / "decisions").glob("0*.md")):
        title = file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        yield f"* [{title.replace('. ', ': ', 1)}]({file.name})"


# ── how things are laid out ──


def _table(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _command(program: str, name: str, command: Any) -> Iterator[str]:
    help_text = inspect.cleandoc(command.help or "").partition("\f")[0]
    yield from ("", f"## {program} {name}", "", help_text, "")
    options = [option for option in command.params if not getattr(option, "hidden", False)]
    if options:
        yield from _table(("option", "default", "meaning"), map(_option, options))


def _option(option: Any) -> Row:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.param_type_name == "argument":
        names = f"`{(option.metavar or option.name).upper()}`"
    meaning, told = _split_default(getattr(option, "help", None) or "")
    return names, _default(option) or told, meaning


def _split_default(help_text: str) -> tuple[str, str]:
    """A default that the help's text tells goes into its own column."""
    told = _TOLD_DEFAULT.search(help_text)
    if told is None:
        return help_text, ""
    default = told[1] if " " in told[1] else f"`{told[1]}`"
    return help_text.replace(told[0], ""), default


def _default(option: Any) -> str:
    default = option.default
    if callable(default) or default in (None, False, "", ()):
        return ""
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _group(app: typer.Typer) -> Any:
    return typer.main.get_command(app)


def _plain(value: object) -> str:
    if isinstance(value, Enum):
        return f'"{value.value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{item}"' for item in value) + "]"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _members(kind: type[Enum]) -> Iterator[Row]:
    told = _told(kind)
    return ((f"`{member.value}`", told[member.name]) for member in kind)


def _told(kind: type) -> Mapping[str, str]:
    """Name of each field or member -> the text below it. Fails for one without a text."""
    (body,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, after in zip(body.body, body.body[1:], strict=False):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split()).replace("``", "`")
    return found


# ── metrics ──


def _all_metrics() -> Iterator[tuple[str, str, str, str]]:
    empty = engine.new_state(Settings())
    counted = [item for item in vars(Metrics()).values() if isinstance(item, MetricWrapperBase)]
    computed = figures(overview.overview(empty) | {"fragmentation": 0.0}, Totals(0, 0))
    every: tuple[Any, ...] = (*counted, *computed)
    for item in every:
        # The client keeps the names of the labels of a metric without samples to itself.
        labels = ", ".join(f"`{name}`" for name in item._labelnames)
        (family,) = (item,) if isinstance(item, Metric) else item.describe()
        yield f"`{_exported(family)}`", family.type, labels, family.documentation


def _exported(metric: Metric) -> str:
    return metric.name + ("_total" if metric.type == "counter" else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
